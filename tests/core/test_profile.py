"""The blocks of a profile against a plain list of bookings: every step, every question, after any operations."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.compiler.kernel import kernel
from backfill.core.plan import profile as fast
from backfill.core.plan.profile import BLOCK, FUTURE, available, new_profile
from tests.reference.lanes import Lanes


@kernel()
def next_change(profile, lane, after):
    """The first breakpoint of a lane later than `after`; FUTURE if there is none."""
    d, e = fast.find(profile, lane, after)
    d, e = fast.entry_after(profile, lane, d, e)
    return FUTURE if e < 0 else profile.time[e]


@kernel()
def free_around(profile, lane, t, amount):
    """Since when, and until when, an amount of the first resource stays free around an instant at which it is."""
    d, e = fast.find(profile, lane, t)
    _, first = fast.first_free(profile, lane, d, e, amount)
    d, last = fast.last_free(profile, lane, d, e, amount)
    _, behind = fast.entry_after(profile, lane, d, last)
    return profile.time[first], FUTURE if behind < 0 else profile.time[behind]


@kernel()
def entries(profile, lane, times, rooms):
    """Write the steps of a lane to times (n,) and rooms (n, K); returns how many, or -1 where a block's bounds lie."""
    n = 0
    for d in range(profile.blocks[lane]):
        b = profile.lane[lane, d]
        for e in range(b * BLOCK, b * BLOCK + profile.count[b]):
            times[n] = profile.time[e]
            for c in range(profile.columns):
                rooms[n, c] = available(profile, lane, d, e, c)
                if not profile.least[c, b] <= rooms[n, c] <= profile.most[c, b]:
                    return -1
            n += 1
    return n


@kernel()
def lifted(profile, lane):
    """Return how many blocks of a lane carry a lift."""
    n = 0
    for d in range(profile.blocks[lane]):
        n += profile.lift[0, profile.lane[lane, d]] != 0
    return n


class Both:
    """The profile and its twin side by side: each operation is done to both, each question asked of both."""

    def __init__(self, capacity, horizon=0):
        self.twin = Lanes(capacity, horizon)
        self.fast = new_profile(np.array(capacity, np.int64))
        self.resources = len(capacity[0])
        self.savepoints = []
        fast.trim(self.fast, horizon)

    def book(self, lane, begin, end, amounts, factor=1):
        matrix = np.array([amounts], np.int64)
        fast.book(self.fast, lane, begin, end, matrix, 0, factor)
        self.twin.book(lane, begin, end, tuple(factor * amount for amount in amounts))

    def trim(self, now):
        fast.trim(self.fast, now)
        self.twin.horizon = now

    def savepoint(self):
        self.savepoints.append((fast.savepoint(self.fast), list(self.twin.bookings)))

    def rollback(self):
        mark, self.twin.bookings = self.savepoints.pop()
        fast.rollback(self.fast, mark)

    def commit(self):
        self.savepoints.pop()
        fast.commit(self.fast)

    def clear(self, capacity, horizon):
        fast.clear(self.fast, np.array(capacity, np.int64))
        self.twin, self.savepoints = Lanes(capacity, horizon), []

    def earliest(self, lane, amounts, begin, before=FUTURE, until=FUTURE, length=1):
        matrix = np.array([amounts], np.int64)
        found = fast.earliest(self.fast, lane, matrix, 0, 1, begin, before, until, length)
        assert found == self.twin.earliest(lane, amounts, begin, before, until, length)
        assert fast.earliest_of_many(self.fast, lane, matrix, 0, 1, begin, before, until, length) == found
        return found

    def shift(self, lane, begin, end, by, amounts):
        matrix = np.array([amounts], np.int64)
        fast.book(self.fast, lane, begin, end, matrix, 0, fast.GIVE)
        fast.book(self.fast, lane, begin + by, end + by, matrix, 0, fast.TAKE)
        self.twin.book(lane, begin, end, tuple(-amount for amount in amounts))
        self.twin.book(lane, begin + by, end + by, amounts)

    def ask(self, lane, amounts, begin, end):
        """Everything that can be asked without a search."""
        matrix = np.array([amounts], np.int64)
        out = np.full((2, self.resources), -99, np.int64)
        fast.least_over(self.fast, lane, begin, end, out, 1)
        assert tuple(out[1].tolist()) == self.twin.least(lane, begin, end)
        assert next_change(self.fast, lane, begin) == self.twin.next_change(lane, begin)
        if begin > self.twin.horizon:
            since = max(fast.free_since(self.fast, lane, matrix, 0, 1, begin), self.twin.horizon)
            assert since == self.twin.free_since(lane, amounts, begin)
        room = self.twin.least(lane, begin, begin + 1)[0]
        for amount in {room, min(room, amounts[0])} if begin >= self.twin.horizon else ():
            since, until = free_around(self.fast, lane, begin, amount)
            assert (max(since, self.twin.horizon), until) == self.twin.free_around(lane, amount, begin)

    def steps(self, lane):
        """From the horizon on; what is older is nobody's concern."""
        size = int(self.fast.blocks[lane]) * BLOCK
        times, rooms = np.empty(size, np.int64), np.empty((size, self.resources), np.int64)
        n = entries(self.fast, lane, times, rooms)
        assert n > 0, "an availability lies outside the bounds of its block"
        assert (np.diff(times[:n]) > 0).all()
        begin = np.searchsorted(times[:n], self.twin.horizon, "right") - 1
        assert begin >= 0, "the step at the horizon was let go"
        times[begin] = self.twin.horizon
        return list(zip(times[begin:n].tolist(), map(tuple, rooms[begin:n].tolist()), strict=True))

    def agree(self):
        for lane in range(len(self.twin.capacity)):
            assert self.steps(lane) == self.twin.steps(lane)

    def blocks(self, lane):
        return int(self.fast.blocks[lane])


