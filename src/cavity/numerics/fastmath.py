"""exp, log, erf and erfcx that LLVM can vectorise, for the compiled kernels only.

Numba from the package index links no vector maths library, so a call of ``math.exp`` in a loop
keeps the loop scalar. These are plain arithmetic and inline into it. Everything outside the
kernels uses NumPy and SciPy.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # first 32 bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer kept in the low bits

# erfcx(z) as a polynomial in t = (z - 3)/(z + 3), degree 20 Chebyshev interpolation computed with
# 60 digits; |1 - exp(-z²) p(t) - erf(z)| <= 8e-16 for all z >= 0.
_ERFCX = (
    0.17900115118139026,
    -0.3262335600430348,
    0.24560380171225352,
    -0.1501159365009694,
    0.07166583720110131,
    -0.024392499314173,
    0.00426913628355844,
    0.000707746389850488,
    -0.0005970615485219845,
    4.525559908731202e-05,
    6.405465303733037e-05,
    -1.2861636118628598e-05,
    -7.972456164964205e-06,
    2.12281761424295e-06,
    1.2415210714305528e-06,
    -2.985227243463459e-07,
    -2.208102995112378e-07,
    3.3372117416822674e-08,
    3.574382596423714e-08,
    -2.1616492483284326e-09,
    -3.4812520966333774e-09,
)
(
    _E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10,
    _E11, _E12, _E13, _E14, _E15, _E16, _E17, _E18, _E19, _E20,
) = _ERFCX  # fmt: skip


@intrinsic
def _float_bits(typingctx, x):
    """Reinterpret a float64 as an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _bits_float(typingctx, x):
    """Reinterpret an int64 as a float64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


# "contract" alone: fused multiply-adds are welcome, NaN and infinity keep their meaning.
INLINE = dict(forceinline=True, error_model="numpy", fastmath={"contract"})


@njit(**INLINE)
def exp_nonpositive(x):
    """e^x for x <= 0; relative error 3e-16 down to x = -708, and e^-708 ~ 3e-308 below it."""
    x = max(x, -708.0)
    t = x * _LOG2E + _ROUND
    n = t - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    # Taylor series to r^13: |r| <= 0.3466, remainder 0.3466^14/14! = 4e-18.
    low = 1.0 + r + r2 * (0.5 + r * (1.0 / 6.0) + r2 * (1.0 / 24.0 + r * (1.0 / 120.0)))
    high = (1.0 / 720.0 + r * (1.0 / 5040.0)) + r2 * (
        (1.0 / 40320.0 + r * (1.0 / 362880.0))
        + r2
        * ((1.0 / 3628800.0 + r * (1.0 / 39916800.0)) + r2 * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0)))
    )
    r4 = r2 * r2
    p = low + r4 * r2 * high
    scale = _bits_float((_float_bits(t) + np.int64(1023)) << np.int64(52))
    return p * scale


@njit(**INLINE)
def log_positive(x):
    """log x for normal positive x; absolute error 3e-16 plus half an ulp of the result."""
    bits = _float_bits(x)
    # the exponent that leaves a mantissa in (1/√2, √2]: 0x3FE6A09E667F3BCD are the bits of 1/√2
    n = (bits - np.int64(0x3FE6A09E667F3BCD)) >> np.int64(52)
    m = _bits_float(bits - (n << np.int64(52)))
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    s4 = s2 * s2
    # 2 atanh(s): |s| <= 0.1716, the first term left out is 2·0.1716^21/21 = 8e-18
    low = (1.0 + s2 / 3.0) + s4 * ((1.0 / 5.0 + s2 / 7.0) + s4 * (1.0 / 9.0 + s2 / 11.0))
    high = (1.0 / 13.0 + s2 / 15.0) + s4 * (1.0 / 17.0 + s2 / 19.0)
    return n * _LN2_HIGH + (n * _LN2_LOW + 2.0 * s * (low + s4 * s4 * s4 * high))


@njit(**INLINE)
def erfcx(z):
    """exp(z²) erfc(z) for z >= 0, absolute error 9e-16 (relative 3e-14 at z = 70)."""
    t = (z - 3.0) / (z + 3.0)
    t2 = t * t
    t4 = t2 * t2
    t8 = t4 * t4
    a = (_E0 + t * _E1) + t2 * (_E2 + t * _E3) + t4 * ((_E4 + t * _E5) + t2 * (_E6 + t * _E7))
    b = (_E8 + t * _E9) + t2 * (_E10 + t * _E11) + t4 * ((_E12 + t * _E13) + t2 * (_E14 + t * _E15))
    c = (_E16 + t * _E17) + t2 * (_E18 + t * _E19) + t4 * _E20
    return a + t8 * (b + t8 * c)


@njit(**INLINE)
def erf(x):
    """Error function, absolute error 8e-16 (relative accuracy near zero is not kept)."""
    z = abs(x)
    value = 1.0 - exp_nonpositive(-z * z) * erfcx(z)
    return value if x >= 0.0 else -value
