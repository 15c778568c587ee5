"""Scores are rounded in the bits of a number; that must be the rounding of its mantissa to 30 binary digits."""

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from backfill.compiler.kernel import kernel
from backfill.core.queue.order import rounded


@kernel()
def compiled(x):
    return rounded(x)


@given(x=st.floats(allow_nan=False))
@example(x=0.0)
@example(x=-math.inf)
@example(x=1.0 + 2.0**-30)  # half way between two numbers: to the even one
@example(x=1.0 + 3 * 2.0**-30)
@example(x=2.0 - 2.0**-50)  # to the next power of two
@example(x=5e-324)
@example(x=-(2.0**-1022) * (1 - 2.0**-40))
@example(x=2.0**-800)
def test_a_score_is_rounded_to_30_binary_digits_ties_to_even(x):
    mantissa, exponent = math.frexp(x)
    whole = float(np.rint(mantissa * 2.0**30))
    try:
        expected = math.ldexp(whole, exponent - 30)
    except OverflowError:
        expected = math.copysign(math.inf, x)
    assert compiled(x) == expected
