"""Circles of predecessors: each is found once, and finding thousands takes no longer than reading them."""

import time

from hypothesis import given
from hypothesis import strategies as st

from backfill.model.precedence import circles, in_order
from backfill.model.workload import Ragged


def one_by_one(lists):
    """The obvious version: walk to the first circle, let its first row come after nothing, and begin again."""
    lists, found = [list(each) for each in lists], []
    while stuck := set(range(len(lists))) - set(in_order(Ragged.of(lists))):
        path = [min(stuck)]
        while (row := next(each for each in lists[path[-1]] if each in stuck)) not in path:
            path.append(row)
        found.append([*path[path.index(row) :], row])
        lists[row] = []
    return found


@given(
    lists=st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=4, unique=True), min_size=n, max_size=n)
    )
)
def test_every_circle_is_found_in_the_order_of_the_rows(lists):
    assert list(circles(Ragged.of(lists))) == one_by_one(lists)


def test_many_circles_behind_a_long_chain_take_linear_time():
    """A chain of 10,000 rows, each of which also comes after a circle of two rows of its own."""
    n = 10_000
    chain = [[i + 1, n + 2 * i] for i in range(n - 1)] + [[3 * n - 2]]
    twos = [[n + (i ^ 1)] for i in range(2 * n)]
    begin = time.process_time()
    assert sum(1 for _ in circles(Ragged.of(chain + twos))) == n
    assert time.process_time() - begin < 5
