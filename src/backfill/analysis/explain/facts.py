"""An explanation as JSON: seconds, shares from 0 to 1, job ids; dates beside seconds if known."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from backfill.analysis.explain.asks import NODE
from backfill.analysis.explain.holders import Ahead, Held, Passed
from backfill.analysis.explain.holding import POLICY, WINDOW
from backfill.analysis.explain.lacks import SCATTERED
from backfill.analysis.explain.promised import Change
from backfill.analysis.explain.spans import Cause, Short, Span
from backfill.model.clock import instants
from backfill.model.schedule import NO_TIME, REASONS, STATES
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import SPREAD

if TYPE_CHECKING:
    from backfill.analysis.explain import Explanation

NODES = 100  # named nodes


def facts(explained: "Explanation") -> dict[str, Any]:
    """Return an explanation as in the JSON output."""
    row, schedule = explained.row, explained.record.schedule
    ran = bool(schedule.ran[row])
    times = {"submit": schedule.submit, "eligible": schedule.eligible, "start": schedule.start, "end": schedule.end}
    return {
        **_job(explained, row),
        "sentence": explained.sentence,
        "zone": None if explained.clock is None else explained.clock.name,
        **instants(explained.clock, **{name: _time(int(column[row])) for name, column in times.items()}),
        "state": STATES[schedule.state[row]],
        "reason": REASONS[schedule.reason[row]] if ran else None,
        "rejected_for": str(schedule.rejected_for[row]) or None,
        "policy": explained.policy,
        "waited_s": explained.waited / SECOND,
        "asks": _asks(explained),
        "causes": [
            _cause(explained, *each) for each in zip(explained.causes, explained.held, explained.ahead, strict=True)
        ],
        "before": [_span(explained, span) for span in explained.before],
        "spans": [_span(explained, span) for span in explained.spans],
        "passed": _passed(explained, explained.passed),
        "reserved": [_change(explained, change) for change in explained.promised],
        "text": explained.lines,
    }


def _time(time: int) -> int | None:
    return None if time == NO_TIME else time


def _job(explained: "Explanation", row: int) -> dict[str, Any]:
    return {
        "job": str(explained.record.schedule.job[row]),
        "user": explained.record.asks.workload.jobs.user[row] or None,
    }


def _jobs(explained: "Explanation", rows: Iterable[int]) -> list[str]:
    return [str(explained.record.schedule.job[row]) for row in rows]


def _asks(explained: "Explanation") -> dict[str, Any]:
    asks, row = explained.record.asks, explained.row
    jobs, platform = asks.jobs, asks.platform
    nodes = np.flatnonzero(asks.nodes(row)).tolist()
    licences = zip(*(column.tolist() for column in asks.licences_of(row)), strict=True)
    return {
        "tasks": int(jobs.tasks[row]),
        "per_task": {
            name: int(asks.demand[row, k]) for k, name in enumerate(platform.resources) if asks.demand[row, k]
        },
        "spread": SPREAD[NODE] if jobs.tasks[row] == 1 else SPREAD[jobs.spread[row]],
        "whole_nodes": bool(asks.whole[row]),
        "licences": {platform.licences[each]: copies for each, copies in licences if not asks.is_limit(each)},
        "walltime_s": int(explained.record.seen[row]) / SECOND,
        "constraint": asks.workload.jobs.constraint[row] or None,
        "reservation": jobs.reservation[row] or None,
        "site": jobs.site[row] or None,
        "partition": jobs.partition[row] or None,
        "nodes": len(nodes),
        "nodes_of": asks.whole_nodes,
        "node_names": [asks.names[node] for node in nodes[:NODES]],
    }


def _cause(explained: "Explanation", cause: Cause, held: Held, ahead: Ahead) -> dict[str, Any]:
    beside = [{**_job(explained, row), "time_s": time / SECOND} for row, time in ahead.first]
    return {
        "kind": cause.kind,
        "time_s": cause.time / SECOND,
        "share": cause.time / explained.waited,
        "spans": cause.spans,
        **_lacks(cause.lacks, cause.seated),
        **_who(explained, cause.kind, cause.who),
        **({"ahead": {"count": ahead.jobs, "first": beside}} if cause.kind == POLICY else {}),
        "held_by_jobs": held.jobs,
        "held_by": [
            {
                **_job(explained, each.job),
                "share": each.share,
                "amounts": dict(zip((lack.name for lack in cause.lacks), each.amounts, strict=True)),
                "time_s": each.time / SECOND,
                **instants(explained.clock, end=each.end, limit=each.limit),
            }
            for each in held.largest
        ],
        "held_by_users": [{"user": user, "share": share} for user, share in held.users],
    }


def _lacks(lacks: Iterable[Short], seated: int) -> dict[str, Any]:
    each = [
        {
            "kind": lack.kind,
            "name": lack.name,
            "needed": lack.needed,
            "free_least": lack.free_least,
            "free_most": lack.free_most,
            "there": lack.there,
            **({"free_most_on_one_node": lack.on_one} if lack.kind == SCATTERED else {}),
        }
        for lack in lacks
    ]
    return {"lacks": each, **({"tasks_with_room": seated} if seated >= 0 else {})}


def _who(explained: "Explanation", kind: str, who: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return the jobs or windows that held the job back, and for how long."""
    if kind != WINDOW:
        return {"behind": [{**_job(explained, row), "time_s": time / SECOND} for row, time in who]}
    return {"windows": [{**_window(explained, place), "time_s": time / SECOND} for place, time in who]}


def _window(explained: "Explanation", place: int) -> dict[str, Any]:
    assert explained.record.outages is not None
    window = explained.record.outages.windows[place]
    more = {"reservation": window.reservation} if window.reservation else {}
    until = None if window.until == NEVER else window.until
    return {**instants(explained.clock, begin=window.begin, until=until), **more}


def _span(explained: "Explanation", span: Span) -> dict[str, Any]:
    said = {**instants(explained.clock, begin=span.begin, until=span.until), "kind": span.kind}
    if span.lacks:
        return said | _lacks(span.lacks, span.seated)
    if span.who < 0:
        return said
    return said | (
        {"window": _window(explained, span.who)} if span.kind == WINDOW else {"behind": _jobs(explained, [span.who])[0]}
    )


def _passed(explained: "Explanation", passed: Passed) -> dict[str, Any]:
    return {
        "jobs": passed.jobs,
        "why": passed.why,
        "largest": [
            {
                **_job(explained, each.job),
                **instants(explained.clock, start=each.start, end=each.end, limit=each.limit),
                "why": each.why,
            }
            for each in passed.largest
        ],
    }


def _change(explained: "Explanation", change: Change) -> dict[str, Any]:
    behind = None if change.behind < 0 else _jobs(explained, [change.behind])[0]
    times = {"at": change.at, "start": _time(change.start), "before": _time(change.before)}
    return {
        **instants(explained.clock, **times),
        "limit_of": behind,
        "moved_by": [
            {
                "what": mover.what,
                "jobs": _jobs(explained, mover.jobs),
                "count": mover.count,
                **({"early_s": mover.by / SECOND} if mover.by else {}),
                **({"event": mover.event} if mover.event else {}),
            }
            for mover in change.movers
        ],
    }