@dataclass
class Run:
    """What a list of operations works on. Times in it count from the horizon, so that the past is seldom booked."""

    both: Both
    booked: list  # groups of bookings, each a list of arguments of Both.book


lanes = st.integers(0, 2)
instants = st.integers(-4, 60)
lengths = st.integers(1, 30)
needs = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))
factors = st.sampled_from([1, 1, 1, 2, -1])


def narrowed(run, lane, amounts):
    return lane % len(run.both.twin.capacity), amounts[: run.both.resources]


def book(run, lane, amounts, begin, length, step, count, factor):
    """A row of equal bookings, `step` apart; where they do not touch, each makes two entries."""
    lane, amounts = narrowed(run, lane, amounts)
    begin += run.both.twin.horizon
    run.booked.append([(lane, begin + i * step, begin + i * step + length, amounts, factor) for i in range(count)])
    for booking in run.booked[-1]:
        run.both.book(*booking)


def give_back(run, which):
    if run.booked:
        for lane, begin, end, amounts, factor in run.booked.pop(which % len(run.booked)):
            run.both.book(lane, begin, end, amounts, -factor)


def trim(run, ahead):
    run.both.trim(run.both.twin.horizon + ahead)


def savepoint(run):
    run.both.savepoint()


def rollback(run):
    if run.both.savepoints:
        run.both.rollback()


def commit(run):
    if run.both.savepoints:
        run.both.commit()


def search(run, lane, amounts, begin, window, beyond, length):
    lane, amounts = narrowed(run, lane, amounts)
    begin = max(begin, 0) + run.both.twin.horizon
    run.both.earliest(lane, amounts, begin, length=length)
    run.both.earliest(lane, amounts, begin, begin + window, FUTURE, length)
    run.both.earliest(lane, amounts, begin, begin + window, begin + window + beyond, length)


def ask(run, lane, amounts, begin, length):
    lane, amounts = narrowed(run, lane, amounts)
    begin = max(begin, 0) + run.both.twin.horizon
    run.both.ask(lane, amounts, begin, begin + length)


def improve(run, lane, amounts, begin, away, length):
    """A better start than the one held is found beside the own booking, as if it were lifted out."""
    both = run.both
    lane, amounts = narrowed(run, lane, amounts)
    begin = max(begin, 0) + both.twin.horizon
    held = both.earliest(lane, amounts, begin + away, length=length)
    if held == FUTURE:
        return
    without = both.twin.earliest(lane, amounts, begin, held, FUTURE, length)
    both.book(lane, held, held + length, amounts)
    matrix = np.array([amounts], np.int64)
    assert fast.earliest(both.fast, lane, matrix, 0, 1, begin, held, held, length) == without
    run.booked.append([(lane, held, held + length, amounts, 1)])


def operation(do, *arguments):
    return st.tuples(st.just(do), *arguments)


