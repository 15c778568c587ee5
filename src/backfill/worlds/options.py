"""How a simulated world behaves. Judged before anything is read or compiled, so this imports nothing of the core."""

from dataclasses import dataclass, field

from backfill.model.errors import BadArgument, UsageError
from backfill.model.events import Events
from backfill.worlds.estimates import Estimates

TIES = ("batch", "step")
OVERRUN = ("kill", "extend")
LOST = ("requeue", "fail")
SEED_MAX = 2**64 - 1  # a State counts its draws from a word of 64 bits


@dataclass(frozen=True)
class Options:
    """Defaults are those of the command line. Raises UsageError."""

    ties: str = "batch"
    overrun: str = "kill"
    estimates: Estimates = field(default_factory=Estimates)
    seed: int = 0
    events: Events | None = None
    lost: str = "requeue"  # what becomes of a job whose node is lost

    def __post_init__(self) -> None:
        for name, known in (("ties", TIES), ("overrun", OVERRUN), ("lost", LOST)):
            if getattr(self, name) not in known:
                raise BadArgument(name, getattr(self, name), " or ".join(known))
        if not 0 <= self.seed <= SEED_MAX:
            raise BadArgument("seed", self.seed, "a whole number from 0 to 2^64 - 1")
        if self.ties == "step" and self.overrun == "extend":
            raise UsageError("ties step counts a job at its limit as gone, so it does not go with overrun extend")
        if self.ties == "step" and self.events is not None:
            raise UsageError("ties step is for published schedules, which know no events; use ties batch")
