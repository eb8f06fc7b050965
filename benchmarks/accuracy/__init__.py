"""Accuracy of the defaults on real and simulated data: `make bench-accuracy`."""
