"""The Lublin-Feitelson model: sizes, run times and arrivals of rigid jobs on a parallel supercomputer.

* Sizes: serial with probability `serial_prob`; otherwise log2 of the size is uniform in two stages, and rounded to a
  power of two with probability `pow2_prob`.
* Run times: their natural logarithm is a mixture of two gammas; the share of the first, short one falls linearly with
  the size, p = pa * size + pb. Values above e^12 s (45 h) are redrawn.
* Arrivals: e^gamma(aarr * arar, barr) seconds between jobs, redrawn above e^13 s, on a clock that runs faster in
  busy hours: each half-hour of the day counts by its share of the gamma(anum, bnum) distribution.

Source: U. Lublin, D. G. Feitelson, The workload on parallel supercomputers: modeling the characteristics of rigid
jobs, J. Parallel Distrib. Comput. 63(11), 1105-1122, 2003. Parameter values and cut-offs as in the authors' public
generator (lublin99, Parallel Workloads Archive).

Differences from that generator: a seed; sizes never exceed the machine (its rounding does so where the machine is no
power of two); submit times are rounded down once each, where it rounds down every step and so drifts by half a second
a job. Everything is drawn from the raw 64-bit words of PCG64, whose stream numpy guarantees, and every number is
rounded to an integer before it is added up, so a seed gives the same jobs with every numpy and on every machine,
unless log, exp or cos differ there in the last bit exactly at a rounding edge (less than one job in 10^8).
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from typing import Any

import numpy as np

from backfill.model.errors import UsageError
from backfill.model.names import did_you_mean
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Floats, Ints, Jobs, Labels, Workload, total
from backfill.workloads.uniform import Uniform

VERSION = 1  # increase it whenever the same arguments yield other jobs
RUNTIME_LOG_MAX = 12  # e^12 s, about two days
INTERVAL_LOG_MAX = 13  # e^13 s, about five days
JOBS_MAX = 10**8  # more than fits in memory, and far more than the largest logs
BUCKETS = 48  # half-hours of a day
BUCKET_MS = 1_800_000
CYCLE_START = 11  # the gamma of the daily cycle begins in this half-hour, the quietest time
BLOCK = 1 << 14  # jobs drawn together; each block has its own seeds, so a longer workload begins with a shorter one


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a sample under their published names. Times are logarithms of seconds, sizes log2 of cpus.

    The published `uhi` and `umed` are for a machine of 128; here they are offsets, so that they scale with the machine.
    """

    serial_prob: float
    pow2_prob: float
    ulow: float
    uhi_offset: float  # log2(cpus) - uhi, the largest size
    umed_offset: float  # uhi - umed, the break between the two uniform stages; published range 1.5 to 3.5
    uprob: float  # share of [ulow, umed]
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float  # of the rush hours; multiplied by arar, of the whole day
    barr: float
    anum: float  # half-hours
    bnum: float
    arar: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in asdict(self).values()):
            raise UsageError("lublin: every parameter must be a finite number")
        if min(self.a1, self.a2, self.aarr * self.arar) < 1 or min(self.b1, self.b2, self.barr) <= 0:
            raise UsageError("lublin: expected a1, a2 and aarr * arar >= 1, and b1, b2 and barr > 0")
        if min(self.anum, self.bnum) <= 0 or not 0 <= self.uprob <= 1:
            raise UsageError("lublin: expected anum and bnum > 0 and uprob from 0 to 1")
        if min(self.serial_prob, self.pow2_prob) < 0 or self.serial_prob + self.pow2_prob > 1:
            raise UsageError("lublin: expected serial_prob and pow2_prob >= 0 that add up to at most 1")


