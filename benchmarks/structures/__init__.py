"""Models with a structure of their own: linear, additive and the like."""
