"""Random workloads on which the coverage of intervals is measured: jobs in batches, sessions, cycles and flurries.

All are for a machine of 64 cpus. A load is what the arrival rate offers on average: the load of a single log varies, as
that of a real one does. The exception is `lublin`, whose logs all have exactly this load.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Jobs, Labels, Workload
from backfill.workloads.lublin import lublin

CPUS = 64
DAY = 86_400.0
LONGEST_S = 3 * DAY  # of a run time
MEASURED = 1_000_000  # jobs from which the mean work of a job is found

Random = np.random.Generator


@dataclass(frozen=True, eq=False)
class Stream:
    """Jobs in the order of submission; all arrays have shape (jobs,)."""

    when: Floats  # in mean intervals between jobs, ascending
    procs: Ints
    run_s: Floats
    user: Ints


Draw = Callable[[Random, int], Stream]


def _sizes(random: Random, count: int, largest: int = 32) -> Ints:
    """Powers of two, log-uniform."""
    sizes: Ints = 2 ** random.integers(0, int(math.log2(largest)) + 1, count)
    return sizes


def _lognormal(random: Random, count: int, sigma: float = 1.2, median_s: float = 900.0) -> Floats:
    return median_s * np.exp(sigma * random.standard_normal(count))


def batches(size: int, *, sigma: float = 1.2, alike: float = 0.2, cycles: bool = False) -> Draw:
    """Poisson arrivals of batches of similar jobs: `size` jobs of one user, submitted within seconds.

    alike: sigma of the lognormal factor between the run times of a batch. cycles: more by day and on weekdays.
    """

    def draw(random: Random, jobs: int) -> Stream:
        count = -(-jobs // size)
        batch = np.repeat(np.arange(count), size)[:jobs]
        when = np.cumsum(random.standard_exponential(count)) * size
        run = _lognormal(random, count, sigma)[batch] * np.exp(alike * random.standard_normal(jobs))
        return Stream(
            _cyclic(when)[batch] if cycles else when[batch],
            _sizes(random, count)[batch], run, random.integers(0, 20, count)[batch]
        )  # fmt: skip

    return draw


def flurries(share: float = 0.25, length: float = 100.0) -> Draw:
    """Single Poisson arrivals, and flurries: a user submits `length` jobs on average, a third of an interval apart."""

    def draw(random: Random, jobs: int) -> Stream:
        singles = int(jobs * (1 - share) * 1.4) + int(5 * length)
        when = np.cumsum(random.standard_exponential(singles)) / (1 - share)
        begins = np.cumsum(random.standard_exponential(int(jobs * share / length * 3) + 10)) * length / share
        begins = begins[begins < when[-1]]
        lengths = random.geometric(1 / length, len(begins))
        of = np.repeat(np.arange(len(begins)), lengths)
        inside = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        surge = begins[of] + inside * 0.33
        run = np.concatenate([_lognormal(random, singles), _lognormal(random, len(begins), 1.0)[of]])
        run *= np.exp(0.2 * random.standard_normal(len(run)))
        procs = np.concatenate([_sizes(random, singles), _sizes(random, len(begins), 8)[of]])
        user = np.concatenate([random.integers(0, 20, singles), random.integers(20, 25, len(begins))[of]])
        return _in_order(np.concatenate([when, surge]), procs, run, user, jobs)

    return draw


def sessions(users: int = 20, jobs_each: float = 8.0) -> Draw:
    """Users' sessions by day: some jobs, minutes to hours apart, of the sizes and run times that the user prefers.

    A few users make most of the sessions (weights 1/rank).
    """

    def draw(random: Random, jobs: int) -> Stream:
        count = int(jobs / jobs_each * 1.1) + 60
        begin = _cyclic(np.cumsum(random.standard_exponential(count)) * jobs_each)
        weight = 1 / np.arange(1, users + 1)
        user = random.choice(users, count, p=weight / weight.sum())
        lengths = random.geometric(1 / jobs_each, count)
        of = np.repeat(np.arange(count), lengths)
        gaps = 0.7 * np.exp(random.standard_normal(len(of)))
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        after = np.cumsum(gaps) - np.cumsum(gaps)[first]
        # The preferences are the same in every log: the users are part of the system that is measured.
        liked = np.random.default_rng(7)
        size, median = liked.integers(0, 6, users), 900 * np.exp(0.8 * liked.standard_normal(users))
        log2 = np.clip(size[user][of] + random.integers(-1, 2, len(of)), 0, 5)
        run = median[user][of] * np.exp(0.7 * random.standard_normal(count)[of] + 0.3 * random.standard_normal(len(of)))
        return _in_order(begin[of] + after, 2**log2, run, user[of], jobs)

    return draw


def heavy(shape: float = 1.5) -> Draw:
    """Single Poisson arrivals with run times of a Pareto distribution of this shape, cut at 3 days."""

    def draw(random: Random, jobs: int) -> Stream:
        when = np.cumsum(random.standard_exponential(jobs))
        run = 120 * (1 - random.random(jobs)) ** (-1 / shape)
        return Stream(when, _sizes(random, jobs), run, random.integers(0, 20, jobs))

    return draw


def _in_order(when: Floats, procs: Ints, run_s: Floats, user: Ints, jobs: int) -> Stream:
    first = np.argsort(when, kind="stable")[:jobs]
    return Stream(when[first], procs[first], run_s[first], user[first])


LUBLIN = "lublin"
INTERVALS_A_DAY = 100.0  # of the streams with cycles


def _cyclic(when: Floats) -> Floats:
    """The instants at which a clock that runs faster by day and on weekdays shows `when`, in mean intervals."""
    hour = np.arange(7 * 24)
    rate = np.where((hour % 24 >= 9) & (hour % 24 < 18), 2.0, 0.4) * np.where(hour // 24 >= 5, 0.3, 1.0)
    edges = np.concatenate([[0.0], np.cumsum(rate / rate.mean())]) * INTERVALS_A_DAY / 24
    week, rest = np.divmod(when, edges[-1])
    return week * edges[-1] + np.interp(rest, edges, np.arange(7 * 24 + 1) * INTERVALS_A_DAY / 24)


FAMILY: dict[str, Draw] = {
    "batches of 1": batches(1),
    "batches of 5": batches(5),
    "batches of 10": batches(10),
    "batches of 20": batches(20),
    "batches of 5, cycles": batches(5, cycles=True),
    "flurries": flurries(),
    "sessions": sessions(),
    "heavy tails": heavy(),
}


# Other kinds, on which nothing was chosen: they are measured once the method stands.


def _geometric_batches(random: Random, jobs: int) -> Stream:
    """Batches of 12 jobs on average, of any size up to the machine, with exponential run times."""
    count = jobs // 6 + 20
    lengths = random.geometric(1 / 12, count)
    batch = np.repeat(np.arange(count), lengths)[:jobs]
    when = np.cumsum(random.standard_exponential(count)) * 12
    run = 1800 * random.standard_exponential(count)[batch] * random.uniform(0.8, 1.2, len(batch))
    return Stream(when[batch], random.integers(1, CPUS + 1, count)[batch], run, random.integers(0, 9, count)[batch])


def _two_moods(random: Random, jobs: int) -> Stream:
    """Single jobs whose arrival rate is high or low for 200 intervals on average (a Markov-modulated process)."""
    gaps, moods = random.standard_exponential(jobs), []
    while sum(len(each) for each in moods) < jobs:
        rate = 2.0 if len(moods) % 2 else 0.5
        moods.append(np.full(random.geometric(1 / (200 * rate)), rate))
    run = _lognormal(random, jobs, 1.0)
    return Stream(
        np.cumsum(gaps / np.concatenate(moods)[:jobs]), _sizes(random, jobs), run, random.integers(0, 9, jobs)
    )


def _arrays(random: Random, jobs: int) -> Stream:
    """Job arrays of 1 to 200 equal jobs, of narrow sizes; how many has a heavy tail."""
    lengths = np.minimum(200, np.floor((1 - random.random(jobs)) ** (-1 / 1.2))).astype(np.int64)
    count = int(np.searchsorted(np.cumsum(lengths), jobs)) + 1
    array = np.repeat(np.arange(count), lengths[:count])[:jobs]
    when = np.cumsum(random.standard_exponential(count)) * 4
    return Stream(
        when[array], _sizes(random, count, 16)[array], _lognormal(random, count, 0.9)[array],
        random.integers(0, 9, count)[array]
    )  # fmt: skip


def _nightly(random: Random, jobs: int) -> Stream:
    """Single jobs, and each night 30 long ones at once; 100 jobs a day."""
    days = jobs // 100 + 2
    singles = np.sort(random.uniform(0, days * 100, days * 70))
    nights = np.repeat(np.arange(days) * 100 + 80.0, 30)
    run = np.concatenate([_lognormal(random, len(singles), 1.1), _lognormal(random, len(nights), 0.5, 3000)])
    procs = np.concatenate([_sizes(random, len(singles)), _sizes(random, len(nights), 8)])
    user = np.concatenate([random.integers(1, 9, len(singles)), np.zeros(len(nights), np.int64)])
    return _in_order(np.concatenate([singles, nights]), procs, run, user, jobs)


def _campaigns(random: Random, jobs: int) -> Stream:
    """Users who submit one kind of job for days, and then none for days."""
    count = jobs // 50 + 30
    begin = np.cumsum(random.standard_exponential(count)) * 60
    lengths = random.geometric(1 / 60, count)
    of = np.repeat(np.arange(count), lengths)
    when = begin[of] + random.uniform(0, 300, len(of))
    run = _lognormal(random, count, 1.0)[of] * np.exp(0.3 * random.standard_normal(len(of)))
    return _in_order(when, _sizes(random, count)[of], run, of % 9, jobs)


def _on_and_off(random: Random, jobs: int) -> Stream:
    """30 users who submit for a while and pause for a while, both of a Pareto distribution: a long-range dependence."""
    users, horizon = 30, jobs * 2.0
    when, user = [], []
    for each in range(users):
        spans = 100 * (1 - random.random((2, int(horizon / 50)))) ** (-1 / 1.4)
        begins = np.cumsum(spans.sum(axis=0)) - spans.sum(axis=0) - random.uniform(0, horizon)
        submits = random.poisson(spans[0] / users * 2)
        when.append(np.repeat(begins, submits) + np.repeat(spans[0], submits) * random.random(submits.sum()))
        user.append(np.full(submits.sum(), each))
    all_when, all_users = np.concatenate(when), np.concatenate(user)
    kept = all_when >= 0
    count = int(kept.sum())
    return _in_order(all_when[kept], _sizes(random, count), _lognormal(random, count, 1.0), all_users[kept], jobs)


def _serial_and_full(random: Random, jobs: int) -> Stream:
    """Serial jobs in pairs, and one job in 60 of the full machine, with run times of two phases."""
    when = np.cumsum(random.weibull(0.7, jobs))[np.arange(jobs) // 2 * 2] / 1.27
    run = np.where(random.random(jobs) < 0.15, 20_000.0, 1500.0) * random.standard_exponential(jobs)
    full = random.random(jobs) < 1 / 60
    return Stream(when, np.where(full, CPUS, 1), np.where(full, 0.2 * run, run), random.integers(0, 9, jobs))


def _deadlines(random: Random, jobs: int) -> Stream:
    """Single jobs whose rate grows threefold over ten days towards a deadline, and falls again at once."""
    cycle = 1000.0
    full, rest = np.divmod(np.cumsum(random.standard_exponential(jobs)), cycle)
    when = full * cycle + cycle * (np.sqrt(1 + 8 * rest / cycle) - 1) / 2
    run = _lognormal(random, jobs, 1.1)
    return Stream(when, _sizes(random, jobs), run, random.integers(0, 30, jobs))


HELD_OUT: dict[str, Draw] = {
    "geometric batches": _geometric_batches,
    "two moods": _two_moods,
    "arrays": _arrays,
    "nightly": _nightly,
    "campaigns": _campaigns,
    "batches of 5, wider spread": batches(5, sigma=1.6, alike=0.5),
    "on and off": _on_and_off,
    "serial and full": _serial_and_full,
    "deadlines": _deadlines,
}


@lru_cache(maxsize=64)
def _mean_work(draw: Draw) -> float:
    stream = draw(np.random.default_rng(0), MEASURED)
    return float((stream.procs * np.minimum(stream.run_s, LONGEST_S)).mean())


def workload(name: str, load: float, jobs: int, seed: int) -> Workload:
    """A log of this kind. The seed of a log does not depend on its load."""
    if name == LUBLIN:
        return lublin(jobs=jobs, cpus=128, load=load, estimate_factor=5, seed=seed)
    draw = (FAMILY | HELD_OUT)[name]
    random = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:4]])
    stream = draw(random, jobs)
    interval = _mean_work(draw) / (CPUS * load)
    run = np.rint(np.clip(stream.run_s, 1, LONGEST_S)).astype(np.int64)
    return Workload(
        jobs=Jobs(
            job=np.arange(1, jobs + 1),
            submit=np.rint(stream.when * interval).astype(np.int64) * SECOND,
            runtime=run * SECOND,
            walltime=np.ceil(run * random.uniform(1, 5, jobs)).astype(np.int64) * SECOND,
            tasks=stream.procs.astype(np.int64),
            user=Labels(stream.user.astype(np.int32), tuple(f"u{i}" for i in range(int(stream.user.max()) + 1))),
        ),
        name=name,
        cpus=CPUS,
    )