# Fitted to all jobs together. The default, because the model's workloads in the literature (lublin_256 among them) come
# from it; the public generator as shipped mixes the two types below.
ALL = Parameters(
    serial_prob=0.244, pow2_prob=0.576, ulow=0.8, uhi_offset=0, umed_offset=2.5, uprob=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    aarr=10.2303, barr=0.4871, anum=8.1737, bnum=3.9631, arar=1.0225,
)  # fmt: skip
BATCH = Parameters(
    serial_prob=0.2927, pow2_prob=0.6686, ulow=1.2, uhi_offset=0, umed_offset=2, uprob=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    aarr=6.0415, barr=0.8531, anum=6.1271, bnum=5.2740, arar=1.0519,
)  # fmt: skip
INTERACTIVE = Parameters(
    serial_prob=0.1541, pow2_prob=0.625, ulow=1, uhi_offset=1.5, umed_offset=2.5, uprob=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    aarr=6.5510, barr=0.6621, anum=8.9186, bnum=3.6680, arar=0.9797,
)  # fmt: skip
SAMPLES = {
    "all": {"all": ALL},
    "batch": {"batch": BATCH},
    "interactive": {"interactive": INTERACTIVE},
    "mixed": {"batch": BATCH, "interactive": INTERACTIVE},
}


def lublin(
    jobs: int,
    cpus: int = 256,
    *,
    seed: int = 0,
    sample: str | Parameters = "all",
    load: float | None = None,
    umed_offset: float | None = None,
    estimate_factor: float = 1.0,
) -> Workload:
    """Generate `jobs` jobs for a machine of `cpus` processors, times in whole seconds, the day beginning at time 0.

    seed:            >= 0; the same arguments give the same jobs; without a load, fewer jobs are a prefix of more.
    sample:          `all` (one type of job), `batch`, `interactive`, `mixed` (both arrive side by side; the group
                     column tells them apart), or Parameters of your own.
    load:            offered load, sum of procs * run time / (cpus * last submit). Intervals are stretched on the clock
                     of the busy hours, so the day stays 24 h long. None keeps the published arrival rate.
    umed_offset:     replaces that of the sample (see Parameters); a smaller value makes parallel jobs larger.
    estimate_factor: the model has no user estimates; walltime = run time * U[1, factor], rounded up. 1 = exact.

    Raises UsageError for arguments out of their bounds.
    """
    made = _Model.of(jobs, cpus, seed, sample, load, umed_offset, estimate_factor)
    # One row per type and job; `mixed` draws enough of each type to take the first `jobs` of both together.
    drawn = [made.drawn(t) for t in range(len(made.types))]
    kind = np.repeat(np.arange(len(drawn)), jobs)
    busy, procs, runtime, walltime = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
    submit = np.concatenate([_clock(column[0], day) for column, day in zip(drawn, made.days, strict=True)])
    first = np.argsort(submit, kind="stable")[:jobs]
    rows = _Rows(kind[first], busy[first], procs[first], runtime[first], walltime[first], submit[first])
    if load is not None:
        last = [int(rows.busy[rows.kind == t].max(initial=0)) for t in range(len(drawn))]
        rows = rows.clocked(made, made.stretch(total(rows.procs * rows.runtime), last))
        rows = rows.take(np.argsort(rows.submit, kind="stable"))
    return made.workload(rows, 1)


