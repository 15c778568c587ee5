"""A world that is a journal: what happened once happens again, and the policy decides anew."""

from collections.abc import Mapping

import numpy as np

from backfill.core.journal import DECIDE
from backfill.core.loop import decide_once, take_in
from backfill.core.policy import Policy
from backfill.core.transitions import do_again
from backfill.core.view import View
from backfill.model.platform import Platform
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
    found: Ints = state.journal.row[: state.journal.rows].copy()
    return found
