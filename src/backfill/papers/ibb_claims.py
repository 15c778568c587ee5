"""The claims of the IBB paper, one function each, judged by the case that contradicts it most."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from backfill.analysis.interval import Estimate
from backfill.papers import nas
from backfill.papers.claims import UNDECIDED, Claim, below, verdict_of, within
from backfill.papers.ibb_logs import LANL, LOADS, META, RESPONSE, SLOWDOWN, WAIT, LogSweep
from backfill.papers.logs import how_to_get
from backfill.papers.sweep import Sweep

FCFS, EASY, LOWEST, CONSERVATIVE, BEST_FIT = "fcfs", "easy", "backfill-lowest", "conservative", "best-fit"
BB, BB_EMPTY = "bb:per_event=1", "bb:per_event=until_empty"
IBB, IBB_EVEN, IBB_FIXED = "ibb", "ibb:test=balance", "ibb:refresh=false"
IBB_CYCLE = "ibb, per cycle"  # one pass per negotiation cycle
LABELS = {
    FCFS: "FCFS", EASY: "BFF (EASY)", LOWEST: "BL", BB: "BB, one per pass", BB_EMPTY: "BB, until empty", IBB: "IBB",
    IBB_EVEN: "IBB, balance alone", CONSERVATIVE: "conservative", BEST_FIT: "best-fit", IBB_FIXED: "IBB, fixed",
    IBB_CYCLE: "IBB, one pass per cycle",
}  # fmt: skip
WORDS = {WAIT: "wait", RESPONSE: "response", SLOWDOWN: "slowdown"}
FAR, NEAR, CLOSE = 0.5, 0.15, 0.2  # far below: at most half; near: within 15 %; close to: within 20 %
GAIN = (0.30, 0.75)  # bounds of the best gain; the paper has 60 to 65 %

# Claims about the logs: id -> (the paper's statement, the expectation here, the logs needed)
OF_LOGS = {
    "F1.1a": ("LANL-CM5: IBB below BB in mean wait and response", "at every relative load", (LANL,)),
    "F1.1b": ("LANL-CM5: the gain of IBB over BB grows with load", "in wait and response, from load to load", (LANL,)),
    "F1.1c": ("LANL-CM5: the gain is up to 65 %", "the greatest in wait and response is 30 to 75 %", (LANL,)),
    "F1.2a": ("LANL-CM5: IBB below BB in mean slowdown", "at every relative load", (LANL,)),
    "F1.2b": ("LANL-CM5: IBB gains less in slowdown than in wait", "at every relative load", (LANL,)),
    "F1.3a": ("mixed: IBB below BB in mean wait, response and slowdown", "at every relative load", (LANL, META)),
    "F1.3b": ("mixed: the gain is up to 60 %", "the greatest of the three is 30 to 75 %", (LANL, META)),
    "F1.3c": ("mixed: gains a little larger than with LANL-CM5 alone", "in wait, at every relative load", (LANL, META)),
}  # fmt: skip


def without(names: Iterable[str]) -> list[Claim]:
    """Return the claims that cannot be judged because logs are missing."""
    lacking = set(names)
    return [
        Claim(name, claim, expected, "-", UNDECIDED, note=how_to_get([log for log in logs if log in lacking]))
        for name, (claim, expected, logs) in OF_LOGS.items()
        if lacking & set(logs)
    ]


def of_pure(sweep: LogSweep, ibb: str = IBB) -> list[Claim]:
    """Judge claims F1.1 and F1.2: the gains of IBB over BB on LANL-CM5."""
    return [
        _below_bb("F1.1a", sweep, (WAIT, RESPONSE), ibb),
        _grows("F1.1b", sweep, (WAIT, RESPONSE), ibb),
        _greatest("F1.1c", sweep, (WAIT, RESPONSE), ibb),
        _below_bb("F1.2a", sweep, (SLOWDOWN,), ibb),
        _smaller_in_slowdown(sweep, ibb),
    ]


def of_mixed(sweep: LogSweep, pure: LogSweep, ibb: str = IBB) -> list[Claim]:
    """Judge claim F1.3: with the mixed log, IBB gains as much over BB, or more."""
    return [
        _below_bb("F1.3a", sweep, tuple(WORDS), ibb),
        _greatest("F1.3b", sweep, tuple(WORDS), ibb),
        _larger_than_pure(sweep, pure, ibb),
    ]


def of_shifted(sweep: Sweep) -> Claim:
    """Judge claim F1.3a over several begins of the second log, minutes apart."""
    claim, expected, _ = OF_LOGS["F1.3a"]
    cases = {
        f"IBB minus BB in {WORDS[metric]} at {load:g}": sweep.ratio(load, IBB, BB, metric).plus(-1)
        for metric in WORDS
        for load in LOADS
    }
    claimed = below("F1.3a, begins shifted", claim, f"{expected}, in the mean over the begins", cases, " %", 100)
    gains = ", ".join(f"{-100 * cases[f'IBB minus BB in wait at {load:g}'].mean:.1f}" for load in LOADS)
    return replace(
        claimed, note=f"gains in wait {gains} %; the interval is that of the begins, not that of another log"
    )


def _below_bb(name: str, sweep: LogSweep, metrics: Iterable[str], ibb: str) -> Claim:
    cases = {
        f"{LABELS[ibb]} minus BB in {WORDS[metric]} at {load:g}": sweep.change(load, ibb, metric)
        for metric in metrics
        for load in LOADS
    }
    claim, expected, _ = OF_LOGS[name]
    return below(name, claim, expected, cases, " %", 100)


def _grows(name: str, sweep: LogSweep, metrics: Iterable[str], ibb: str) -> Claim:
    """Judge whether the gain at each load is larger than at the previous load."""
    cases = {
        f"the gain in {WORDS[metric]} at {a:g} minus that at {b:g}": sweep.apart(ibb, (b, metric), (a, metric))
        for metric in metrics
        for a, b in pairwise(LOADS)
    }
    claim, expected, _ = OF_LOGS[name]
    return _with_gains(below(name, claim, expected, cases, " points", 100), sweep, metrics, ibb)


def _greatest(name: str, sweep: LogSweep, metrics: Iterable[str], ibb: str) -> Claim:
    """Judge whether the greatest gain lies in the band, with its interval."""
    places = {(metric, load): sweep.gain(load, ibb, metric) for metric in metrics for load in LOADS}
    metric, load = max(places, key=lambda place: places[place])
    gain = sweep.change(load, ibb, metric).negative()
    claim, expected, _ = OF_LOGS[name]
    verdict = verdict_of([within(gain, *GAIN)])
    judged = Claim.of(name, claim, expected, gain.times(100), verdict, f"in {WORDS[metric]} at {load:g}", " %")
    return judged if gain.bounded else judged.noted("it has no interval")


def _smaller_in_slowdown(sweep: LogSweep, ibb: str) -> Claim:
    """Judge whether there is a gain in wait at every load, and a smaller one in slowdown."""
    cases = {
        f"the gain in slowdown minus that in wait at {load:g}": sweep.apart(ibb, (load, WAIT), (load, SLOWDOWN))
        for load in LOADS
    }
    cases |= {f"{LABELS[ibb]} minus BB in wait at {load:g}": sweep.change(load, ibb, WAIT) for load in LOADS}
    claim, expected, _ = OF_LOGS["F1.2b"]
    return _with_gains(below("F1.2b", claim, expected, cases, " points", 100), sweep, (WAIT, SLOWDOWN), ibb)


def _larger_than_pure(sweep: LogSweep, pure: LogSweep, ibb: str) -> Claim:
    """Judge whether there is a gain at every load, larger than with LANL-CM5 alone; the two count as independent."""
    cases = {
        f"the gain with LANL-CM5 alone minus the mixed one at {load:g}": sweep.change(load, ibb, WAIT).less(
            pure.change(load, ibb, WAIT)
        )
        for load in LOADS
    }
    cases |= {f"{LABELS[ibb]} minus BB in wait at {load:g}": sweep.change(load, ibb, WAIT) for load in LOADS}
    claim, expected, _ = OF_LOGS["F1.3c"]
    return _with_gains(below("F1.3c", claim, expected, cases, " points", 100), sweep, (WAIT,), ibb)


def _with_gains(claim: Claim, sweep: LogSweep, metrics: Iterable[str], ibb: str) -> Claim:
    """Return the claim with a note of all gains."""
    by_load = "; ".join(
        f"{WORDS[metric]} {', '.join(f'{100 * sweep.gain(load, ibb, metric):.1f}' for load in LOADS)} %"
        for metric in metrics
    )
    gains = f"gains at {', '.join(f'{load:g}' for load in LOADS)}: {by_load}"
    return claim.noted(gains)


def shorter_response(sweep: Sweep) -> list[Claim]:
    """Judge claim F1.4: BB against first fit on K resources."""
    return [
        _shorter("F1.4", sweep, BB_EMPTY, "until there is no candidate"),
        _shorter("F1.4, one per pass", sweep, BB, "with one backfill in each pass"),
    ]


def _shorter(name: str, sweep: Sweep, policy: str, how: str) -> Claim:
    changes = {k: sweep.ratio(k, policy, EASY, RESPONSE).plus(-1) for k in sweep.found}
    cases = {f"{LABELS[policy]} minus BFF in response at K = {k}": each for k, each in changes.items()}
    text = "K resources: BB has a shorter mean response than first-fit backfilling, by up to 50 %"
    best = min(changes, key=lambda k: changes[k].mean)
    claim = below(name, text, f"shorter for K = 2 to 8, BB {how}", cases, " %", 100)
    return replace(claim, note=f"the greatest gain: {changes[best].negative().times(100)} %, at K = {best}")


def of_54_jobs(
    sweep: Sweep,
    ibb: str = IBB,
    far: Sequence[str] = (WAIT, RESPONSE),
) -> list[Claim]:
    """Judge claim F1.5; the sweep has one x, 54."""

    def ratio(a: str, b: str, metric: str, most: float) -> Estimate:
        return sweep.ratio(54, a, b, metric).plus(-most)

    def ratio_text(a: str, b: str, what: str, most: float) -> str:
        return f"the ratio {LABELS[a]} / {LABELS[b]} of {what}, minus {most:g}"

    parallel = "mean_running_jobs"
    return [
        below("F1.5a", f"54 jobs: {' and '.join(WORDS[metric] for metric in far)} far below FCFS under IBB",
              f"{'their means' if len(far) > 1 else 'its mean'} at most half of FCFS's",
              {ratio_text(ibb, FCFS, WORDS[metric], FAR): ratio(ibb, FCFS, metric, FAR) for metric in far}),
        below("F1.5b", "54 jobs: slowdown nearly equal over the jobs under IBB", "less uneven than under FCFS",
              {"coefficient of variation, IBB minus FCFS": sweep.change(54, ibb, FCFS, "unevenness")}),
        below("F1.5c", "54 jobs: best-fit runs about as many jobs at once as IBB", "within 20 %",
              {ratio_text(BEST_FIT, ibb, "running jobs", 1 + CLOSE): ratio(BEST_FIT, ibb, parallel, 1 + CLOSE),
               f"{1 - CLOSE:g} minus that ratio": ratio(BEST_FIT, ibb, parallel, 1 - CLOSE).negative()}),
        below("F1.5d", "54 jobs: the largest jobs wait longer under best-fit than under IBB",
              f"the {len(nas.LARGEST)} of class {nas.CLASSES[-1]} with {nas.PROCESSES[-1]} processes",
              {"their mean wait, IBB minus best-fit": sweep.change(54, ibb, BEST_FIT, "wait_of_largest")}, " s"),
    ]  # fmt: skip


def of_lublin(sweep: Sweep, ibb: str = IBB) -> list[Claim]:
    """Judge claim F1.6, which is not from the paper but from our own check; x is (memory, load)."""
    uneven = {
        f"BFF minus {LABELS[IBB_EVEN]} in wait, {_at(x)}": sweep.ratio(x, IBB_EVEN, EASY, WAIT).negative().plus(1)
        for x in sweep.found
    }
    return [
        _within("F1.6a", "IBB is close to first fit", "mean wait within 15 % at every load", sweep, ibb, NEAR),
        below("F1.6b", "IBB that tests balance alone is worse than first fit", "longer mean wait at every load",
              uneven, " %", 100),
        _within("F1.6c", "BB until empty is close to first fit", "mean wait within 20 % at every load", sweep,
                BB_EMPTY, CLOSE),
    ]  # fmt: skip


def _within(name: str, claim: str, expected: str, sweep: Sweep, policy: str, within: float) -> Claim:
    cases = {}
    for x in sweep.found:
        change = sweep.ratio(x, policy, EASY, WAIT).plus(-1)
        cases[f"{LABELS[policy]} minus BFF in wait, {_at(x)}, {100 * within:g} % allowed"] = change.plus(-within)
        cases[f"BFF minus {LABELS[policy]} in wait, {_at(x)}, {100 * within:g} % allowed"] = change.negative().plus(
            -within
        )
    return below(name, claim, expected, cases, " %", 100)


def _at(x: tuple[str, float]) -> str:
    return f"{x[0]} memory at load {x[1]:g}"