def lublin_parts(
    jobs: int,
    cpus: int = 256,
    *,
    seed: int = 0,
    sample: str | Parameters = "all",
    load: float | None = None,
    umed_offset: float | None = None,
    estimate_factor: float = 1.0,
    part: int,
) -> Iterator[Workload]:
    """Yield the workload of `lublin` in parts of `part` jobs or a little more, by submit; a second is not divided.

    Only the jobs of a part are in memory. With a load, all jobs are drawn twice, since it depends on all of them.
    """
    made = _Model.of(jobs, cpus, seed, sample, load, umed_offset, estimate_factor)
    stretch = None
    if load is not None:
        area, last = 0, [0] * len(made.types)
        for drawn in made.in_order():
            area += total(drawn.procs * drawn.runtime)
            last = [max(most, int(drawn.busy[drawn.kind == t].max(initial=0))) for t, most in enumerate(last)]
        stretch = made.stretch(area, last)
    came, held, seen = 0, list[_Rows](), [-1] * len(made.types)
    for some in chain(made.in_order(), [None]):
        if some is not None:
            rows = some if stretch is None else some.clocked(made, stretch)
            seen = [max(most, int(rows.submit[rows.kind == t].max(initial=-1))) for t, most in enumerate(seen)]
            held.append(rows)
            if sum(map(len, held)) < part:
                continue
        rows = _Rows.joined(held)
        rows = rows.take(np.argsort(rows.submit, kind="stable"))
        second, begin = rows.submit // 1000, 0
        # What may still come is not before the last job of each type.
        ready = len(rows) if some is None else int(np.searchsorted(second, min(seen) // 1000))
        while ready - begin >= part or (some is None and begin < ready):
            last = second[min(begin + part, ready) - 1]
            end = int(np.searchsorted(second, last, side="right"))
            yield made.workload(rows.take(slice(begin, end)), came + 1)
            came += end - begin
            begin = end
        held = [rows.take(slice(begin, len(rows)))]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Jobs of all types; busy and submit in ms, run times and walltimes in s."""

    kind: Ints
    busy: Ints
    procs: Ints
    runtime: Ints
    walltime: Ints
    submit: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def joined(cls, several: "list[_Rows]") -> "_Rows":
        return cls(*(np.concatenate([getattr(each, name) for each in several]) for name in cls.__slots__))

    def take(self, rows: Any) -> "_Rows":
        return _Rows(*(getattr(self, name)[rows] for name in self.__slots__))

    def clocked(self, made: "_Model", stretch: float) -> "_Rows":
        """Return the same jobs at another load, in the same order."""
        submit = self.submit.copy()
        for t, day in enumerate(made.days):
            mine = self.kind == t
            submit[mine] = _clock(np.rint(self.busy[mine] * stretch).astype(np.int64), day)
        return _Rows(self.kind, self.busy, self.procs, self.runtime, self.walltime, submit)


@dataclass(frozen=True, eq=False)
class _Model:
    """The checked arguments of `lublin`."""

    jobs: int
    cpus: int
    seed: int
    types: dict[str, Parameters]
    load: float | None
    umed_offset: float | None
    estimate_factor: float
    days: list[Ints]  # of each type, see `_half_hours`

    @classmethod
    def of(
        cls,
        jobs: int,
        cpus: int,
        seed: int,
        sample: str | Parameters,
        load: float | None,
        umed_offset: float | None,
        estimate_factor: float,
    ) -> "_Model":
        """Return the arguments. Raises UsageError."""
        if not 1 <= jobs <= JOBS_MAX:
            raise UsageError(f"lublin: jobs is {jobs}; expected 1 to {JOBS_MAX}")
        if not 2 <= cpus <= 2**40:
            raise UsageError(f"lublin: cpus is {cpus}; expected 2 to 2^40")
        if seed < 0:
            raise UsageError(f"lublin: seed is {seed}; expected a whole number >= 0")
        if load is not None and not 0 < load < math.inf:
            raise UsageError(f"lublin: load is {load}; expected a finite number > 0")
        if not 1 <= estimate_factor <= 1e6:
            raise UsageError(f"lublin: estimate_factor is {estimate_factor}; expected 1 to 1000000")
        if isinstance(sample, str) and sample not in SAMPLES:
            raise UsageError(f"lublin: unknown sample {sample!r}; {did_you_mean(sample, SAMPLES)}")
        types = SAMPLES[sample] if isinstance(sample, str) else {"own": sample}
        days = [_half_hours(p) for p in types.values()]
        return cls(jobs, cpus, seed, types, load, umed_offset, estimate_factor, days)

    def blocks(self, t: int) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Yield arrivals (ms on the busy clock), sizes, run times and walltimes (s) of one type, BLOCK jobs at once."""
        p = [*self.types.values()][t]
        uhi = math.log2(self.cpus) - p.uhi_offset
        umed = uhi - (p.umed_offset if self.umed_offset is None else self.umed_offset)
        if not p.ulow < umed < uhi:
            raise UsageError(
                f"lublin: the sizes of {self.cpus} cpus break at 2^{umed:.3g}; expected it between 2^{p.ulow:.3g} and"
                f" 2^{uhi:.3g}: choose another umed_offset, or more cpus"
            )
        busy = 0
        for block in count():
            gaps, sizes, runs, estimates = (Uniform(self.seed, t, column, block) for column in range(4))
            gap_ms = np.rint(np.exp(_intervals(p, gaps)) * 1000).astype(np.int64)
            procs = _procs(p, self.cpus, umed, uhi, sizes)
            runtime = np.exp(_runtimes(p, procs, runs)).astype(np.int64)
            walltime = np.ceil(runtime * (1 + (self.estimate_factor - 1) * estimates(BLOCK))).astype(np.int64)
            arrival = busy + np.cumsum(gap_ms)
            busy = int(arrival[-1])
            yield arrival, procs, runtime, walltime

    def drawn(self, t: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the same columns of the first jobs of one type."""
        several = islice(self.blocks(t), -(-self.jobs // BLOCK))
        arrival, procs, runtime, walltime = (np.concatenate(each)[: self.jobs] for each in zip(*several, strict=True))
        return arrival, procs, runtime, walltime

    def in_order(self) -> Iterator[_Rows]:
        """Yield the first jobs of all types together, by submit at the published arrival rate, then type."""
        several = [self.blocks(t) for t in range(len(self.types))]
        held: list[_Rows] = [self._block(t, blocks) for t, blocks in enumerate(several)]
        left = self.jobs
        while left:
            least = min(range(len(held)), key=lambda t: int(held[t].submit[-1]))
            rows, until = _Rows.joined(held), int(held[least].submit[-1])
            order = np.lexsort((rows.kind, rows.submit))
            ready = order[rows.submit[order] < until][:left]  # another job may come at that very instant
            left -= len(ready)
            if len(ready):
                yield rows.take(ready)
            rest = np.ones(len(rows), np.bool_)
            rest[ready] = False
            held = [rows.take(rest & (rows.kind == t)) for t in range(len(held))]
            held[least] = _Rows.joined([held[least], self._block(least, several[least])])

    def _block(self, t: int, blocks: Iterator[tuple[Ints, Ints, Ints, Ints]]) -> _Rows:
        busy, procs, runtime, walltime = next(blocks)
        return _Rows(np.full(BLOCK, t), busy, procs, runtime, walltime, _clock(busy, self.days[t]))

    def stretch(self, area: int, last: list[int]) -> float:
        """Return the factor of the busy clock for the load. area: sum of procs * run time (s); last: of each type."""
        assert self.load is not None
        area *= 1000
        if area / (TIME_MAX // 1000) > self.cpus * self.load:
            raise UsageError(f"lublin: load is {self.load}; expected more, so that the last job comes within 10^11 s")
        last_submit_ms = int(area / (self.cpus * self.load))
        # The type whose last job arrives last decides, so that the last submit is exactly this instant.
        return min(_busy(last_submit_ms, day) / most for most, day in zip(last, self.days, strict=True) if most)

    def workload(self, rows: _Rows, first: int) -> Workload:
        """Return these jobs, with ids from `first` on."""
        types = self.types
        arguments = {
            "jobs": self.jobs, "cpus": self.cpus, "seed": self.seed,
            "sample": {name: asdict(p) for name, p in types.items()},
            "load": self.load, "umed_offset": self.umed_offset, "estimate_factor": self.estimate_factor,
        }  # fmt: skip
        identity = json.dumps(["lublin", VERSION, arguments], sort_keys=True)
        factor = self.estimate_factor
        estimates = "walltime = run time" if factor == 1 else f"walltime = run time x U[1, {factor:g}]"
        return Workload(
            jobs=Jobs(
                job=np.arange(first, first + len(rows)),
                submit=rows.submit // 1000 * SECOND,
                runtime=rows.runtime * SECOND,
                walltime=rows.walltime * SECOND,
                tasks=rows.procs,
                group=Labels(rows.kind.astype(np.int32), tuple(types)) if len(types) > 1 else Labels.none(len(rows)),
            ),
            name="lublin",
            sha256=hashlib.sha256(identity.encode()).hexdigest(),
            cpus=self.cpus,
            notes=(f"{estimates}: the model has no user estimates",),
        )


def _procs(p: Parameters, cpus: int, umed: float, uhi: float, uniform: Uniform) -> Ints:
    kind, stage, within = uniform(BLOCK), uniform(BLOCK), uniform(BLOCK)
    low = np.where(stage <= p.uprob, p.ulow, umed)
    high = np.where(stage <= p.uprob, umed, uhi)
    log2 = low + within * (high - low)
    power_of_two = kind <= p.serial_prob + p.pow2_prob
    log2 = np.where(power_of_two, np.floor(log2 + 0.5), log2)
    procs = np.minimum(np.exp2(log2) + 0.5, np.where(power_of_two, 1 << (cpus.bit_length() - 1), cpus))
    return np.where(kind <= p.serial_prob, 1, procs.astype(np.int64))


def _runtimes(p: Parameters, procs: Ints, uniform: Uniform) -> Floats:
    share = np.clip(p.pa * procs + p.pb, 0, 1)

    def draw(rows: Ints) -> Floats:
        first = uniform(len(rows)) <= share[rows]
        return np.where(first, p.b1, p.b2) * _gamma(np.where(first, p.a1, p.a2), uniform)

    return _at_most(RUNTIME_LOG_MAX, len(procs), draw)


def _intervals(p: Parameters, uniform: "Uniform") -> Floats:
    return _at_most(INTERVAL_LOG_MAX, BLOCK, lambda rows: p.barr * _gamma(np.full(len(rows), p.aarr * p.arar), uniform))


def _half_hours(p: Parameters) -> Ints:
    """Return the length of each half-hour of the day on the busy clock, in ms. Shape (48,); the sum is about a day."""
    worth = np.zeros(BUCKETS)
    for i in range(CYCLE_START, CYCLE_START + BUCKETS):
        share = _gamma_cdf(p.anum, (i + 0.5) / p.bnum) - _gamma_cdf(p.anum, (i - 0.5) / p.bnum)
        worth[(i - 1) % BUCKETS] = share
    rounded: Ints = np.maximum(1, np.rint(worth / worth.mean() * BUCKET_MS)).astype(np.int64)
    return rounded


def _clock(busy: Ints, worth: Ints) -> Ints:
    """Return the time of day and year (ms) at which the busy clock shows `busy` (ms)."""
    edges = np.concatenate([[0], np.cumsum(worth)])
    day, rest = np.divmod(busy, edges[-1])
    bucket = np.searchsorted(edges, rest, side="right") - 1
    into = (rest - edges[bucket]) * BUCKET_MS // worth[bucket]
    at: Ints = (day * BUCKETS + bucket) * BUCKET_MS + into
    return at


def _busy(at: int, worth: Ints) -> int:
    """Return the inverse of _clock."""
    day, bucket = divmod(at // BUCKET_MS, BUCKETS)
    return int(day * worth.sum() + worth[:bucket].sum() + at % BUCKET_MS * worth[bucket] // BUCKET_MS)


def _at_most(limit: float, count: int, draw: Callable[[Ints], Floats]) -> Floats:
    """Call draw(rows) for all rows, then again for those above the limit until none is left."""
    values = np.empty(count)
    rows = np.arange(count)
    while len(rows):
        values[rows] = draw(rows)
        rows = rows[values[rows] > limit]
    return values


def _gamma(shape: Floats, uniform: Uniform) -> Floats:
    """Draw one number per shape >= 1 from the gamma distribution of scale 1.

    Source: G. Marsaglia, W. W. Tsang, A simple method for generating gamma variables, ACM TOMS 26(3), 2000; normal
    numbers by Box and Muller.
    """
    values = np.empty(len(shape))
    rows = np.arange(len(shape))
    while len(rows):
        d = shape[rows] - 1 / 3
        normal = np.sqrt(-2 * np.log(uniform(len(rows)))) * np.cos(2 * np.pi * uniform(len(rows)))
        root = np.maximum(1 + normal / np.sqrt(9 * d), 0)
        v = root * root * root
        with np.errstate(divide="ignore"):  # log 0 = -inf rejects the number, as intended
            accepted = np.log(uniform(len(rows))) < normal * normal / 2 + d * (1 - v + np.log(v))
        values[rows[accepted]] = (d * v)[accepted]
        rows = rows[~accepted]
    return values


def _gamma_cdf(a: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function P(a, x) by its power series."""
    term = total = 1 / a
    n = a
    while term > 1e-17 * total:
        n += 1
        term *= x / n
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))
