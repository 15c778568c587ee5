"""Records that a kernel makes for itself: it holds them, and other kernels borrow their pointers."""

import gc

import numpy as np
import pytest
from numba import int64, uint64
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys

from backfill.compiler import jit
from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.pointer import borrow
from backfill.compiler.record import kept_array, record, shift_back, shift_forward, shift_rows_back, shift_rows_forward
from backfill.compiler.word import lowest, ones

PILE = [("height", int64), ("weights", int64[::1]), ("marks", uint64[:, ::1])]
Pile, PileT = record("Pile", PILE, globals())


@kernel()
def new_pile(height):
    return Pile(marks=np.zeros((height, 2), np.uint64), height=height, weights=np.arange(height))


@kernel()
def add_to(pile, row):
    pile.weights[row] += 5
    pile.marks[row, 1] |= np.uint64(6)
    pile.height += 1
    pile.weights = np.append(pile.weights, np.array([pile.height]))
    return pile.weights[row]


@kernel()
def load(held):
    pile = borrow(held)
    return add_to(pile, 2) + add_to(pile, 3) + 100 * pile.weights[-1 + len(pile.weights)]


@kernel(int64, int64)
def load_piles(count):
    total = 0
    for i in range(count):
        total += load(new_pile(5 + i % 2))
    return total


def test_a_kernel_makes_records_and_frees_them_with_all_that_they_hold():
    assert load_piles(2) == 2 * (7 + 8) + 100 * (7 + 8)
    if jit.PLAIN:
        return
    _nrt_python.memsys_enable_stats()
    gc.collect()
    before = rtsys.get_allocation_stats()
    load_piles(1000)
    after = rtsys.get_allocation_stats()
    assert after.alloc - after.free == before.alloc - before.free
    assert after.mi_alloc - after.mi_free == before.mi_alloc - before.mi_free


def test_python_reads_a_record_that_a_kernel_has_made():
    pile = new_pile(4)
    assert pile.height == 4
    assert pile.weights.tolist() == [0, 1, 2, 3]
    pile.height = 9
    assert add_to(pile, 1) == 6
    assert pile.height == 10
    assert pile.weights.tolist() == [0, 6, 2, 3, 10]
    with pytest.raises(AttributeError, match="depth"):
        assert pile.depth


def test_an_array_that_lasts_is_that_of_python_or_a_copy():
    weights = np.arange(4)
    pile = Pile(height=4, weights=weights, marks=np.zeros((4, 2), np.uint64))
    assert kept_array(pile, "weights") is weights
    add_to(pile, 1)  # makes another array
    for other in (pile, new_pile(3)):
        kept = kept_array(other, "weights")
        assert kept.flags.owndata
        assert kept.tolist() == other.weights.tolist()


@kernel()
def look_at(words):
    found = np.zeros((2, len(words)), np.int64)
    for i in range(len(words)):
        found[0, i], found[1, i] = ones(words[i]), lowest(words[i])
    return found


def test_the_bits_of_words_are_counted_and_found():
    words = np.array([0, 1, 2**63, 2**64 - 1, 2**40 + 2**7], np.uint64)
    expected = [[0, 1, 1, 64, 2], [64, 0, 63, 0, 7]]
    assert look_at(words).tolist() == expected
    assert [[ones(word) for word in words], [lowest(word) for word in words]] == expected


Box, BoxT = record("Box", [("size", int64), ("used", int64)], globals(), fixed=["size"])


@kernel(from_python=True, box=BoxT)
def fill(box):
    box.used = box.size - 1
    return box.used


@kernel(from_python=True, box=BoxT)
def widen(box):
    box.size += 1


def test_a_kernel_reads_a_fixed_field_and_cannot_write_it():
    box = Box(size=4, used=0)
    assert fill(box) == 3
    box.size = 9  # Python may, between calls
    assert (fill(box), box.used) == (8, 8)
    if not jit.PLAIN:
        with pytest.raises(NumbaError, match=r"Box\.size is declared as fixed, so no kernel may write it"):
            widen(box)


def test_a_field_that_is_fixed_must_be_there():
    with pytest.raises(TypeError, match="Crate has no lid, which is to be fixed"):
        record("Crate", [("size", int64)], globals(), fixed=["lid"])


@kernel(from_python=True, array=int64[:, ::1])
def shift(array, begin, end, how):
    if how == 0:
        shift_back(array[0], begin, end)
    elif how == 1:
        shift_forward(array[0], begin, end)
    elif how == 2:
        shift_rows_back(array, begin, end)
    else:
        shift_rows_forward(array, begin, end)


@pytest.mark.parametrize("how", range(4))
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (0, 6), (2, 5), (5, 6), (3, 3), (4, 3)])
def test_items_move_as_one_after_another(how, begin, end):
    array = np.arange(21).reshape(3, 7)
    wanted = array.copy()
    for row in wanted[: 1 if how < 2 else 3]:
        if how % 2 == 0:
            for i in range(end, begin, -1):
                row[i] = row[i - 1]
        else:
            for i in range(begin, end - 1):
                row[i] = row[i + 1]
    shift(array, begin, end, how)
    assert (array == wanted).all()


@kernel(from_python=True)
def added_up(count):
    total = 0
    for i in range(count):
        few_turns()
        total += i
    return total


def test_a_loop_of_few_turns_takes_any_number_of_turns():
    assert [added_up(count) for count in (0, 1, 2, 40)] == [0, 0, 1, 780]
