"""The claims of the grid paper, judged by the case that contradicts each most."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from backfill.analysis.interval import Estimate
from backfill.papers.cases import Case, judged
from backfill.papers.claims import Claim, below, verdict_of, within
from backfill.papers.grid_runs import COMPLETED, CUTS, GANGS, JOBS, LATE, OTHER, RT, SLD, WAIT, WARMUP, WRT, WSLD
from backfill.papers.grid_steady import Steady
from backfill.papers.sweep import Sweep
from backfill.papers.waiting_lines import mean_wait
from backfill.workloads.grid import POWERS, UNIFORM

LOCAL = (8, 9, 10, 11, 12, 13)  # local jobs per second at each site
LOW, HIGH = LOCAL[0], (12, 13)
TOLERANCES = (0, 0.1, 0.25, 0.5)
STARVING = (1, 2)
STARVED = (10, 11, 12, 13)  # loads at which these are run
APPROACHES = SITE, SPAN = ("gang-site", "gang-span")
SIZES = {UNIFORM: "uniform 2-13", POWERS: "2, 4, 8, 16"}
LITTLE = 0.1  # tolerated effect of T on means at low load
USUALLY = 0.9  # share of the runs in which a warm-up must be long enough
MOST = 0.15  # tolerated increase of RT and SLD under gang-span
NEARLY = 0.03  # tolerated difference of nearly equal shares, and of nearly all from all

Cases = dict[str, Estimate]
BySizes = Mapping[str, Sweep]


def policy(approach: str, tolerance: float = 0) -> str:
    """Return the text of a policy."""
    return f"{approach}:tolerance={tolerance:g}" if tolerance else approach


def claims_of(sweeps: BySizes, alone: Sweep, single: Sweep, steady: Steady) -> list[Claim]:
    """Judge all claims. sweeps: by sizes of gangs; alone: without gangs; single: also one processor per site."""
    of_gangs = f"steady state: {steady.sentence()}"
    return [
        nearly_all_complete(sweeps[UNIFORM]),
        span_completes_more(sweeps[POWERS]),
        completion_of_both(sweeps),
        span_prefers_powers(sweeps),
        gangs_respond_sooner(sweeps, WRT, "F2.4a").noted(of_gangs),
        gangs_respond_sooner(sweeps, WSLD, "F2.4b").noted(of_gangs),
        local_jobs_respond_later(sweeps, RT, "F2.5a"),
        local_jobs_respond_later(sweeps, SLD, "F2.5b"),
        tolerance_changes_little(sweeps),
        tolerance_helps_local_jobs(sweeps),
        no_gang_is_late(sweeps.values()),
        sites_join_the_shortest_queue(alone),
        single_processors_are_mm1(single),
    ]


def in_another_reading(reading: str, powers: Sweep) -> list[Claim]:
    """Judge the claims that compare the approaches with powers of two at high load."""
    claims = [
        span_completes_more(powers),
        gangs_respond_sooner({POWERS: powers}, WRT, "F2.4a"),
        local_jobs_respond_later({POWERS: powers}, RT, "F2.5a", HIGH),
    ]
    return [replace(claim, id=f"{claim.id}, {reading}") for claim in claims]


def nearly_all_complete(uniform: Sweep) -> Claim:
    """Judge claim F2.1: with sizes 2 to 13, nearly all gangs complete under both approaches."""
    cases = {
        f"{1 - NEARLY:.0%} minus the completion under {approach} at {local}": uniform.mean(local, approach, COMPLETED)
        .negative()
        .plus(1 - NEARLY)
        for approach in APPROACHES
        for local in LOCAL
    }
    text = "Figure 2, sizes 2 to 13: nearly all gangs complete in both approaches at medium and high load"
    return _points("F2.1", text, f"at least {1 - NEARLY:.0%} of the gangs, up to {LOCAL[-1]} local jobs/s", cases)


def span_completes_more(powers: Sweep) -> Claim:
    """Judge claim F2.2: the direction by intervals, the size by means."""
    gains = {f"at {local}": powers.change(local, SPAN, SITE, COMPLETED).times(100) for local in HIGH}
    text = "Figure 3, powers of two: approach 2 completes about 10% more gangs at high load"
    fits = [within(each, least=0) if 2 <= each.mean <= 15 else within(each, 2, 15) for each in gains.values()]
    where, worst = min(gains.items(), key=lambda case: case[1].low)
    expected = f"more at {shown(HIGH)}, by 2 to 15 points in the mean"
    claim = Claim.of("F2.2", text, expected, worst, verdict_of(fits), where, " points")
    return replace(claim, note="; ".join(f"{each} points, {where}" for where, each in gains.items()))


def completion_of_both(sweeps: BySizes) -> Claim:
    """Judge claim F2.3: approach 1 completes nearly the same share of gangs for both distributions of sizes."""
    cases: Cases = {}
    for local in HIGH:
        more = _apart(sweeps, local, SITE)
        cases[f"uniform minus powers at {local}, minus {100 * NEARLY:g}"] = more.plus(-NEARLY)
        cases[f"powers minus uniform at {local}, minus {100 * NEARLY:g}"] = more.negative().plus(-NEARLY)
    text = "Figures 2 and 3: approach 1 completes nearly the same share of gangs for both distributions of sizes"
    claim = _points("F2.3", text, f"within {100 * NEARLY:g} points at {shown(HIGH)}", cases)
    return claim.noted(_shares(sweeps, SITE))


def span_prefers_powers(sweeps: BySizes) -> Claim:
    """Judge claim F2.3b: approach 2 completes more gangs with powers of two than with uniform sizes."""
    cases = {f"uniform minus powers at {local}": _apart(sweeps, local, SPAN) for local in HIGH}
    text = "Figure 3: approach 2 completes more gangs with powers of two than with uniform sizes"
    return _points("F2.3b", text, f"more at {shown(HIGH)}", cases).noted(_shares(sweeps, SPAN))


def _apart(sweeps: BySizes, local: int, approach: str) -> Estimate:
    """Return the completion with uniform sizes minus that with powers of two, seed by seed."""
    one, other = (sweeps[sizes].values(local, approach, COMPLETED) for sizes in (UNIFORM, POWERS))
    return Estimate.of([p - q for p, q in zip(one, other, strict=True)])


def _shares(sweeps: BySizes, approach: str) -> str:
    return f"completion under {approach} " + "; ".join(
        f"at {local}: "
        + ", ".join(
            f"{100 * sweep.mean(local, approach, COMPLETED).mean:.1f}% ({SIZES[s]})" for s, sweep in sweeps.items()
        )
        for local in HIGH
    )


def paired(sweep: Sweep, local: float, metric: str, sizes: str, a: str = SPAN, b: str = SITE) -> Case:
    """Return the relative difference of a metric between policies a and b: the median over the seeds, by the sign test.

    Slowdowns, and responses of a queue that is nearly unstable, have tails too heavy for an interval of their mean.
    """
    both = zip(sweep.values(local, a, metric), sweep.values(local, b, metric), strict=True)
    changes = [p / q - 1 for p, q in both]
    lower = sum(each < 0 for each in changes)
    return Case(f"at {local:g}, {SIZES[sizes]}, lower in {lower} of {len(changes)}", Estimate.of_median(changes))


def gangs_respond_sooner(sweeps: BySizes, metric: str, name: str) -> Claim:
    """Judge claim F2.4: at high load, gangs respond sooner under approach 2."""
    cases = [
        replace(paired(sweep, local, metric, sizes), most=0.0) for sizes, sweep in sweeps.items() for local in HIGH
    ]
    text = f"gangs: {metric} lower under approach 2 at high load"
    return judged(name, text, f"lower under gang-span at {shown(HIGH)}, medians of changes seed by seed", cases)


def local_jobs_respond_later(sweeps: BySizes, metric: str, name: str, loads: Sequence[int] = ()) -> Claim:
    """Judge claim F2.5 at high loads; the note lists all loads, or those given."""
    every = {
        (sizes, local): paired(sweep, local, metric, sizes)
        for sizes, sweep in sweeps.items()
        for local in loads or LOCAL
    }
    cases = [replace(case, least=0.0, most=MOST) for (_, local), case in every.items() if local in HIGH]
    text = f"local jobs: {metric} slightly higher under approach 2 at high load"
    expected = f"higher at {shown(HIGH)}, by at most {100 * MOST:g}%, medians of changes seed by seed"
    calm = ", ".join(case.where.removeprefix("at ") for (_, local), case in every.items() if local not in HIGH)
    claim = judged(name, text, expected, cases)
    return replace(claim, note=f"{claim.note}; at {calm}") if calm else claim


def tolerance_changes_little(sweeps: BySizes) -> Claim:
    """Judge our own claim F2.6 at low load."""
    cases: Cases = {}
    for sizes, approach, metric, tolerance, changed in _by_tolerance(sweeps, LOW, (RT, WRT)):
        where = f"ratio of {metric} at {LOW}, T = {tolerance:g}, {approach}, {SIZES[sizes]}"
        cases[f"{where}, minus {1 + LITTLE:g}"] = changed.plus(-1 - LITTLE)
        cases[f"{1 - LITTLE:g} minus the {where}"] = changed.negative().plus(1 - LITTLE)
    text = "ours, not the paper's: inaccurate run times (T > 0) change RT and WRT little at low load"
    return below("F2.6a", text, f"by at most {100 * LITTLE:g}% at {LOW}", cases)


def tolerance_helps_local_jobs(sweeps: BySizes) -> Claim:
    """Judge our own claim F2.6 at high load."""
    most, cases = TOLERANCES[-1], []
    for sizes, sweep in sweeps.items():
        for approach in APPROACHES:
            for metric, least, most_of in ((RT, -math.inf, 0.0), (WRT, 0.0, math.inf)):
                case = paired(sweep, HIGH[1], metric, sizes, policy(approach, most), approach)
                cases.append(Case(f"{metric} {case.where}, {approach}", case.found, None, least, most_of))
    text = "ours, not the paper's: at high load local RT falls and the WRT of gangs rises with T"
    expected = f"T = {most:g} against T = 0 at {HIGH[1]}, medians of changes seed by seed"
    return judged("F2.6b", text, expected, cases)


def _by_tolerance(
    sweeps: BySizes, local: int, metrics: Iterable[str]
) -> Iterable[tuple[str, str, str, float, Estimate]]:
    for sizes, sweep in sweeps.items():
        for approach in APPROACHES:
            for metric in metrics:
                for tolerance in TOLERANCES[1:]:
                    more = sweep.ratio(local, policy(approach, tolerance), policy(approach), metric)
                    yield sizes, approach, metric, tolerance, more


def no_gang_is_late(sweeps: Iterable[Sweep]) -> Claim:
    """Judge claim F2.7 with T = 0."""
    gangs = late = 0.0
    for sweep in sweeps:
        for each in sweep.found.values():
            for numbers in each:
                gangs += sum(numbers[approach][GANGS] for approach in APPROACHES)
                late += sum(numbers[approach][LATE] for approach in APPROACHES)
    text = "law: with T = 0 no gang starts later than was known when its processors were chosen"
    return Claim("F2.7a", text, "none", f"{late:,.0f} of {gangs:,.0f} gangs that waited", verdict_of([late == 0]))


def sites_join_the_shortest_queue(alone: Sweep) -> Claim:
    """Judge claim F2.7 without gangs: every wait, and the mean between those of one queue and of random queues."""
    jobs, other = (sum(sum(alone.values(local, SITE, each)) for local in LOCAL) for each in (JOBS, OTHER))
    means = {local: alone.mean(local, SITE, WAIT) for local in LOCAL}
    bounds = {local: (mean_wait(local, 1, 16), mean_wait(local / 16, 1, 1)) for local in LOCAL}
    held = other == 0 and all(low < means[local].mean < high for local, (low, high) in bounds.items())
    means_and_bounds = "; ".join(
        f"{means[local]} s at {local}, {low:.4g} to {high:.4g}" for local, (low, high) in bounds.items()
    )
    text = "without gangs each site is 16 queues that are joined by the shortest"
    expected = (
        "each wait that of a reference simulation with the same random numbers, and the mean between that of one "
        "queue for all (M/M/16) and that of 16 queues drawn by lot (M/M/1)"
    )
    measured = f"{other:,.0f} of {jobs:,.0f} waits are others"
    return Claim(
        "F2.7b", text, expected, measured, verdict_of([held]), note=f"mean waits and bounds: {means_and_bounds}"
    )


def single_processors_are_mm1(single: Sweep) -> Claim:
    """Judge claim F2.7 for sites of one processor."""
    waits = {load: single.mean(load, SITE, WAIT) for load in single.found}
    held = all(each.low <= mean_wait(load, 1, 1) <= each.high for load, each in waits.items())
    shown = "; ".join(f"at {load:g}: {each}, theory {mean_wait(load, 1, 1):.4g}" for load, each in waits.items())
    text = "without gangs a site of one processor is M/M/1"
    expected = "the mean wait of theory lies in the 95% interval of ours"
    return Claim("F2.7c", text, expected, shown, verdict_of([held]))


def shown(values: Iterable[float]) -> str:
    """Return several values as a text."""
    return " and ".join(f"{value:g}" for value in values)


def _points(name: str, claim: str, expected: str, cases: Cases) -> Claim:
    return below(name, claim, expected, cases, " points", 100)


def warm_up_is_over(sweeps: BySizes) -> str:
    """Return a sentence on whether the warm-up suffices, by MSER-5 of each run at the highest load."""
    sentences = []
    for whose, name in CUTS.items():
        cuts = [cut for sweep in sweeps.values() for each in APPROACHES for cut in sweep.values(HIGH[1], each, name)]
        enough = sum(cut <= WARMUP for cut in cuts)
        sentences.append(
            f"by the responses of {whose} it would leave out no more than these in {enough} of {len(cuts)} runs, "
            f"{np.median(cuts):,.0f} in the median run, so the warm-up is "
            + ("long enough" if enough >= USUALLY * len(cuts) else "too short")
        )
    return (
        f"MSER-5 (White, Cobb and Spratt, WSC 2000) leaves out what makes the mean of the rest least certain. Of the "
        f"{WARMUP:,} completions of warm-up at {HIGH[1]} local jobs per second: {'; '.join(sentences)}."
    )
