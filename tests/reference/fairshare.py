"""Flexible backfilling with Maui's fairshare component, in exact fractions.

All runs are remembered; what they held in each window is added up anew in every pass.
Source: Maui Administrator's Guide, 6.3.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from backfill.model.units import SECOND

from .flexible import Weights, equivalents, flexible
from .words import Decision, Job, Policy, Time, View

USUAL = Weights()


@dataclass(frozen=True)
class Shares:
    w_fs_user: str = "10"
    w_fs_account: str = "0"
    fs_user_target: str = "25"
    fs_account_target: str = "0"
    fs: str = "1"
    fs_mode: str = "target"
    fs_by: str = "difference"
    fs_policy: str = "dedicated-ps"
    fs_interval: str = "24"
    fs_depth: int = 7
    fs_decay: str = "1"
    users: Mapping[object, str] = field(default_factory=dict)  # targets of single ones
    accounts: Mapping[object, str] = field(default_factory=dict)


def fairshare(shares: Shares = Shares(), weights: Weights = USUAL) -> Policy:
    kinds: list[tuple[str, str, Mapping[object, str], Callable[[Job], object]]] = [
        (shares.w_fs_user, shares.fs_user_target, shares.users, lambda job: job.user),
        (shares.w_fs_account, shares.fs_account_target, shares.accounts, lambda job: job.project or None),
    ]

    def more(view: View) -> Callable[[Job], Fraction]:
        runs = all_runs(view)
        used = {key: size(job, view, shares) * weighted(*key[1:], view.now, shares) for key, job in runs.items()}
        total = sum(used.values())

        def added(job: Job) -> Fraction:
            found = Fraction(0)
            for weight, usual, single, whose in kinds:
                target = Fraction(single.get(whose(job), usual))
                if whose(job) is not None and total and target:
                    mine = sum(part for key, part in used.items() if whose(runs[key]) == whose(job))
                    found += Fraction(weight) * short(100 * mine / total, target, shares)
            return Fraction(shares.fs) * found

        return added

    inner = flexible(weights, more=more)

    def decide(view: View) -> Decision:
        decision = inner(view)
        begun = [(start.job, view.now) for start in decision.starts]
        view.memory["going"] = [*((r.job, r.start) for r in view.running), *begun]
        return decision

    return decide


def all_runs(view: View) -> dict[tuple[int, Time, Time], Job]:
    """(row, start, end so far) of every run until now: one that is there no more has ended in this instant."""
    over: dict[tuple[int, Time, Time], Job] = view.memory.setdefault("over", {})
    there = {(r.job.row, r.start): r for r in view.running}
    going: list[tuple[Job, Time]] = view.memory.get("going", [])  # since the last pass
    over.update({(job.row, start, view.now): job for job, start in going if (job.row, start) not in there})
    return over | {(*key, view.now): r.job for key, r in there.items()}


def weighted(start: Time, end: Time, now: Time, shares: Shares) -> Fraction:
    """The time from start to end, each window of it by its age."""
    interval = round(Fraction(shares.fs_interval) * 3600 * SECOND)
    parts: Counter[int] = Counter()
    for n in range(shares.fs_depth):
        begin = (now // interval - n) * interval
        parts[n] = max(min(end, begin + interval) - max(start, begin), 0)
    return sum((Fraction(shares.fs_decay) ** n * part for n, part in parts.items()), Fraction(0))


def size(job: Job, view: View, shares: Shares) -> Fraction:
    if shares.fs_policy == "dedicated-pes":
        return equivalents(job, view)
    return Fraction(job.procs)


def short(share: Fraction, target: Fraction, shares: Shares) -> Fraction:
    found = 1 - share / target if shares.fs_by == "ratio" else target - share
    if shares.fs_mode == "floor":
        return max(found, Fraction(0))
    return min(found, Fraction(0)) if shares.fs_mode == "ceiling" else found
