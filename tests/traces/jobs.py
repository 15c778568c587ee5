"""Workloads to write and read back, and what it means that two are equal."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from backfill.model.units import NEVER, SECOND, TIME_MAX
from backfill.model.workload import LABELS, Jobs, Labels, Ragged, Workload

SHARED = Path(__file__).parents[3] / "shared"
needs_logs = pytest.mark.skipif(not SHARED.exists(), reason="needs the recorded logs, which lie beside the repository")

EXACT_FLOAT = 2**33 * SECOND  # fractions of a second are exact in a float below this


def same(a: Workload, b: Workload) -> bool:
    """Return whether two workloads have equal jobs, ids compared as texts."""
    x, y = a.jobs, b.jobs

    def licences(w: Workload) -> list[list[str]]:
        return [sorted(w.licences[k] for k in w.jobs.licences[row]) for row in range(len(w))]

    return (
        a.resources == b.resources
        and [str(job) for job in x.job] == [str(job) for job in y.job]
        and all(
            np.array_equal(x[c], y[c])
            for c in (
                "submit",
                "runtime",
                "walltime",
                "tasks",
                "demand",
                "spread",
                "deadline",
                "waited",
                "priority",
                "admin_priority",
            )
        )
        and all([x[c][i] for i in range(len(x))] == [y[c][i] for i in range(len(y))] for c in LABELS)
        and all(x.after[i].tolist() == y.after[i].tolist() for i in range(len(x)))
        and licences(a) == licences(b)
    )


def column(size: int, values: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    return st.lists(values, min_size=size, max_size=size).map(lambda v: np.array(v, np.int64))


def numbers(size: int) -> st.SearchStrategy[np.ndarray]:
    finite = st.floats(allow_nan=False, allow_infinity=False)
    return st.lists(finite, min_size=size, max_size=size).map(lambda v: np.array(v, np.float64))


def labels(size: int, names: st.SearchStrategy[str]) -> st.SearchStrategy[Labels]:
    return st.lists(names, min_size=size, max_size=size).map(Labels.of)


WORDS = st.text("abcXYZ019 ,\"'é:-_[]%\t", max_size=6).map(str.strip)


@st.composite
def workloads(draw: st.DrawFn, time_max: int = TIME_MAX) -> Workload:
    """Any workload that a workload CSV can hold."""
    n = draw(st.integers(0, 6))
    ids = draw(
        st.lists(
            st.text("ab19 ,\"'é_[]", min_size=1, max_size=5).map(str.strip).filter(bool),
            min_size=n,
            max_size=n,
            unique=True,
        )
    )
    resources = ("cpus", *draw(st.lists(st.sampled_from(["memory", "gpus", "tape"]), unique=True)))
    licences = ("matlab", "a b:c")
    spans = st.one_of(st.integers(0, 5), st.integers(0, 10**6).map(lambda s: s * SECOND), st.integers(0, time_max))
    submit = draw(column(n, st.one_of(spans, spans.map(lambda t: -t))))
    margin = draw(column(n, st.one_of(spans, st.just(NEVER))))
    jobs = Jobs(
        job=np.array(ids, object),
        submit=submit,
        runtime=draw(column(n, spans)),
        walltime=draw(column(n, spans)),
        tasks=draw(column(n, st.integers(1, 2**20))),
        demand=np.column_stack([draw(column(n, st.sampled_from([0, 1, 3, 2**40 + 1]))) for _ in resources]),
        spread=draw(column(n, st.integers(0, 2))).astype(np.int8),
        licences=Ragged.of(draw(st.lists(st.lists(st.integers(0, 1), max_size=4), min_size=n, max_size=n))),
        deadline=np.where(margin < NEVER, np.minimum(submit + margin, time_max), NEVER),
        priority=draw(numbers(n)),
        admin_priority=draw(numbers(n)),
        user=draw(labels(n, WORDS)),
        group=draw(labels(n, WORDS)),
        project=draw(labels(n, WORDS)),
        partition=draw(labels(n, WORDS)),
        queue=draw(labels(n, WORDS)),
        qos=draw(labels(n, WORDS)),
        site=draw(labels(n, WORDS)),
        status=draw(labels(n, WORDS)),
        after=Ragged.of(
            [draw(st.lists(st.integers(0, row - 1), max_size=2, unique=True)) if row else [] for row in range(n)]
        ),
        waited=draw(column(n, st.one_of(spans, st.just(-1)))),
    )
    return Workload(jobs, resources=resources, licences=licences)


@st.composite
def swf_workloads(draw: st.DrawFn) -> Workload:
    """Any workload that an SWF file can hold."""
    n = draw(st.integers(0, 6))
    spans = st.one_of(st.integers(0, 5), st.integers(0, 10**6).map(lambda s: s * SECOND), st.integers(0, EXACT_FLOAT))
    numbers = st.one_of(st.just(""), st.integers(0, 10**12).map(str))
    names = st.one_of(numbers, st.sampled_from(["batch", "a b", "x;y", "1-2", "été"]))
    memory = draw(column(n, st.integers(0, 2**50)))
    demand = [np.ones(n, np.int64), memory] if memory.any() else [np.ones(n, np.int64)]
    jobs = Jobs(
        job=np.array(draw(st.lists(st.integers(0, 10**12), min_size=n, max_size=n, unique=True)), np.int64),
        submit=draw(column(n, st.one_of(spans, spans.map(lambda t: -t)))),
        runtime=draw(column(n, spans)),
        walltime=draw(column(n, st.integers(1, EXACT_FLOAT))),
        tasks=draw(column(n, st.integers(1, 1000))),
        demand=np.column_stack(demand),
        user=draw(labels(n, numbers)),
        group=draw(labels(n, numbers)),
        partition=draw(labels(n, names)),
        queue=draw(labels(n, names)),
        waited=draw(column(n, st.one_of(spans, st.just(-1)))),
        status=draw(labels(n, st.sampled_from(["", "completed", "failed", "cancelled", "last part, failed"]))),
    )
    cpus = draw(st.one_of(st.none(), st.integers(1, 10**6)))
    return Workload(jobs, resources=("cpus", "memory")[: len(demand)], cpus=cpus)
