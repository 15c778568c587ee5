"""Numberings of names and codes, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.numbers import by_appearance, first_of_each, in_order

SMALL, LARGE = st.integers(-1, 6), st.integers(-(2**62), 2**62)


@given(st.lists(SMALL) | st.lists(LARGE), st.sampled_from([np.int64, np.int8]))
def test_the_place_among_the_different_values(values, kind):
    values = np.array(values, np.int64).astype(kind)
    count, place = in_order(values)
    different = sorted({*values.tolist()})
    assert count == len(different)
    assert [different[i] for i in place] == values.tolist()


@pytest.mark.parametrize("values", [[-128, 127], [127, -128, 0] * 40, [5] * 3])
def test_bytes_do_not_overflow(values):
    count, place = in_order(np.array(values, np.int8))
    different = sorted({*values})
    assert (count, [different[i] for i in place]) == (len(different), values)


@given(st.lists(SMALL) | st.lists(st.integers(-1, 2**62)))
def test_numbers_by_first_appearance(codes):
    known = {}
    expected = [-1 if code == -1 else known.setdefault(code, len(known)) for code in codes]
    found = by_appearance(np.array(codes, np.int64))
    assert found.tolist() == expected
    assert first_of_each(found).tolist() == [expected.index(number) for number in range(len(known))]
