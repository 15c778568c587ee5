"""The queue against plain sorted lists: every head, walk and candidate, whatever comes, goes and moves meanwhile."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.compiler.kernel import kernel
from backfill.core.queue import walk as fast
from backfill.core.queue.places import BLOCK, CLASSES, DEEP, SHALLOW
from backfill.core.setup import state_of
from backfill.model.platform import Platform
from backfill.model.workload import Jobs
from tests.reference.queue import Asked, Queue

JOBS = 1_500
COME, GO, MOVE, HEAD, REWIND, FOLLOWING, CANDIDATE = range(7)


@kernel()
def act(state, what, slot, number):
    """One operation; what it gives, else -2."""
    if what == COME:
        fast.enqueue(state, number)
        fast.take_in(state)
    elif what == GO:
        fast.dequeue(state, number)
        fast.take_in(state)
    elif what == MOVE:
        fast.dequeue(state, number)
        fast.enqueue(state, number)
        fast.take_in(state)
    elif what == HEAD:
        return fast.head(state)
    elif what == REWIND:
        fast.rewind(state, slot)
    elif what == FOLLOWING:
        return fast.following(state, slot)
    elif what == CANDIDATE:
        return fast.candidate(state, slot, number)
    return np.int64(-2)


@kernel()
def give(state, free, extra):
    for k in range(state.machine.resources):
        state.free.nodes[0, k], state.shadow.extra[0, k] = free[k], extra[k]


@kernel()
def change(state, job, walltime, priority):
    state.jobs.walltime[job], state.jobs.priority[job] = walltime, priority


@kernel()
def form(state):
    """Return whether the queue lies in blocks, and how many places an order has."""
    return state.queue.deep, state.queue.places


@kernel()
def waiting(state, slot):
    return fast.waiting_jobs(state, slot)


@kernel()
def waits(state, slot):
    return fast.waiting_times(state, slot), fast.waiting_walltimes(state, slot)


@kernel()
def arrange(state, keys):
    fast.arrange_by(state, 0, keys)


@kernel()
def arrange_in_step(state, keys):
    line = fast.waiting_jobs(state, 0)
    found = np.empty(len(line))
    for i in range(len(line)):
        found[i] = keys[line[i]]
    fast.arrange_waiting(state, 0, found)


@kernel()
def wrong_entries(state):
    """Return how many entries in the tree of a queue in blocks are not the minimum of the entries below them."""
    q = state.queue
    wrong, leaves = 0, q.places // BLOCK
    for slot in range(q.slots):
        root = 2 * leaves * slot
        for node in range(1, 2 * leaves):
            for i in range(q.tree.shape[1]):
                least = np.float32(np.inf)
                if node < leaves:
                    least = min(q.tree[root + 2 * node, i], q.tree[root + 2 * node + 1, i])
                else:
                    block = node - leaves + slot * leaves
                    for place in range(block * BLOCK, block * BLOCK + q.count[block]):
                        if q.size[place] == i % CLASSES:
                            column = i // CLASSES
                            amount = q.walltime[place] if column == 0 else q.need[column - 1, place]
                            least = min(least, np.float32(amount))
                wrong += least != q.tree[root + node, i]
    return wrong


class Both:
    """The queue and its twin side by side: each operation is done to both, each question asked of both."""

    name = "easy"

    def __init__(self, order, tried, resources, seed):
        self.random = r = np.random.default_rng(seed)
        kinds = r.choice([2, 5, 300])
        needs = r.integers(1, r.choice([2, 9, 200], resources) + 1, (JOBS, resources))
        self.walltime = r.integers(1, kinds + 1, JOBS) * 1_000_000
        self.priority = r.integers(0, kinds, JOBS).astype(float)
        self.needs = needs
        submit = np.sort(r.integers(0, JOBS // 2, JOBS)) * 1_000_000
        jobs = Jobs(
            job=np.arange(JOBS),
            submit=submit,
            runtime=self.walltime,
            walltime=self.walltime,
            demand=needs,
            priority=self.priority,
        )
        policy = policies.get(self.name).like("queue", order=order, tried=tried, settable=(), binds=False)
        names = {f"r{k}": 1_000 for k in range(1, resources)}
        pool = Platform.pool(1_000, **names)
        self.fast = state_of(jobs, pool, policy, policy.values({}), estimate=self.walltime.copy())
        keys = {
            "fcfs": lambda job: submit[job],
            "sjf": lambda job: self.walltime[job],
            "priority": lambda job: -self.priority[job],
            "saf": lambda job: float(self.walltime[job]) * needs[job, 0],
        }
        self.slots = len(policy.orders)
        self.twin = Queue([keys[name] for name in (order, tried)[: self.slots]])
        self.coming = list(range(JOBS))
        self.deepest = 0

    def waiting(self):
        return list(self.twin.asked)

    def asked(self, job):
        return Asked(int(self.walltime[job]), tuple(self.needs[job].tolist()))

    def come(self, many):
        """Mostly in order of submit, as where some wait for others."""
        for _ in range(min(many, len(self.coming))):
            job = self.coming.pop(int(self.random.integers(0, 3)) if len(self.coming) > 3 else 0)
            act(self.fast, COME, 0, job)
            self.twin.enqueue(job, self.asked(job))

    def go(self, many, front):
        for _ in range(min(many, len(self.twin.asked))):
            job = self.twin.head() if front else int(self.random.choice(self.waiting()))
            act(self.fast, GO, 0, job)
            self.twin.dequeue(job)
            self.coming.append(job)

    def move(self, many):
        for _ in range(min(many, len(self.twin.asked))):
            job = int(self.random.choice(self.waiting()))
            self.twin.dequeue(job)
            self.walltime[job] = self.random.integers(1, 400) * 1_000_000
            self.priority[job] = self.random.integers(-5, 400)
            change(self.fast, job, self.walltime[job], self.priority[job])
            act(self.fast, MOVE, 0, job)
            self.twin.enqueue(job, self.asked(job))

    def walk(self, slot, many, start):
        """Some candidates; with `start` every other one goes, as a policy starts it while it walks."""
        free = tuple(self.random.integers(0, 60, self.needs.shape[1]).tolist())
        extra = tuple(int(self.random.integers(0, amount + 1)) for amount in free)
        span = int(self.random.integers(0, 300)) * 1_000_000
        give(self.fast, np.array(free), np.array(extra))
        for i in range(many):
            job = self.twin.candidate(slot, free, extra, span)
            assert act(self.fast, CANDIDATE, slot, span) == job
            if job < 0:
                return
            if start and i % 2:
                act(self.fast, GO, 0, job)
                self.twin.dequeue(job)
                self.coming.append(job)

    def step(self, slot, many):
        for _ in range(many):
            assert act(self.fast, FOLLOWING, slot, 0) == self.twin.following(slot)

    def rewind(self, slot):
        act(self.fast, REWIND, slot, 0)
        self.twin.rewind(slot)

    def check(self):
        assert act(self.fast, HEAD, 0, 0) == self.twin.head()
        for slot in range(self.slots):
            line, (wait, walltime), jobs = waiting(self.fast, slot), waits(self.fast, slot), self.fast.jobs
            assert sorted(line.tolist()) == sorted(self.twin.asked)
            assert wait == pytest.approx(self.fast.now - jobs.submit[line], rel=1e-15)  # now is long ago
            assert walltime.tolist() == jobs.walltime[line].tolist()
        deep, places = form(self.fast)
        self.deepest = max(self.deepest, int(deep) * int(places))
        if deep:
            assert wrong_entries(self.fast) == 0
        return deep

    def check_whole(self):
        for slot in range(self.slots):
            self.rewind(slot)
            self.step(slot, len(self.twin.asked) + 1)


class Passes(Both):
    """A queue that a policy sorts anew in each pass, and between two passes jobs come and go."""

    name = "flexible"

    def sort(self, kinds, numbers):
        """Begin a pass: all are sorted by keys of so many kinds, some of which may be no numbers."""
        keys = self.random.integers(0, kinds, JOBS) * self.random.choice([-1.0, 0.5])
        keys[self.random.random(JOBS) > numbers] = np.nan
        self.random.choice([arrange, arrange_in_step])(self.fast, keys)
        keys[np.isnan(keys)] = np.inf
        waiting, self.twin = self.waiting(), Queue([lambda job: keys[job]])
        for job in waiting:
            self.twin.enqueue(job, self.asked(job))
        self.rewind(0)

    def come(self, many):
        super().come(many)
        self.sort(50, 1.0)

    def move(self, many):
        super().move(many)
        self.sort(50, 1.0)


MANY = st.integers(0, 400)
SLOT = st.integers(0, 1)
OPERATIONS = st.one_of(
    st.tuples(st.just("come"), MANY),
    st.tuples(st.just("go"), MANY, st.booleans()),
    st.tuples(st.just("move"), st.integers(0, 30)),
    st.tuples(st.just("walk"), SLOT, st.integers(0, 30), st.booleans()),
    st.tuples(st.just("step"), SLOT, st.integers(0, 60)),
    st.tuples(st.just("rewind"), SLOT),
)
ORDERS = [("fcfs", "queue"), ("saf", "queue"), ("fcfs", "sjf"), ("priority", "saf")]


def do(both, operations):
    for name, *numbers in operations:
        if name in ("walk", "step", "rewind"):
            numbers[0] %= both.slots
        getattr(both, name)(*numbers)
        both.check()
    both.check_whole()


@given(
    orders=st.sampled_from(ORDERS),
    resources=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    operations=st.lists(OPERATIONS, min_size=5, max_size=25),
)
def test_heads_walks_and_candidates_are_those_of_the_sorted_lists(orders, resources, seed, operations):
    do(Both(*orders, resources, seed), operations)


SORT = st.tuples(st.just("sort"), st.sampled_from([1, 3, 10_000]), st.sampled_from([0.5, 1.0]))


@given(
    resources=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    operations=st.lists(st.one_of(OPERATIONS, SORT), min_size=5, max_size=25),
)
def test_heads_walks_and_candidates_of_a_queue_that_is_sorted_in_each_pass(resources, seed, operations):
    """The first candidates are found without sorting; from OFTEN on, and for every other walk, the jobs are sorted."""
    do(Passes("fcfs", "queue", resources, seed), operations)


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("resources", [1, 2, 3])
def test_a_queue_becomes_deep_and_dense_again(orders, resources):
    """Up to a thousand jobs and down to none, with walks, moves and starts on the way."""
    both = Both(*orders, resources, seed=7)
    way = [("come", 200), ("step", 0, 30), ("come", 300), ("walk", 0, 9, True), ("come", 500), ("move", 40)]
    way += [("walk", 1, 20, True), ("rewind", 0), ("walk", 0, 20, True), ("step", 1, 5), ("go", 300, True)]
    way += [("walk", 1, 5, False), ("move", 20), ("come", 400), ("go", 500, False), ("step", 0, 20)]
    do(both, way)
    assert both.deepest > 2 * DEEP
    do(both, [("go", len(both.waiting()) - SHALLOW // 2, False), ("walk", 0, 9, True), ("come", 10)])
    assert not both.check()
    do(both, [("go", JOBS, True), ("step", 0, 1), ("come", 5)])


def test_by_submit_new_jobs_find_room_at_the_end_however_many_went():
    """A long queue that moves on: its length stays, and so does what it takes."""
    both = Both("fcfs", "queue", 1, seed=3)
    both.come(600)
    places = form(both.fast)[1]
    for _ in range(30):
        both.go(100, True)
        both.come(100)
        both.check()
    assert form(both.fast)[1] == places
    both.check_whole()
