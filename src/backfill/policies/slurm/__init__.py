"""Slurm's own scheduler, with the parameters of slurm.conf: its two loops over one queue by multifactor priority.

Source: Slurm 22.05.8 (main loop, backfill loop, select/cons_tres, priority/multifactor), and the change logs to 26.05.
The modules: facts (of the site), priority, fairshare; minutes, allowances; clock; main, seats; backfill, space, ends,
repeats; queue, arrays; reasons, told.

Slow twin: tests/reference/slurm.py.
"""

from backfill.core.policy import Policy, policy
from backfill.policies.slurm.backfill import cycle
from backfill.policies.slurm.clock import (
    cycle_is_due,
    hear,
    main_is_due,
    note_cycle,
    note_main,
    set_next_cycle,
    wake_for_loops,
)
from backfill.policies.slurm.facts import MEMORY, MEMORY_F, PARAMS, facts
from backfill.policies.slurm.main import main_pass
from backfill.policies.slurm.minutes import count_held
from backfill.policies.slurm.priority import prioritise, wake_for_period


@policy(
    "slurm",
    order="tier of the partition, then multifactor priority",
    reserve="in each backfill cycle anew: jobs by priority, on whole nodes, in a coarse plan within bf_window",
    fill="jobs that the plan leaves nodes for until they end; the main loop starts jobs in order, as long as they fit",
    source="Slurm 22.05.8: job_scheduler.c, sched/backfill, select/cons_tres, priority/multifactor",
    sorts=True,
    params=PARAMS,
    memory=MEMORY,
    memory_f=MEMORY_F,
    facts=facts,
)
def slurm(state):
    """Slurm's main loop and backfill loop.

    Promise: none; a plan is forgotten at the end of its cycle.
    Cost: per cycle O(tested jobs x groups of running jobs x nodes).
    """
    hear(state)
    prioritise(state)
    count_held(state)
    kind = main_is_due(state)
    if kind > 0:
        stopped = main_pass(state, kind == 2)
        note_main(state, kind, stopped)
    set_next_cycle(state)
    if cycle_is_due(state):
        length = cycle(state) if state.queue.waiting > 0 else 0
        note_cycle(state, length)
    wake_for_loops(state)
    wake_for_period(state)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {slurm.name: slurm}