one_booking = operation(book, lanes, needs, instants, lengths, st.just(1), st.just(1), factors)
a_row = operation(
    book, lanes, needs, instants, st.integers(1, 3), st.sampled_from([2, 3]), st.integers(30, 90), st.just(1)
)
operations = st.one_of(
    one_booking,
    a_row,
    operation(give_back, st.integers(0, 20)),
    operation(trim, st.integers(0, 40)),
    operation(savepoint),
    operation(rollback),
    operation(commit),
    operation(search, lanes, needs, instants, lengths, st.integers(0, 20), lengths),
    operation(ask, lanes, needs, instants, st.integers(0, 30)),
    operation(improve, lanes, needs, instants, lengths, lengths),
)
capacities = st.integers(1, 3).flatmap(
    lambda resources: st.lists(st.tuples(*[st.integers(0, 6)] * resources), min_size=1, max_size=3)
)


@settings(max_examples=5 * settings().max_examples)
@given(capacities, st.lists(operations, min_size=1, max_size=25))
def test_any_operations_leave_what_the_bookings_leave(capacity, todo):
    run = Run(Both(capacity), [])
    for do, *arguments in todo:
        do(run, *arguments)
        run.both.agree()
    while run.both.savepoints:
        run.both.rollback()
        run.both.agree()


TEETH = 5 * BLOCK
END = 10 * TEETH


@pytest.fixture
def comb():
    """Two lanes of 8 cpus and 8 gpus; one has so many gaps that it outgrows the blocks there were."""
    both = Both([(8, 8), (8, 8)])
    for i in range(TEETH):
        both.book(0, 10 * i, 10 * i + 5 + i % 3, (1 + i % 2, i % 3))
    return both


def test_a_lane_grows_to_many_blocks_and_shrinks_to_one(comb):
    assert comb.blocks(0) > 2 * TEETH / BLOCK  # two entries per tooth
    assert comb.blocks(1) == 1
    comb.agree()
    for i in reversed(range(TEETH)):
        comb.book(0, 10 * i, 10 * i + 5 + i % 3, (1 + i % 2, i % 3), -1)
        if i % 100 == 0:
            comb.agree()
    assert comb.blocks(0) == 1
    assert comb.steps(0) == [(0, (8, 8))]


def test_blocks_merge_while_entries_go_from_all_of_them(comb):
    before = comb.blocks(0)
    for i in reversed(range(TEETH)):
        if i % 8:
            comb.book(0, 10 * i, 10 * i + 5 + i % 3, (1 + i % 2, i % 3), -1)
    comb.agree()
    assert 1 < comb.blocks(0) < before / 2


def test_a_booking_over_many_blocks_lifts_the_inner_ones_whole(comb):
    comb.book(0, 15, END - 15, (3, 1))
    assert lifted(comb.fast, 0) > comb.blocks(0) / 2
    comb.agree()
    comb.earliest(0, (6, 0), 12, length=3)  # only in the gaps of the two ends
    assert comb.earliest(0, (6, 0), 20, length=3) > END - 20
    comb.earliest(0, (5, 7), 0, length=8)  # too long for every gap
    comb.earliest(0, (4, 6), 0, length=END)
    comb.book(0, 1005, 1007, (1, 1))  # cuts a block that carries a lift
    comb.book(0, 15, END - 15, (3, 1), -1)
    comb.agree()
    assert lifted(comb.fast, 0) == 0


def test_blocks_split_and_merge_under_their_lifts(comb):
    comb.book(0, 15, END - 15, (3, 1))
    blocks = comb.blocks(0)
    finer = [(0, t, t + 1, (1, 1)) for t in range(501, 1_501, 4)]
    for booking in finer:
        comb.book(*booking)
    assert comb.blocks(0) > blocks + 3
    comb.agree()
    comb.book(0, 700, 2_000, (1, 0))  # neighbours have lifts of their own
    for booking in reversed(finer):
        comb.book(*booking, -1)
    for i in reversed(range(TEETH)):
        comb.book(0, 10 * i, 10 * i + 5 + i % 3, (1 + i % 2, i % 3), -1)
        if i % 40 == 0:
            comb.agree()
    assert comb.steps(0) == [(t, room) for t, room in zip(
        (0, 15, 700, 2_000, END - 15), ((8, 8), (5, 7), (4, 7), (5, 7), (8, 8)), strict=True)]  # fmt: skip


