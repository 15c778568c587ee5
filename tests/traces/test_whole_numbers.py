"""A table of whole numbers is read as numpy's `loadtxt` reads it, and anything else is left to it."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.traces import whole_numbers as module
from backfill.traces.whole_numbers import whole_numbers

numbers = st.integers(-(2**53), 2**53)
spaces = st.text(" \t", min_size=1, max_size=3)


@st.composite
def texts(draw):
    """A text with as many numbers in each line, and their number."""
    width = draw(st.integers(1, 5))
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        row = [str(draw(numbers)) for _ in range(width)]
        line = "".join(draw(spaces) + each for each in row) + draw(st.sampled_from(["", " "]))
        lines += [line, *[""] * draw(st.integers(0, 2))]
    head = ["; MaxProcs: 5.5", ";"] if draw(st.booleans()) else []
    return "\n".join([*head, *lines]) + draw(st.sampled_from(["", "\n"])), width


@given(texts(), st.integers(1, 40))
def test_equals_loadtxt_also_in_pieces(text_width, piece):
    text, width = text_width
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", piece)
        found = whole_numbers(text.encode(), width)
    assert found is not None
    assert (found == np.loadtxt(io.StringIO(text), comments=";", ndmin=2)).all()


@pytest.mark.parametrize(
    "text",
    [
        "1 2\n3\n",  # a number is missing
        "1 2\n3 4 5\n",
        "1 2\n3 4 5\n6\n",  # as many as in three lines of two
        "1 2\n3 4.5\n",
        "1 2\n3 1e5\n",
        "1 2\n3 +4\n",
        "1 2\n; a comment\n3 4\n",
        "1 2\n3 4 ; a comment\n",
        "1 2\n3 -\n",
        "1 2\n3 4-5\n",
        "1 2\n3 --4\n",
        "1 2\n- 3\n4 5 \n",
        "1 2\r\n3 4\r\n",
        "1 2\n3 nan\n",
        "1 2\n3 \u0664\n",
    ],
)
def test_other_texts_are_left_to_who_can_say_what_is_wrong(text):
    assert whole_numbers(text.encode(), 2) is None


def test_no_numbers():
    for text in ("", "; only a head", "; only a head\n\n"):
        assert whole_numbers(text.encode(), 3).shape == (0, 3)


def test_a_number_too_large_for_64_bits_is_still_too_large():
    for number in (b"99999999999999999999", b"-99999999999999999999"):
        assert abs(whole_numbers(b"1 " + number + b"\n", 2)[0, 1]) > 2.0**62
