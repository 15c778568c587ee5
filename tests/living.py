"""A State that is fed with the rows of a journal: the policy decides again, and nothing is known of what ends when."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from backfill.compiler.view import View
from backfill.core.journal import DECIDE
from backfill.core.once import arranger, decide_once
from backfill.core.policy import Policy
from backfill.core.transitions import do_again
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import Begun, begin, simulate
from tests.compiled import asked, policy, runs_on
from tests.reference.workloads import cases_with_events, chained_cases, general_cases, limited_cases, pool_cases

# What may happen to a State: on nodes, with licences, limits, gangs, chains and events; on a pool.
ON_NODES = cases_with_events(st.one_of(chained_cases(), limited_cases(), general_cases()))
ON_A_POOL = cases_with_events(pool_cases())


def simulated(name: str, happening: Any) -> tuple[Policy, Any, Ints, Begun] | None:
    """The policy and its parameters, the journal of a simulation, and another State in which nothing has happened.

    None where the policy does not schedule such a case.
    """
    case, events = happening
    if not runs_on(name, case, events):
        return None
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    chosen, params = policy(name)
    journal = np.ascontiguousarray(simulate(workload, platform, chosen, params, asks, journal=True).journal)
    return chosen, params, journal, begin(workload, platform, chosen, params, asks, None, True)


def feed(state: Any, chosen: Policy, rows: Iterable[Ints], grown: Callable[[Any, Ints], Any] | None = None) -> Any:
    """Do the transitions among some rows of a journal, and let the policy decide where it did. Returns the State.

    grown: is asked before each row for the State to go on with.
    """
    arrange = arranger(chosen)
    for row in rows:
        state = grown(state, row) if grown else state
        do_again(state, row)
        if row[0] == DECIDE:
            decide(state, chosen, arrange)
    return state


def decide(state: Any, chosen: Policy, arrange: Any) -> None:
    """Let the policy decide once."""
    arrange(state)
    if chosen.compiled:
        decide_once(chosen.entry, state)
    else:
        chosen.decide(View(state, chosen.layout))


def journal_of(state: Any) -> Ints:
    """Return the journal of a State."""
    return state.journal.row[: state.journal.rows].copy()


def feed_back(
    journal: Ints, workload: Workload, platform: Platform, chosen: Policy, params: Any = None, options: Any = None
) -> Ints:
    """Feed a journal to a State in which nothing has happened yet; returns the journal of that, which is the same."""
    state = begin(workload, platform, chosen, params or {}, options or Options(), None, True).state
    return journal_of(feed(state, chosen, np.ascontiguousarray(journal)))
