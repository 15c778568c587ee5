"""The claims of the two-tier paper, one function each, judged by the case that contradicts it most."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from backfill.analysis.interval import Estimate
from backfill.papers.cases import Case, Size, judged, sizes
from backfill.papers.claims import UNDECIDED, Claim, verdict_of
from backfill.papers.sweep import Sweep, ratio
from backfill.papers.twotier_runs import BROKEN, HIGH, JOB, LOW, MOVED, PROJECT, PROMISED, RUN, USED, WAIT

INTERARRIVALS = (10, 20, 40, 80, 160)
BUSIEST, CALMEST = INTERARRIVALS[0], INTERARRIVALS[-1]
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0)  # SF of Figure 10
PB_FACTORS = (0.2, 0.5, 1.0)  # SF of Figure 11
LIMITS = (1.0, 4.0, math.inf)  # PL of Figure 12
SF = 0.5  # where it is not swept
PROJECTS, SEEDS = 1000, 5  # of the paper
TSB = "2tsb"


def feedback(reading: str = "") -> str:
    """Return 2TFB as a policy text. reading: parameters of an alternative, such as `victims=any`; it has no slack."""
    own = ",".join(each for each in reading.split(",") if not each.startswith("slack="))
    return ":".join(filter(None, ("2tfb", own)))


def with_slack(sf: float = SF, reading: str = "") -> str:
    """Return 2TFB-SF with infinite PL, as a policy text."""
    return "2tfb-sf:" + ",".join(filter(None, (f"sf={sf:g}", reading)))


def with_priority(sf: float = SF, pl: float = math.inf, reading: str = "") -> str:
    """Return 2TPB as a policy text."""
    return "2tpb:" + ",".join(filter(None, (f"sf={sf:g},pl={pl:g}", reading)))


@dataclass(frozen=True, slots=True)
class Ends:
    """The printed values at the two ends of a figure: changes against 2TSB at 10 and at 160."""

    what: str
    metric: str
    printed: tuple[float, float]
    policies: tuple[str, str]
    with_: tuple[str, str] = ("", "")  # further differences of the ends


_SLACK = (with_slack(), with_slack())
_FACTORS = (with_priority(PB_FACTORS[0]), with_priority(PB_FACTORS[-1])), (" with SF 0.2", " with SF 1")
_LIMITS = (with_priority(pl=LIMITS[0]), with_priority(pl=LIMITS[-1])), (" with PL 1", " with PL inf")
PRINTED_JOBS = Ends("Figure 8a, job turn-around of 2TFB-SF", JOB, (-0.075, -0.155), _SLACK)
PRINTED_WAITS = Ends("Figure 9a, project waiting of 2TFB-SF", WAIT, (-0.05, -0.33), _SLACK)
PRINTED_RUNS = Ends("Figure 9b, project running of 2TFB-SF", RUN, (0.007, 0.07), _SLACK)
PRINTED_HIGH = Ends("Figure 11, 2TPB, high-priority projects", HIGH, (-0.06, -0.27), *_FACTORS)
PRINTED_LOW = Ends("Figure 11, 2TPB, low-priority projects", LOW, (0.01, 0.26), *_FACTORS)
PRINTED_HIGH_LIMITED = Ends("Figure 12, 2TPB, high-priority projects", HIGH, (-0.015, -0.2), *_LIMITS)
PRINTED_LOW_LIMITED = Ends("Figure 12, 2TPB, low-priority projects", LOW, (0.0001, 0.107), *_LIMITS)
RAISED = 0.16  # all projects under 2TPB at 160 with SF 1
PRINTED_TURNAROUND = {TSB: (53_300.0, 4_500.0), with_slack(): (49_300.0, 3_800.0)}  # of jobs; from differences in s


def of_ends(sweep: Sweep, ends: Ends, size: str, trend: str, policy: str | None = None) -> list[Claim]:
    """Judge two claims: the printed numbers, and their trend, a larger change at 160 than at 10."""
    policies = ends.policies if policy is None else (policy, policy)
    at = [f"at {ia}{also}" for ia, also in zip((BUSIEST, CALMEST), ends.with_, strict=True)]
    changes = [change(sweep, ia, each, ends.metric) for ia, each in zip((BUSIEST, CALMEST), policies, strict=True)]
    low, high = (f"{100 * share:+g}%" for share in ends.printed)
    grows = changes[1].less(changes[0])
    bounds = (0.0, math.inf) if ends.printed[1] > ends.printed[0] else (-math.inf, 0.0)
    return [
        sizes(
            size,
            f"{ends.what} against 2TSB: {low} {at[0]}, {high} {at[1]}",
            [Size(*each, SEEDS) for each in zip(at, changes, ends.printed, strict=True)],
        ),
        judged(
            trend,
            f"{ends.what}: the change is larger {at[1]} than {at[0]}",
            f"the change {at[1]} minus that {at[0]}, {'above' if bounds[0] == 0 else 'below'} 0",
            [Case("in percentage points", grows, None, *bounds)],
        ),
    ]


def change(sweep: Sweep, ia: int, policy: str, metric: str) -> Estimate:
    """Return the relative difference of a metric from that of 2TSB."""
    return sweep.ratio(ia, policy, TSB, metric).plus(-1)


def _change(where: str, sweep: Sweep, ia: int, policy: str, metric: str, least: float, most: float) -> Case:
    return _case(where, sweep.changes(ia, policy, TSB, metric), sweep.values(ia, TSB, metric), least, most)


def _case(where: str, p: Sequence[float], q: Sequence[float], least: float, most: float) -> Case:
    """Return the case of a ratio of the means of paired values."""
    return Case(where, ratio(p, q), ratio(p[:SEEDS], q[:SEEDS]), least, most)


def _changes(sweep: Sweep, policy: str, metric: str, least: float = -math.inf, most: float = math.inf) -> list[Case]:
    """Return the cases at every inter-arrival time, against 2TSB."""
    return [_change(f"at {ia}", sweep, ia, policy, metric, least, most) for ia in INTERARRIVALS]


def calibration(sweep: Sweep, projects: int) -> list[Claim]:
    """Judge claim F4.0. With fewer projects than in the paper, queues grow less, so numbers are not comparable."""

    def case(ia: int, metric: str, least: float, most: float) -> Case:
        values = sweep.values(ia, TSB, metric)
        return Case(f"at {ia}", Estimate.of(values), Estimate.of(values[:SEEDS]), least, most)

    busy = case(BUSIEST, JOB, 0.85 * 53_300, 1.15 * 53_300)
    calm = case(CALMEST, JOB, -math.inf, math.inf)
    wait, run = case(BUSIEST, WAIT, 0, 30_000), case(BUSIEST, RUN, 0, 60_000)
    has = (calm.found.low <= 4_500 <= calm.found.high) if calm.found.bounded else None
    claims = [
        judged("F4.0a", "2TSB at 10: mean job turn-around about 53,300", "within 15% of it", [busy], False),
        replace(
            judged("F4.0b", "2TSB at 160: mean job turn-around about 4,500", "the interval has it", [calm], False),
            verdict=verdict_of([has]),
        ),
        judged("F4.0c", "2TSB at 10: projects wait at most 30,000", "the interval below it", [wait], False),
        judged("F4.0d", "2TSB at 10: projects run for at most 60,000", "the interval below it", [run], False),
    ]
    return claims if projects == PROJECTS else [replace(claim, verdict=UNDECIDED) for claim in claims]


def of_moves(sweep: Sweep, reading: str = "") -> list[Claim]:
    """Judge claims F4.1 to F4.5: the effects of 2TFB and 2TFB-SF on turn-around, waiting and running."""
    slack, none = with_slack(reading=reading), feedback(reading)
    jobs = "Figure 8a, job turn-around: 2TFB-SF (SF 0.5, PL inf) below 2TSB"
    both = [
        replace(case, where=f"{label} {case.where}")
        for label, policy in (("2TFB", none), ("2TFB-SF", slack))
        for case in _changes(sweep, policy, PROJECT, -0.08, 0.08)
    ]
    return [
        judged("F4.1a", jobs, "at every inter-arrival", _changes(sweep, slack, JOB, most=0)),
        *of_ends(sweep, PRINTED_JOBS, "F4.1b", "F4.1c", slack),
        judged(
            "F4.2",
            "Figure 8a, job turn-around: 2TFB almost that of 2TSB",
            "within 4%",
            _changes(sweep, none, JOB, -0.04, 0.04),
        ),
        judged("F4.3", "Figure 8b, project turn-around: 2TFB and 2TFB-SF roughly that of 2TSB", "within 8%", both),
        judged(
            "F4.4a",
            "Figure 9a, project waiting: 2TFB-SF below 2TSB",
            "at every inter-arrival",
            _changes(sweep, slack, WAIT, most=0),
        ),
        *of_ends(sweep, PRINTED_WAITS, "F4.4b", "F4.4c", slack),
        judged(
            "F4.5",
            "Figure 9b, project running: 2TFB-SF above 2TSB",
            "at every inter-arrival",
            _changes(sweep, slack, RUN, 0),
        ),
        *of_ends(sweep, PRINTED_RUNS, "F4.5b", "F4.5c", slack),
    ]


def of_slack(sweep: Sweep) -> list[Claim]:
    """Judge claim F4.6: the least-squares slope over log2 SF, in shares of 2TSB for each doubling."""
    logs = [math.log2(sf) for sf in FACTORS]
    centre = sum(logs) / len(logs)
    weights = [(x - centre) / sum((y - centre) ** 2 for y in logs) for x in logs]

    def case(ia: int, metric: str, least: float, most: float) -> Case:
        rows = zip(*(sweep.values(ia, with_slack(sf), metric) for sf in FACTORS), strict=True)
        slopes = [sum(w * value for w, value in zip(weights, row, strict=True)) for row in rows]
        where = f"at {ia}, {len(slopes)} replications"
        return _case(where, slopes, sweep.values(ia, TSB, metric), least, most)

    text = "Figure 10: with larger SF, 0.1 to 2,"
    return [
        judged(
            "F4.6a",
            f"{text} job turn-around falls",
            "per doubling of SF, in shares of 2TSB's, below 0 at 10 and 160",
            [case(ia, JOB, -math.inf, 0) for ia in (BUSIEST, CALMEST)],
        ),
        judged(
            "F4.6b",
            f"{text} project turn-around rises modestly",
            "the same, above 0",
            [case(ia, PROJECT, 0, math.inf) for ia in (BUSIEST, CALMEST)],
        ),
    ]


def of_priority(sweep: Sweep) -> list[Claim]:
    """Judge claim F4.7: 2TPB serves projects of high priority sooner, and the others later."""

    def cases(metric: str, least: float = -math.inf, most: float = math.inf) -> list[Case]:
        return [
            _change(f"at {ia}, SF {sf:g}", sweep, ia, with_priority(sf), metric, least, most)
            for ia in INTERARRIVALS
            for sf in PB_FACTORS
        ]

    *unchanged, _ = cases(PROJECT, -0.08, 0.08)
    raised = cases(PROJECT, 0)[-1]
    text = "Figure 11, 2TPB (PL inf, high priority with probability 1/5)"
    return [
        judged(
            "F4.7a",
            f"{text}: turn-around of high-priority projects below 2TSB",
            "below it, everywhere",
            cases(HIGH, most=0),
        ),
        judged(
            "F4.7b",
            f"{text}: turn-around of low-priority projects above 2TSB",
            "above it, everywhere",
            cases(LOW, 0),
        ),
        judged("F4.7c", f"{text}: turn-around of all projects unchanged but at 160 with SF 1", "within 8%", unchanged),
        sizes(
            "F4.7d",
            f"{text}: turn-around of all projects 16% above 2TSB at 160 with SF 1",
            [Size(raised.where, raised.found, RAISED, SEEDS)],
        ),
        *of_ends(sweep, PRINTED_HIGH, "F4.7e", "F4.7f"),
        *of_ends(sweep, PRINTED_LOW, "F4.7g", "F4.7h"),
    ]


def of_limits(sweep: Sweep) -> list[Claim]:
    """Judge claim F4.8: the larger the preemption limit, the larger the effect of 2TPB."""

    def cases(metric: str, least: float = -math.inf, most: float = math.inf) -> list[Case]:
        return [
            _change(f"at {ia}, PL {pl:g}", sweep, ia, with_priority(pl=pl), metric, least, most)
            for ia in INTERARRIVALS
            for pl in LIMITS
        ]

    def more(which: str, metric: str, least: float, most: float) -> list[Case]:
        few, many = with_priority(pl=LIMITS[0]), with_priority(pl=LIMITS[-1])
        return [
            _case(
                f"{which} priority at {ia}",
                sweep.changes(ia, many, few, metric),
                sweep.values(ia, TSB, metric),
                least,
                most,
            )
            for ia in INTERARRIVALS
        ]

    text = "Figure 12, 2TPB (SF 0.5)"
    return [
        judged(
            "F4.8a",
            f"{text}: turn-around of high-priority projects below 2TSB",
            "below it, everywhere",
            cases(HIGH, most=0),
        ),
        judged(
            "F4.8b",
            f"{text}: turn-around of low-priority projects above 2TSB",
            "above it, everywhere",
            cases(LOW, 0),
        ),
        judged(
            "F4.8c",
            f"{text}: the larger PL, the larger the effect",
            "PL inf minus PL 1, relative to 2TSB: below 0 for high-priority projects, above 0 for the others",
            [*more("high", HIGH, -math.inf, 0), *more("low", LOW, 0, math.inf)],
        ),
        *of_ends(sweep, PRINTED_HIGH_LIMITED, "F4.8d", "F4.8e"),
        *of_ends(sweep, PRINTED_LOW_LIMITED, "F4.8f", "F4.8g"),
    ]


def of_use(sweep: Sweep) -> Claim:
    """Judge claim F4.9: the utilization of resources hardly differs between the policies."""
    cases = [
        replace(case, where=f"{label} {case.where}")
        for label, policy in (("2TFB", feedback()), ("2TFB-SF", with_slack()), ("2TPB", with_priority()))
        for case in _changes(sweep, policy, USED, -0.03, 0.03)
    ]
    text = "the utilization of resources does not differ notably between the policies"
    return judged("F4.9", text, "within 3% of that of 2TSB", cases)


def of_laws(sweeps: Iterable[Sweep]) -> Claim:
    """Judge claim F4.10, in every run."""
    every = [numbers for sweep in sweeps for rows in sweep.found.values() for row in rows for numbers in row.values()]
    promised, moved, broken = (sum(each[name] for each in every) for name in (PROMISED, MOVED, BROKEN))
    return Claim(
        "F4.10",
        "2TSB never changes a departure; 2TFB moves none to later; 2TFB-SF none by more than SF turn-around times of "
        "its project; 2TPB none of a project of priority 1",
        "in every run: no project ends later than that, or is ever promised to",
        f"{broken:,.0f} of {promised:,.0f} projects in {len(every):,} runs, in which {moved:,.0f} promises were moved",
        verdict_of([broken == 0]),
    )
