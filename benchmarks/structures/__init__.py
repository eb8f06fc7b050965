"""Classes, many more inputs than rows, outliers, linear models: `make bench-structures`."""
