"""The claims of the farm paper, one function each, judged by the case that contradicts it most."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backfill.analysis.interval import Estimate
from backfill.papers.claims import Claim, below, verdict_of, worst_of
from backfill.papers.starvation import waits_of_the_starved
from backfill.papers.sweep import Sweep

INTERARRIVALS = (4, 6, 12, 24, 48)
BUSY, CALM = (4, 6, 12), (24, 48)  # the paper's division by contention
RATIOS = ((0.1, 0.2), (0.2, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9))
SCARCE, AMPLE = RATIOS[:2], RATIOS[3:]
FCFS, BF_FCFS, BF_UNMOD, BF_MOD = POLICIES = ("fcfs", "bf-fcfs", "bf-unmod", "bf-mod")
PRIORITY = (BF_UNMOD, BF_MOD)
LABELS = {FCFS: "FCFS", BF_FCFS: "BF_FCFS", BF_UNMOD: "BF_UNMOD", BF_MOD: "BF_MOD"}
LATE, USE, SLOW, LICENCES = "out_deadline", "system_usage", "mean_slowdown", "licence_usage"

Cases = dict[str, Estimate]  # place -> estimate
Tables = Mapping[int, Sweep]  # inter-arrival -> sweep over RATIOS


def band(ratio: tuple[float, float]) -> str:
    """Format a band of ratios: `10-20 %`."""
    return f"{100 * ratio[0]:.0f}-{100 * ratio[1]:.0f} %"


def claims_of(sweep: Sweep) -> list[Claim]:
    """Return the claims about the sweep over inter-arrival times."""
    return [
        deadlines_in_order(sweep),
        calm_gain_is_backfilling(sweep),
        busy_gain_is_priority(sweep),
        usage_above_fcfs(sweep),
        usage_above_bf_fcfs(sweep),
        slowdown_far_below_fcfs(sweep),
        slowdown_like_bf_fcfs(sweep),
        mod_like_unmod(sweep),
    ]


def deadlines_in_order(sweep: Sweep) -> Claim:
    """Judge claim F0.1a: missed deadlines rank as BF_MOD and BF_UNMOD, then BF_FCFS, then FCFS."""
    cases = _changes(sweep, BF_FCFS, FCFS, LATE)
    for policy in PRIORITY:
        cases |= _changes(sweep, policy, BF_FCFS, LATE, BUSY)
        cases |= {f"{where}, 1 point allowed": each.plus(-0.01)
                  for where, each in _changes(sweep, policy, BF_FCFS, LATE, CALM).items()}  # fmt: skip
    what = "Out Deadline: BF_MOD and BF_UNMOD < BF_FCFS < FCFS"
    return _below("F0.1a", what, "everywhere; the first may be a tie within 1 point at 24 and 48", cases)


def calm_gain_is_backfilling(sweep: Sweep) -> Claim:
    """Judge claim F0.1b: at low load, most of the gain over FCFS comes from backfilling itself."""
    cases = {}
    for policy in PRIORITY:
        for calm in CALM:
            for busy in BUSY:
                gaps = zip(*(sweep.changes(x, BF_FCFS, policy, LATE) for x in (calm, busy)), strict=True)
                cases[f"gap of {LABELS[policy]} at {calm} minus that at {busy}"] = Estimate.of([a - b for a, b in gaps])
    what = "at 24 and 48 most of the gain over FCFS comes from backfilling itself"
    return _below("F0.1b", what, "the gap between BF_FCFS and BF_* is smaller at 24 and 48 than at 4, 6, 12", cases)


def busy_gain_is_priority(sweep: Sweep) -> Claim:
    """Judge claim F0.1c: at high load, priorities reduce missed deadlines."""
    cases = _all(_changes(sweep, policy, BF_FCFS, LATE, BUSY) for policy in PRIORITY)
    return _below("F0.1c", "at 4, 6, 12 priority makes the difference", "BF_* below BF_FCFS in Out Deadline", cases)


def usage_above_fcfs(sweep: Sweep) -> Claim:
    """Judge claim F0.2: all backfilling policies have a higher system usage than FCFS."""
    cases = _all(_changes(sweep, FCFS, policy, USE) for policy in POLICIES[1:])
    return _below("F0.2", "System Usage: all backfilling policies above FCFS", "at every inter-arrival", cases)


def usage_above_bf_fcfs(sweep: Sweep) -> Claim:
    """Judge claim F0.2b: BF_MOD and BF_UNMOD have a higher system usage than BF_FCFS."""
    cases = _all(_changes(sweep, BF_FCFS, policy, USE) for policy in PRIORITY)
    return _below("F0.2b", "BF_MOD and BF_UNMOD above BF_FCFS in System Usage", "at every inter-arrival", cases)


def slowdown_far_below_fcfs(sweep: Sweep) -> Claim:
    """Judge claim F0.3a: all backfilling policies have a far lower slowdown than FCFS."""
    cases = _all(_ratios(sweep, policy, FCFS, BUSY, 0.5) for policy in POLICIES[1:])
    cases |= _all(_ratios(sweep, policy, FCFS, CALM, 1.0) for policy in POLICIES[1:])
    what = "Slow Down: all backfilling policies far below FCFS"
    return _below("F0.3a", what, "at most half of it at 4, 6, 12; below it at 24, 48", cases, shares=False)


def slowdown_like_bf_fcfs(sweep: Sweep) -> Claim:
    """Judge claim F0.3b: BF_MOD and BF_UNMOD hardly improve the slowdown of BF_FCFS."""
    cases: Cases = {}
    for policy in PRIORITY:
        cases |= _ratios(sweep, policy, BF_FCFS, INTERARRIVALS, 1.2)
        for ia in INTERARRIVALS:
            ratio = sweep.ratio(ia, policy, BF_FCFS, SLOW)
            cases[f"0.5 minus the ratio {LABELS[policy]} / BF_FCFS at {ia}"] = ratio.negative().plus(0.5)
    what = "BF_MOD and BF_UNMOD do not greatly improve Slow Down over BF_FCFS"
    return _below("F0.3b", what, "ratio of Slow Downs from 0.5 to 1.2", cases, shares=False)


def licence_usage_where_scarce(tables: Tables) -> Claim:
    """Judge claim F0.4a: priorities increase the licence usage only if licences are scarce."""
    cases: Cases = {}
    for ia, sweep in tables.items():
        for policy in PRIORITY:
            for ratio in SCARCE:
                where = f"BF_FCFS minus {LABELS[policy]} at {band(ratio)}, inter-arrival {ia}"
                cases[where] = sweep.change(ratio, BF_FCFS, policy, LICENCES)
            for ratio in AMPLE:
                where = f"{LABELS[policy]} minus BF_FCFS at {band(ratio)}, inter-arrival {ia}, 0.5 points allowed"
                cases[where] = sweep.change(ratio, policy, BF_FCFS, LICENCES).plus(-0.005)
    what = "licence usage: BF_* above BF_FCFS where licences are scarce, and only there"
    return _below("F0.4a", what, "above it at License Ratios of 10 to 30 %, not at 50 to 90 %", cases)


def deadlines_where_scarce(tables: Tables) -> Claim:
    """Judge claim F0.4b: if licences are scarce, BF_MOD misses fewer deadlines than BF_UNMOD."""
    ratios = RATIOS[:3]
    changes = [sweep.changes(r, BF_MOD, BF_UNMOD, LATE) for sweep in tables.values() for r in ratios]
    pooled = Estimate.of([sum(each) / len(each) for each in zip(*changes, strict=True)])
    single = {
        f"at {band(r)}, inter-arrival {ia}": sweep.change(r, BF_MOD, BF_UNMOD, LATE)
        for ia, sweep in tables.items()
        for r in ratios
    }
    where, worst = worst_of(single)
    claim = _below(
        "F0.4b",
        "where licences are scarce BF_MOD misses fewer deadlines than BF_UNMOD",
        "mean over License Ratios of 10 to 50 %",
        {"BF_MOD minus BF_UNMOD, over inter-arrivals 6 and 12": pooled},
    )
    return replace(claim, note=f"the single case most against it: {worst.times(100)} points, {where}")


def mod_like_unmod(sweep: Sweep) -> Claim:
    """Judge claim F0.5: apart from that, BF_MOD and BF_UNMOD do not differ measurably."""
    cases: Cases = {}
    for metric, within in ((LATE, 0.03), (USE, 0.02)):
        for one, other in (PRIORITY, PRIORITY[::-1]):
            for where, each in _changes(sweep, one, other, metric).items():
                cases[f"{where}, {metric}, {100 * within:g} points allowed"] = each.plus(-within)
    what = "apart from that no measurable difference between BF_MOD and BF_UNMOD"
    return _below("F0.5", what, "Out Deadline within 3 points, System Usage within 2", cases)


def nobody_starves_unless(sweep: Sweep) -> Claim:
    """Judge claim F0.6: the law of BF_UNMOD on every farm of the sweep, and a job that BF_MOD starves."""
    broken = sum(sum(sweep.values(ia, BF_UNMOD, "violations")) for ia in INTERARRIVALS)
    runs = sum(len(each) for each in sweep.found.values())
    starved, aged, others = waits_of_the_starved()
    return Claim(
        "F0.6",
        "BF_UNMOD never lets a reserved job be overtaken; under BF_MOD only aging fights starvation",
        "no head starts after its first shadow time; a wide job starves with age_factor 0, and not with a large one",
        f"{broken:.0f} rules broken in {runs} runs of BF_UNMOD; the wide job waits {starved:,.0f} s with age_factor 0 "
        f"and {aged:,.0f} s with age_factor 1, where no other waits longer than {others:,.0f} s",
        verdict_of([bool(broken == 0 and starved > 10 * others and aged <= others)]),
    )


def robust(sweep: Sweep, other: Mapping[tuple[str, float], Sweep]) -> Claim:
    """Judge claim F0.1c with each weight divided by ten, and multiplied by ten."""
    cases = {
        f"{LABELS[policy]} minus BF_FCFS at {ia}, {name} x {factor:g}": Estimate.of(
            [a - b for a, b in zip(each.values(ia, policy, LATE), sweep.values(ia, BF_FCFS, LATE), strict=True)]
        )
        for (name, factor), each in other.items()
        for ia in BUSY
        for policy in PRIORITY
    }
    what = "at 4, 6, 12 priority makes the difference"
    return _below("F0.1c, other weights", what, "with each weight x 0.1 and x 10", cases)


def _changes(sweep: Sweep, a: str, b: str, metric: str, at: Iterable[int] = INTERARRIVALS) -> Cases:
    return {f"{LABELS[a]} minus {LABELS[b]} at {ia}": sweep.change(ia, a, b, metric) for ia in at}


def _ratios(sweep: Sweep, a: str, b: str, at: Iterable[int], most: float) -> Cases:
    return {
        f"the ratio {LABELS[a]} / {LABELS[b]} at {ia}, minus {most:g}": sweep.ratio(ia, a, b, SLOW).plus(-most)
        for ia in at
    }


def _all(several: Iterable[Cases]) -> Cases:
    return {where: each for cases in several for where, each in cases.items()}


def _below(name: str, claim: str, expected: str, cases: Cases, shares: bool = True) -> Claim:
    """Return a claim that holds if every interval lies below 0. Differences of shares are in percentage points."""
    return below(name, claim, expected, cases, *((" points", 100) if shares else ()))
