"""Feeds a journal back to a policy, which decides again, and reads the record of promises from it."""

from collections.abc import Mapping

import numpy as np

from backfill.core.journal import DECIDE, LEAVE, PREEMPT, RELEASE, RESERVE, TICK, WITHDRAW
from backfill.core.loop import decide_once, take_in
from backfill.core.policy import Policy
from backfill.core.transitions import do_again
from backfill.core.view import View
from backfill.model.platform import Platform
from backfill.model.promises import CHANGED, Promises
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints, Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import begin, sorter


def feed_back(
    journal: Ints,
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str] | None = None,
    options: Options | None = None,
) -> Ints:
    """Feed the transitions of a journal back one by one; returns the journal of that, which is the same one.

    No world takes part: nothing is known of what ends when but what the journal says.
    """
    state = begin(workload, platform, policy, params or {}, options or Options(), None, True).state
    view = View(state, policy.layout)
    arrange = sorter() if policy.sorted_for_it else take_in
    for row in np.ascontiguousarray(journal):
        do_again(state, row)
        if row[0] == DECIDE:
            arrange(state)
            if policy.compiled:
                decide_once(policy.entry, state)
            else:
                policy.decide(view)
    rows: Ints = state.journal.row[: state.journal.rows].copy()
    return rows


def promises_of(journal: Ints, submit: Ints, kept: bool) -> Promises:
    """The promises in a journal of a workload with these submits. kept: whether they hold beyond the pass."""
    code = journal[:, 0]
    ticks = np.flatnonzero(code == TICK)
    rows = np.flatnonzero(np.isin(code, (RESERVE, WITHDRAW, LEAVE, RELEASE, PREEMPT)))
    place = np.argsort(submit, kind="stable")  # the core numbers jobs in the order of the queue
    given, by = code[rows] == RESERVE, journal[rows, 4]
    return Promises(
        at=journal[ticks[np.searchsorted(ticks, rows) - 1], 1],
        job=place[journal[rows, 1]],
        start=np.where(given, journal[rows, 2], NO_TIME),
        end=np.where(given, journal[rows, 5], NO_TIME),
        cause=np.where(given, journal[rows, 3], CHANGED),
        by=np.where(given & (by >= 0), place[by], -1),
        kept=kept,
    )
