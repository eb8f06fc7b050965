"""Noise that depends on the inputs beside one level for all rows: `make bench-noise`."""
