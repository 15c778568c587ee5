"""The State: all that a policy may know and touch at one instant, in records, each with one owner.

Times are int64 microseconds. docs/architecture.md lists which module writes which record.
"""

from numba import int64, types

from backfill.compiler.record import record
from backfill.core.batch import BatchT
from backfill.core.jobs import JobsT
from backfill.core.journal import JournalT
from backfill.core.machine import FreeT, MachineT, PlacedT
from backfill.core.own import OwnT
from backfill.core.place.scratch import ScratchT
from backfill.core.plan.bookings import BookingsT
from backfill.core.plan.later import LaterT
from backfill.core.plan.plan import PlanT
from backfill.core.plan.promises import PromisesT
from backfill.core.plan.search import SearchT
from backfill.core.plan.shadow import ShadowT
from backfill.core.projects import ProjectsT
from backfill.core.queue.places import QueueT
from backfill.core.runs import RunsT
from backfill.core.trace import TraceT

STATE = [
    ("now", int64),
    ("jobs", JobsT),  # submitted so far
    ("machine", MachineT),  # as it is now
    ("free", FreeT),  # resources that no run holds now
    ("runs", RunsT),  # current and past runs
    ("queue", QueueT),  # waiting jobs
    ("placed", PlacedT),  # result of the last `place`
    ("shadow", ShadowT),  # the reservation of EASY
    ("later", LaterT),  # free resources at a future instant
    ("plan", PlanT),  # availability over the future
    ("other", PlanT),  # a second plan, for policies that preempt; elsewhere the same one
    ("projects", ProjectsT),  # which jobs belong together
    ("promises", PromisesT),
    ("bookings", BookingsT),  # bookings of waiting jobs, if the policy declares `booked`
    ("batch", BatchT),  # events of this instant, and decisions
    ("own", OwnT),  # the policy's parameters and memory
    ("search", SearchT),  # working memory of a search of the plan
    ("scratch", ScratchT),
    ("journal", JournalT),  # record of all events and decisions, if kept
    ("trace", TraceT),
]
FIXED = [name for name, _ in STATE if name not in ("now", "plan", "other")]
State, StateT = record("State", STATE, globals(), fixed=FIXED)
PolicyT = None if StateT is None else types.FunctionType(types.void(StateT))
