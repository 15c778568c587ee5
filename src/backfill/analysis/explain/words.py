"""An explanation as text: a summary in a few sentences, and the details in 80 columns."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from backfill.analysis.explain.asks import DISTINCT, NODE, SITE
from backfill.analysis.explain.holders import ELSEWHERE, WHY, Held, Passer
from backfill.analysis.explain.holding import ORDER, POLICY, RESERVATION, WINDOW
from backfill.analysis.explain.lacks import LICENCE, LIMIT, OUTAGE, RESOURCE, SCATTERED
from backfill.analysis.explain.promised import Change, Mover
from backfill.analysis.explain.spans import DEPENDENCY, Cause, Short, Span
from backfill.model.clock import instant_text
from backfill.model.names import printable
from backfill.model.schedule import NO_TIME, REASONS, STATES
from backfill.model.units import NEVER, SECOND, UNITS, amount, amount_text, counted, span_text, times, unit_of
from backfill.model.units import span as within

if TYPE_CHECKING:
    from backfill.analysis.explain import Explanation

WIDTH = 80
CAUSES, SPANS, CHANGES, NODES, NAMED = 5, 8, 6, 3, 3  # listed one by one; --json has all
NEARLY_ALL = 0.95
MOST, LITTLE = 0.5, 0.005  # shares: worth naming in the summary, worth a line

Rows = list[tuple[str, str]]  # prefix of a text, which also sets its indent; the text

_STARTED = {
    "head": "because it was first in the queue",
    "backfill": "by backfilling",
    "reserved": "because its reserved start had come",
    "moved-up": "because its reservation moved forward when another job ended",
    "fit": "because it fitted",
    "gang": "because all tasks of its gang could start together",
    "thread": "because its thread's turn had come",
    "resumed": "because the policy resumed it",
}
_PASSED = {  # for several jobs, for one
    "elsewhere": ("used nothing that it could have used",) * 2,
    "in-time": ("were due to end before its reserved start", "due to end before its reserved start"),
    "beside": ("left room for its reserved start",) * 2,
    "smaller": ("fitted where this job did not",) * 2,
    "first": ("were first in the queue", "first in the queue"),
    "reserved": ("had reserved starts of their own", "had a reserved start of its own"),
    "in-time-ahead": ("were due to end before the reserved start of a job ahead of it",
                      "due to end before the reserved start of a job ahead of it"),
    "beside-ahead": ("left room for the reserved start of a job ahead of it",) * 2,
    "chosen": ("were chosen by the policy, although this job would have fitted",
               "chosen by the policy, although this job would have fitted"),
}  # fmt: skip


def summary(explained: "Explanation") -> str:
    """Return a few sentences on how long the job waited, what it waited for, and which jobs held that."""
    job = _capital(_job(explained, explained.row))
    if not explained.spans:
        return _never_waited(explained, job)
    waited = _time(explained, explained.waited)
    first, *others = explained.causes
    if first.time >= NEARLY_ALL * explained.waited:
        share = "" if first.time == explained.waited else ", nearly all of it"
        said = f"{job} waited {waited}{share} {_phrase(explained, first)}."
    else:
        phrases = [f"{_time(explained, cause.time)} {_phrase(explained, cause)}" for cause in [first, *others[:2]]]
        rest = sum(cause.time for cause in others[2:])
        phrases += [f"{_time(explained, rest)} for other reasons"] if rest else []
        said = f"{job} waited {waited}: {'; '.join(phrases)}."
    return " ".join([said, *_details(explained, first, explained.held[0]), *_ending(explained)])


def _never_waited(explained: "Explanation", job: str) -> str:
    schedule, row = explained.record.schedule, explained.row
    if cause := str(schedule.rejected_for[row]):
        return f"{job} was rejected and never ran: {printable(cause)}."
    if not schedule.ran[row]:
        return f"{job} was cancelled before it began to wait."
    return f"{job} did not wait: it started at once, {_STARTED[REASONS[schedule.reason[row]]]}."


def _ending(explained: "Explanation") -> list[str]:
    """Return the outcome of a job that never started."""
    schedule, row = explained.record.schedule, explained.row
    state = STATES[schedule.state[row]]
    if state == "PENDING":
        return ["It waits for capacity that never comes back."]
    return ["It was cancelled before it started."] if state == "CANCELLED" and not schedule.ran[row] else []


def _phrase(explained: "Explanation", cause: Cause, where: bool = True) -> str:
    """Phrase a cause: `for memory on zewura15, the only node that it may use`. where: whether to name the nodes."""
    place = _where(explained) if where else ""
    if cause.kind == OUTAGE:
        return f"for {_away(explained)}"
    if cause.lacks:
        what = _listed([_name(lack) for lack in cause.lacks])
        together = f" {_together(explained)}" if cause.lacks[0].kind == SCATTERED else ""
        return f"for {what}{together}" + (
            place if any(lack.kind in (RESOURCE, SCATTERED) for lack in cause.lacks) else ""
        )
    return {
        WINDOW: _before_windows(explained, cause),
        RESERVATION: "behind reserved starts of other jobs, although it would have fitted",
        ORDER: "behind earlier jobs of the queue, although it would have fitted",
    }.get(cause.kind, f"held back by {explained.policy}, although it would have fitted")


def _before_windows(explained: "Explanation", cause: Cause) -> str:
    """Phrase the windows before which the job would not have ended."""
    record = explained.record
    assert cause.kind != WINDOW or record.outages is not None
    windows = [record.outages.windows[who] for who, _ in cause.who] if cause.kind == WINDOW and record.outages else []
    names = list(dict.fromkeys(window.reservation for window in windows))
    if not names or "" in names:
        return "because it would not have ended before an announced window"
    if names == [record.asks.workload.jobs.reservation[explained.row]]:
        return f"because it would not have ended within reservation {names[0]}"
    return f"because it would not have ended before reservation {_listed(names[:NAMED])}"


def _together(explained: "Explanation") -> str:
    spread, tasks = explained.record.asks.spread(explained.row), explained.record.asks.jobs.tasks[explained.row]
    if spread == DISTINCT:
        return f"on {tasks:,} nodes at once"
    return "on one node" if spread == NODE else "on one site" if spread == SITE else f"for all {tasks:,} tasks at once"


def _where(explained: "Explanation") -> str:
    """Phrase the nodes that a job may use, unless it may use all."""
    asks = explained.record.asks
    nodes, names = np.flatnonzero(asks.nodes(explained.row)).tolist(), asks.names
    if len(nodes) == asks.whole_nodes:
        return ""
    if len(nodes) == 1:
        return f" on {names[nodes[0]]}, the only node that it may use"
    if len(nodes) <= NODES:
        return f" on {_listed([names[node] for node in nodes])}, the only nodes that it may use"
    return f" on the {len(nodes):,} nodes that it may use"


def _away(explained: "Explanation") -> str:
    """Phrase the nodes whose capacity was unavailable while that kept the job waiting."""
    record = explained.record
    assert record.replay is not None
    if asked := record.asks.workload.jobs.reservation[explained.row]:
        return f"reservation {asked} to begin"
    spans = [span for span in explained.spans if span.kind == OUTAGE]
    capacity, names = record.asks.platform.capacity, []
    for node in np.flatnonzero(record.asks.nodes(explained.row)).tolist():
        steps = record.replay.nodes[node]
        ends = [*(time for time, *_ in steps[1:]), record.last + 1]
        for (begin, room, _), end in zip(steps, ends, strict=True):
            if (room < capacity[node]).any() and any(begin < span.until and span.begin < end for span in spans):
                names.append(record.asks.names[node])
                break
    place = _listed(names) if len(names) <= NODES else counted(len(names), "node")
    reserved = record.outages is not None and any(window.reservation for window in record.outages.windows)
    what = "an outage, a window or a reservation" if reserved else "an outage or a window"
    return f"{place or 'licences'} to come back from {what}"


def _details(explained: "Explanation", cause: Cause, held: Held) -> list[str]:
    """Return sentences on the need, the free amount and its holders, or on the reservation or turn that held the job
    back.
    """
    if cause.lacks:
        return [_needs(explained, cause), *_held_by(explained, cause, held)]
    if cause.kind == POLICY and explained.ahead and explained.ahead[0].jobs:
        before = explained.ahead[0]
        (job, time), *_ = before.first
        if before.jobs == 1:
            return [f"{_capital(_job(explained, job))} waited beside it and started no later."]
        longest = f"{_job(explained, job)} for the longest time ({_time(explained, time)})"
        return [f"{counted(before.jobs, 'job')} waited beside it and started no later; {longest}."]
    if not cause.who or cause.kind not in (RESERVATION, ORDER):
        return []
    (job, time), *others = cause.who
    first, many = {
        RESERVATION: ("The reserved start belonged to", "jobs in turn had these reserved starts"),
        ORDER: ("First in the queue was", "jobs in turn were first in the queue"),
    }[cause.kind]
    if not others:
        return [f"{first} {_job(explained, job)}."]
    return [f"{len(cause.who):,} {many}; {_job(explained, job)} for the longest time ({_time(explained, time)})."]


def _needs(explained: "Explanation", cause: Cause) -> str:
    asks, row, lacks = explained.record.asks, explained.row, cause.lacks
    needed, spread = _listed([_much(lack, lack.needed) for lack in lacks]), asks.spread(row)
    if asks.whole[row] and lacks[0].kind in (RESOURCE, SCATTERED):
        room = f"of which at most {cause.seated:,} {'was' if cause.seated == 1 else 'were'} free at once"
        return f"It needs {_asked(explained, row)}" + (f", {room}." if cause.seated >= 0 else ".")
    if [lack.kind for lack in lacks] == [LIMIT]:
        left = f"{_at_most(lacks[0].name, lacks[0].free_most)} of {lacks[0].there:,}"
        return f"It needs {needed}, and {left} were left at that time."
    if cause.seated >= 0 and spread != NODE:
        tasks = f"{asks.jobs.tasks[row]:,} equal tasks{' on different nodes' if spread == DISTINCT else ''}"
        site = " on one site" if spread == SITE else ""
        return f"It needs {needed} in {tasks}, of which at most {cause.seated:,} had room at the same time{site}."
    if cause.seated >= 0:
        most = _listed([_much(lack, lack.on_one) for lack in lacks])
        return f"It needs {needed} on one node, and no node had more than {most} free at that time."
    free = _listed([f"{_at_most(lack.name, lack.free_most)} of {amount(lack.name, lack.there)}" for lack in lacks])
    return f"It needs {needed}, and {free} were free at that time."


def _held_by(explained: "Explanation", cause: Cause, held: Held) -> list[str]:
    if not held.largest:
        return []
    first = held.largest[0]
    if first.share >= MOST or held.jobs == 1:
        span = "all that time" if first.time >= cause.time else f"for {_time(explained, first.time)}"
        return [f"{_capital(_job(explained, first.job))} held {_amounts(cause, first.amounts)} {span}."]
    those = f"Meanwhile {counted(held.jobs, 'job')} held {_listed([_name(lack) for lack in cause.lacks])}"
    those += " there" if _where(explained) else ""
    if held.users and held.users[0][1] >= MOST:
        user, share = held.users[0]
        return [f"{those}; user {printable(user)} had {share:.0%} of that."]
    return [f"{those}."]


def lines(explained: "Explanation") -> list[str]:
    """Return the whole text, line by line."""
    return [
        *_head(explained),
        "",
        *_wrapped(summary(explained)),
        *_section("before it was eligible", _before(explained)),
        *_section("waited", _causes(explained)),
        *_section(*_spans(explained)),
        *_section(f"passed by {counted(explained.passed.jobs, 'later job')}", _passed(explained)),
        *_section("reserved starts", _promised(explained)),
    ]


def _section(title: str, rows: Rows) -> list[str]:
    body = [line for front, text in rows for line in _wrapped(text, f"  {front}", " " * (len(front) + 2))]
    return ["", title, *body] if rows else []


def _wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _head(explained: "Explanation") -> list[str]:
    record, row = explained.record, explained.row
    asks, jobs, schedule = record.asks, record.asks.jobs, record.schedule
    licences = [
        f"{copies:,} x {asks.platform.licences[licence]}"
        for licence, copies in zip(*(column.tolist() for column in asks.licences_of(row)), strict=True)
        if not asks.is_limit(licence)
    ]
    what = [_asked(explained, row), *([f"licences {', '.join(licences)}"] if licences else [])]
    asked = {name: jobs[name][row] for name in ("reservation", "site", "partition")}
    asked["constraint"] = asks.workload.jobs.constraint[row]  # jobs may have another constraint for reservations
    bound = [f"{name} {printable(text)}" for name, text in sorted(asked.items()) if text]
    if bound:
        nodes = np.flatnonzero(asks.nodes(row)).tolist()
        few = _listed([asks.names[node] for node in nodes]) if len(nodes) <= NODES else f"{len(nodes):,} nodes"
        if nodes:
            what.append(f"may run on {few} only ({', '.join(bound)})")
        elif bound == [f"reservation {asked['reservation']}"]:
            what.append(f"asks for {bound[0]}, which at its submit was not there or not its own")
        else:
            what.append(f"may run on no node ({', '.join(bound)})")
    what.append(f"walltime {span_text(int(record.seen[row]))}")
    if asks.platform.estimated:
        what.append(f"the machine has {asks.platform.size_text}")
    times = f"submitted {_instant(explained, int(schedule.submit[row]))}"
    zone = f" ({explained.clock.name})" if explained.clock is not None else ""
    if schedule.ran[row]:
        why = _STARTED[REASONS[schedule.reason[row]]]
        times += f", started {_instant(explained, int(schedule.start[row]))}{zone}, {why}"
    else:
        times += f"{zone}, never started"
    head = [f"{_job(explained, row)}: {'; '.join(what)}", times]
    return [line for each in head for line in _wrapped(each, "", "  ")]


def _asked(explained: "Explanation", row: int) -> str:
    """Phrase a demand: `12 cpus and 6 GiB of memory`, `8 tasks of 4 cpus`."""
    asks = explained.record.asks
    tasks, names = int(asks.jobs.tasks[row]), asks.platform.resources
    each = [amount_text(name, value) for name, value in zip(names, asks.demand[row].tolist(), strict=True) if value]
    if asks.whole[row]:
        return counted(tasks, "whole node")
    whole = asks.spread(row) != NODE and len(names) == 1 and asks.demand[row, 0] == 1
    if tasks == 1 or whole:
        return amount_text(names[0], tasks) if whole else _listed(each) or "nothing"
    return f"{tasks:,} tasks of {_listed(each)}"


def _before(explained: "Explanation") -> Rows:
    rows: Rows = []
    for span, length in zip(
        explained.before, _column(explained, [span.length for span in explained.before]), strict=True
    ):
        ended = (
            f"until {_job(explained, span.who)} ended" if span.kind == DEPENDENCY else "until its think time was over"
        )
        rows.append((f"{_instant(explained, span.begin)}  {length}  ", ended))
    return rows


def _causes(explained: "Explanation") -> Rows:
    rows: Rows = []
    rest = explained.causes[CAUSES:]
    parts = [cause.time for cause in explained.causes[:CAUSES]] + [sum(cause.time for cause in rest)] * bool(rest)
    fronts = [
        f"{length}  {time / explained.waited:4.0%}  "
        for time, length in zip(parts, _column(explained, parts), strict=True)
    ]
    for place, (cause, held, front) in enumerate(zip(explained.causes[:CAUSES], explained.held, fronts, strict=False)):
        rows.append((front, _phrase(explained, cause, where=False)))
        for each in [one for one in held.largest[:NAMED] if one.share >= LITTLE]:
            limit = f"{each.share:.0%}, limit {_instant(explained, each.limit)}"
            much = f"held {_amounts(cause, each.amounts)} for {_time(explained, each.time)}"
            rows.append((" " * (len(front) + 2), f"{_job(explained, each.job)} {much} ({limit})"))
        for who, time in cause.who[:NAMED]:
            text = f"{_who(explained, cause.kind, who)}: {_time(explained, time)}"
            rows.append((" " * (len(front) + 2), text))
        for who, time in explained.ahead[place].first[:NAMED] if explained.ahead else ():
            text = f"ahead of it: {_job(explained, who)}, for {_time(explained, time)}"
            rows.append((" " * (len(front) + 2), text))
    return [*rows, (fronts[-1], f"for {counted(len(rest), 'other reason')}")] if rest else rows


def _who(explained: "Explanation", kind: str, who: int) -> str:
    """Phrase the job with the reservation or turn, or the window."""
    if kind != WINDOW:
        return _job(explained, who)
    assert explained.record.outages is not None
    window = explained.record.outages.windows[who]
    if window.until == NEVER:
        return f"end of reservation {window.reservation} at {_instant(explained, window.begin)}"
    what = f"reservation {window.reservation}" if window.reservation else "window"
    return f"{what} from {_instant(explained, window.begin)} to {_instant(explained, window.until)}"


def _spans(explained: "Explanation") -> tuple[str, Rows]:
    shown, title = explained.spans, "one after another"
    if len(shown) == 1:
        return title, []
    if len(shown) > SPANS:
        longest = sorted(range(len(shown)), key=lambda i: -shown[i].length)[:SPANS]
        shown, title = [shown[i] for i in sorted(longest)], f"the {SPANS} longest of {len(shown):,} spans, in order"
    lengths = _column(explained, [span.length for span in shown])
    return title, [
        (f"{_instant(explained, span.begin)}  {length}  ", _span(explained, span))
        for span, length in zip(shown, lengths, strict=True)
    ]


def _span(explained: "Explanation", span: Span) -> str:
    if span.lacks:
        lacks = "; ".join(_lacking(explained, span, lack) for lack in span.lacks)
        return f"{lacks}; capacity is unavailable" if span.kind == OUTAGE else lacks
    if span.who < 0:
        return f"held back by {explained.policy}"
    return {RESERVATION: "reserved start of ", ORDER: "behind "}.get(span.kind, "") + _who(
        explained, span.kind, span.who
    )


def _lacking(explained: "Explanation", span: Span, lack: Short) -> str:
    name = _name(lack)
    if lack.kind != SCATTERED:
        return f"{name}: {amount(lack.name, lack.needed)} needed, {_at_most(lack.name, lack.free_most)} free"
    if explained.record.asks.spread(explained.row) == NODE:
        needed, most = amount(lack.name, lack.needed), _at_most(lack.name, lack.on_one)
        return f"{name}: {needed} needed on one node, {most} free on any"
    return f"{name}: room for at most {counted(span.seated, 'task')} at once"


def _passed(explained: "Explanation") -> Rows:
    rows = [(f"{count:>8,}  ", _PASSED[why][count == 1]) for why, count in explained.passed.why.items()]
    largest = [each for each in explained.passed.largest if each.why != WHY[ELSEWHERE]]
    return rows + [(" " * 12, _passer(explained, each)) for each in largest[:NAMED]]


def _passer(explained: "Explanation", each: Passer) -> str:
    ran = f"from {_instant(explained, each.start)} for {span_text(each.end - each.start)}"
    return f"{_job(explained, each.job)}, {_asked(explained, each.job)} {ran}: {_PASSED[each.why][1]}"


def _promised(explained: "Explanation") -> Rows:
    rows = [_change(explained, change) for change in explained.promised]
    if len(rows) <= CHANGES:
        return rows
    return [*rows[:2], ("", f"... {counted(len(rows) - CHANGES, 'further change')} ..."), *rows[2 - CHANGES :]]


def _change(explained: "Explanation", change: Change) -> tuple[str, str]:
    front, movers = (
        f"{_instant(explained, change.at)}  ",
        "; ".join(_mover(explained, mover) for mover in change.movers),
    )
    if change.start == NO_TIME:
        return front, f"taken back: {movers}"
    start, moved = _instant(explained, change.start), change.start - change.before
    behind = f", when {_job(explained, change.behind)} reaches its limit" if change.behind >= 0 else ""
    if change.before == NO_TIME:
        return front, f"reserved for {start}{behind}: {movers}"
    way = f"{span_text(abs(moved))} {'earlier' if moved < 0 else 'later'}"
    return front, f"moved to {start}, {way}{behind}: {movers}"


def _mover(explained: "Explanation", mover: Mover) -> str:
    """Phrase the event at the instant of a promise."""
    first = [_job(explained, job) for job in mover.jobs[:1]]
    others = mover.count - len(first)
    jobs = _listed([*first, *([counted(others, "other")] if others else [])])
    if mover.what == "ended-early":
        return f"{jobs} ended {span_text(mover.by)} before {'their limits, or less' if others else 'its limit'}"
    return {
        "submitted": "it was submitted",
        "made-way": f"made way for {jobs}",
        "overran": f"{jobs} overran the limit",
        "started": f"{jobs} started",
        "event": f"event {mover.event}{f' of {jobs}' if first else ''}",
        "promised": f"{jobs} got other reserved starts" if first else "the policy made a new decision",
    }[mover.what]


def _amounts(cause: Cause, amounts: Sequence[int]) -> str:
    return _listed([_much(lack, value) for lack, value in zip(cause.lacks, amounts, strict=True) if value])


def _job(explained: "Explanation", row: int) -> str:
    user = explained.record.asks.workload.jobs.user[row]
    name = f"job {printable(str(explained.record.schedule.job[row]))}"
    return f"{name} of user {printable(user)}" if user else name


def _instant(explained: "Explanation", time: int) -> str:
    return instant_text(time, explained.clock)


def _time(explained: "Explanation", time: int) -> str:
    """Format a part of the wait within a sentence, in the unit of the wait."""
    return within(time / SECOND, explained.unit)


def _column(explained: "Explanation", spans: Sequence[int]) -> list[str]:
    """Format spans of time for a column, in one unit."""
    seconds = [time / SECOND for time in spans]
    unit = explained.unit if max(seconds, default=0) >= UNITS[explained.unit] else unit_of(seconds)
    texts = [within(each, unit) for each in seconds] if unit == "s" else times(seconds, unit)
    return [text.rjust(max(8, *map(len, texts))) for text in texts]


def _name(lack: Short) -> str:
    """Name a missing resource: `cpus`, `licence matlab`, `limit students (running_jobs of ann)`."""
    if lack.kind == LIMIT:
        limit, _, what = lack.name.partition(": ")
        return f"limit {limit} ({what})"
    return f"licence {lack.name}" if lack.kind == LICENCE else lack.name


def _much(lack: Short, value: int) -> str:
    if lack.kind == LIMIT:
        return f"{value:,} of limit {lack.name.partition(': ')[0]}"
    if lack.kind == LICENCE:
        return f"{value:,} {'copy' if value == 1 else 'copies'} of {lack.name}"
    return amount_text(lack.name, value)


def _at_most(name: str, value: int) -> str:
    return f"at most {amount(name, value)}" if value else "none"


def _listed(texts: Sequence[str]) -> str:
    """Join texts: `a`, `a and b`, `a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
