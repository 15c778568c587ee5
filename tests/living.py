"""A State that is fed with the rows of a journal: the policy decides again, and nothing is known of what ends when."""

from collections.abc import Callable, Iterable
from typing import Any

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


def feed(state: Any, policy: Policy, rows: Iterable[Ints], grown: Callable[[Any, Ints], Any] | None = None) -> Any:
    """Do the transitions among some rows of a journal, and let the policy decide where it did. Returns the State.

    grown: is asked before each row for the State to go on with.
    """
    arrange = sorter() if policy.sorted_for_it else take_in
    for row in rows:
        state = grown(state, row) if grown else state
        do_again(state, row)
        if row[0] == DECIDE:
            decide(state, policy, arrange)
    return state


def decide(state: Any, policy: Policy, arrange: Any) -> None:
    """Let the policy decide once."""
    arrange(state)
    if policy.compiled:
        decide_once(policy.entry, state)
    else:
        policy.decide(View(state, policy.layout))


def journal_of(state: Any) -> Ints:
    """What the State has written down."""
    return state.journal.row[: state.journal.rows].copy()


def feed_back(
    journal: Ints, workload: Workload, platform: Platform, policy: Policy, params: Any = None, options: Any = None
) -> Ints:
    """Feed a journal to a State in which nothing has happened yet; returns the journal of that, which is the same."""
    state = begin(workload, platform, policy, params or {}, options or Options(), None, True).state
    return journal_of(feed(state, policy, np.ascontiguousarray(journal)))
