"""Classes, many more inputs than rows, and outliers: `make bench-structures`."""
