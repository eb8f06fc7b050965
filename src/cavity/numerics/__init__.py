"""Stable scalar maths, quadrature, linear algebra and the compiled kernels."""
