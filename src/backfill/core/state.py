"""The State: all that a policy may know and touch at one instant, in rooms, each with one owner.

Times are int64 microseconds. Who writes which room: docs/architecture.md.
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
    ("jobs", JobsT),  # those submitted so far
    ("machine", MachineT),  # as it is now
    ("free", FreeT),  # what nobody holds now
    ("runs", RunsT),  # who runs, and who ran
    ("queue", QueueT),  # who waits
    ("placed", PlacedT),  # where the last `place` put a job
    ("shadow", ShadowT),  # the reservation of EASY
    ("later", LaterT),  # what will be free at an instant to come
    ("plan", PlanT),  # availability over the future
    ("other", PlanT),  # another one, for policies that preempt; elsewhere the same
    ("projects", ProjectsT),  # which jobs belong together
    ("promises", PromisesT),
    ("bookings", BookingsT),  # who has which time booked, where the policy declares it
    ("batch", BatchT),  # what happened at this instant, and what was decided
    ("own", OwnT),  # the policy's parameters and memory
    ("search", SearchT),  # scratch of a search of the plan
    ("scratch", ScratchT),
    ("journal", JournalT),  # all of that, where it is kept
    ("trace", TraceT),
]
State, StateT = record("State", STATE, globals())
PolicyT = None if StateT is None else types.FunctionType(types.void(StateT))