@pytest.mark.parametrize("full", [0, 5])
@pytest.mark.parametrize("length", [1, 4, 5, 100, END])
def test_searches_pass_over_blocks(comb, length, full):
    comb.book(0, 700, 2_000, (full, full))  # blocks in which no entry has room, or the last one of a window has none
    for amounts in [(6, 6), (7, 8), (8, 0), (9, 0), (0, 0)]:
        for begin in (0, 7, 1_003, END // 2, END + 3):
            comb.earliest(0, amounts, begin, length=length)
            comb.earliest(0, amounts, begin, begin + 11, length=length)
            comb.earliest(0, amounts, begin, begin + 700, begin + 705, length)


def test_room_may_begin_and_end_where_a_block_does(comb):
    assert comb.blocks(0) > 3
    for t, _ in comb.steps(0)[5:140]:  # several blocks, each of their entries
        comb.savepoint()
        comb.book(0, 15, t, (3, 1))
        comb.earliest(0, (6, 6), 20, length=30)
        comb.rollback()
        comb.savepoint()
        comb.book(0, t, END, (8, 8))  # as if it were the searcher's own, held from t on
        comb.earliest(0, (6, 6), 12, t, t, length=700)
        comb.earliest(0, (6, 6), 12, t, length=700)
        comb.rollback()
    comb.agree()


def test_questions_about_many_blocks(comb):
    comb.book(0, 700, 2_300, (2, 2))
    for begin in (0, 5, 699, 700, 1_001, 2_300, END, END + 1):
        for length in (0, 1, 10, 3_000, END):
            comb.ask(0, (4, 4), begin, begin + length)
            comb.ask(0, (8, 7), begin, begin + length)


def test_the_past_goes_by_blocks_and_then_by_entries(comb):
    blocks, entries_before = comb.blocks(0), count(comb, 0)
    for now in range(100, 500, 3):
        comb.trim(now)
        comb.agree()
    comb.trim(END // 2)
    assert comb.blocks(0) < blocks * 0.6
    comb.agree()
    comb.trim(END - 10)
    assert comb.blocks(0) == 1
    assert count(comb, 0) < entries_before / 20
    comb.agree()
    comb.book(0, 0, END + 10, (1, 1))  # from the horizon on
    comb.agree()
    assert comb.twin.bookings[-1][1] == END - 10


def test_a_full_first_block_makes_room_by_letting_its_past_go():
    both = Both([(4,)])
    for i in range(BLOCK // 2 - 1):
        both.book(0, 10 + 2 * i, 11 + 2 * i, (1,))
    both.trim(15)  # six past entries: not too many to keep
    assert count(both, 0) == BLOCK - 1
    both.book(0, 1_000, 1_010, (1,))
    both.agree()
    assert (both.blocks(0), count(both, 0)) == (1, BLOCK - 1 - 6 + 2)


def test_a_clear_forgets_bookings_savepoints_and_the_horizon(comb):
    comb.trim(END // 2)
    comb.savepoint()
    comb.book(1, END, END + 5, (1, 1))
    comb.clear([(3, 2), (0, 1)], horizon=-9)
    comb.agree()
    assert (comb.blocks(0), comb.blocks(1)) == (1, 1)
    comb.book(0, -9, 5, (1, 1))
    comb.agree()
    assert (comb.fast.saved, comb.fast.noted) == (0, 0)


def test_bookings_move(comb):
    """Over others and past them, and into the past, where nothing is left of them."""
    comb.book(0, 107, 108, (1, 2))
    begin = 107
    for by in (-50, 1000, 13, -900):
        comb.shift(0, begin, begin + 1, by, (1, 2))
        begin += by
        comb.agree()
    comb.trim(150)
    comb.shift(0, begin, begin + 1, -100, (1, 2))
    comb.agree()


def test_savepoints_nest(comb):
    rooms = [comb.steps(0)]
    for depth in range(3):
        comb.savepoint()
        for i in range(5 * depth, 5 * depth + 40):
            comb.book(0, 31 * i, 31 * i + 700, (1, 0))
        rooms.append(comb.steps(0))
    comb.commit()  # the third is now part of the second
    assert comb.steps(0) == rooms[3]
    comb.rollback()
    assert comb.steps(0) == rooms[1]
    comb.savepoint()
    comb.book(0, 3, 4, (1, 1))
    comb.rollback()
    assert comb.steps(0) == rooms[1]
    comb.rollback()
    assert comb.steps(0) == rooms[0]
    comb.agree()


def test_after_a_commit_nothing_is_undone(comb):
    comb.savepoint()
    comb.book(0, 3, 400, (1, 1))
    comb.commit()
    assert comb.fast.noted == 0
    kept = comb.steps(0)
    comb.savepoint()
    comb.book(0, 4, 500, (1, 1))
    comb.rollback()
    assert comb.steps(0) == kept
    comb.agree()


def count(both, lane):
    size = both.blocks(lane) * BLOCK
    return int(entries(both.fast, lane, np.empty(size, np.int64), np.empty((size, both.resources), np.int64)))
