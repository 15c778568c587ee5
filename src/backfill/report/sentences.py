"""Turn numbers into plain sentences, the same in the terminal and on a page."""

from collections.abc import Sequence

from backfill.analysis.blocks import BLOCKS
from backfill.analysis.groups import Fairness, LongWait
from backfill.analysis.paired import Pair
from backfill.model.units import span
from backfill.report.values import UNTIL, share_text

LONGEST_NAME = 40  # characters of a user or job in a sentence

NOTHING = "0.0%"
DOUBLE = 1.0  # from a relative difference of this on, factors are easier to read than percentages


def with_baseline(fairness: Sequence[Fairness]) -> list[int]:
    """Return the pairs that are shown at once: those with the first policy."""
    return [i for i, pair in enumerate(fairness) if pair.b == fairness[0].b]


def pair_sentence(wait: Pair, fair: Fairness, unit: str) -> str:
    """Phrase a pair: `easy waits 41.2% less than fcfs (95% interval 38.0% to 44.1%); 9 of 214 users wait longer`.

    wait: the pair of the mean wait. unit: of waits, as in the table.
    """
    said = f"{wait.a} {_change(wait, unit)}"
    if fair.users > 1 and (fair.later or fair.earlier):
        said += f"; {users_longer(fair)}"
    return said


def users_longer(fair: Fairness) -> str:
    """Phrase the number of losing users: `1 of 214 users waits longer`."""
    longer = f"{fair.users_longer:,}" if fair.users_longer else "none"
    return f"{longer} of {fair.users:,} users {'waits' if fair.users_longer < 2 else 'wait'} longer"


def _change(wait: Pair, unit: str) -> str:
    if wait.difference is None:
        return f"and {wait.b} have no wait to compare"
    if wait.relative is None:
        if not wait.difference:
            return f"and {wait.b} let no job wait"
        return f"lets jobs wait {span(wait.difference, unit)} on average; under {wait.b} no job waits"
    if wait.difference == 0:
        return f"waits as long as {wait.b}"
    ends = [end for end in (wait.relative_low, wait.relative_high) if end is not None]
    if max([wait.relative, *ends]) > DOUBLE:
        return _times(wait)
    side = -1 if wait.relative < 0 else 1
    said = f"waits {_share(side * wait.relative)} {'less' if side < 0 else 'more'} than {wait.b}"
    if wait.relative_low is None or wait.relative_high is None:
        return f"{said} ({wait.method}{but_always(wait)})"
    low, high = sorted((side * wait.relative_low, side * wait.relative_high))
    if _share(wait.relative) == NOTHING:
        return f"waits as long as {wait.b}, within {_share(max(-low, high))}"
    if low > 0:
        return f"{said} (95% interval {_share(low)} to {_share(high)})"
    return f"{said} (95% interval {_signed(wait.relative_low)} to {_signed(wait.relative_high)}: no clear difference)"


def _times(wait: Pair) -> str:
    """Phrase a large difference: `easy waits 51.7 times as long as fcfs (95% interval 41 to 61)`."""
    said = f"waits {factor(wait.relative)} times as long as {wait.b}"
    if wait.relative_low is None or wait.relative_high is None:
        return f"{said} ({wait.method}{but_always(wait)})"
    unclear = ": no clear difference" if wait.relative_low <= 0 else ""
    return f"{said} (95% interval {factor(wait.relative_low)} to {factor(wait.relative_high)}{unclear})"


def but_always(wait: Pair) -> str:
    """Phrase the certain part without an interval, if any: `; but fcfs waits longer in each of 8 parts of the log`."""
    return f"; but {wait.always_higher} waits longer in each of {BLOCKS} parts of the log" if wait.always_higher else ""


def factor(relative: float | None) -> str:
    """Phrase a relative difference as a factor: `1.24`, `13`."""
    times = 1 + (relative or 0.0)
    return f"{times:,.2f}" if times < 10 else f"{times:,.0f}"


def _signed(relative: float) -> str:
    share = _share(relative)
    return f"+{share}" if relative > 0 and share != NOTHING else share


def chance(intervals: int) -> str:
    """Return a caution about many 95% intervals side by side; empty if there are fewer than two."""
    if intervals < 2:
        return ""
    expected = intervals / 20
    few = "one" if expected <= 1 else "one or two" if expected < 2 else f"about {expected:,.0f}"
    once = "A single interval misses the true difference once in 20 times"
    return f"{once}; of these {intervals:,} intervals {few} may miss it."


def loser_sentence(fair: Fairness, unit: str) -> str:
    """Return a sentence on the jobs that wait longer under a policy than under another one, and by how much."""
    if not fair.jobs or not fair.later:
        return f"under {fair.a} no job starts later than under {fair.b}"
    share, delay = share_text(fair.later / fair.jobs).replace("<", "less than "), span(fair.mean_delay_s or 0, unit)
    said = [f"under {fair.a} {share} of the jobs start later than under {fair.b}, by {delay} on average"]
    if fair.worst_user is not None:
        said.append(f"user {_name(fair.worst_user)} waits {span(fair.worst_user_s or 0, unit)} longer")
    if fair.worst_class is not None:
        said.append(f"jobs of {fair.worst_class} wait {span(fair.worst_class_s or 0, unit)} longer")
    return "; ".join(said)


def wait_sentence(wait: LongWait, unit: str) -> str:
    """Return the longest wait under a policy, and what ended it."""
    who = f" of user {_name(wait.user)}" if wait.user else ""
    cpus = f"{wait.cpus:,} {'cpu' if wait.cpus == 1 else 'cpus'}"
    until = UNTIL.get(wait.reason, wait.reason)
    return f"{wait.policy}: job {_name(wait.job)}{who}, {cpus}, waited {span(wait.wait_s, unit)}, {until}"


def _name(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


def _share(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:,.1f}%"  # without the sign of a negative zero
