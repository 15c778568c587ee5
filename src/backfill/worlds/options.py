"""How a simulated world behaves. Judged before anything is read or compiled, so this imports nothing of the core."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from backfill.model.errors import BadArgument, UsageError
from backfill.worlds.estimates import Estimates

TIES = ("batch", "step")
OVERRUN = ("kill", "extend")
SEED_MAX = 2**64 - 1  # a State counts its draws from a word of 64 bits


class OptionsGiven(TypedDict, total=False):
    """The options as a caller gives them, each as a text or as its value."""

    ties: str
    overrun: str
    estimates: str | Estimates
    seed: int


_READ: Mapping[str, Callable[[str], Any]] = {"estimates": Estimates.parse}  # options that are more than their text


@dataclass(frozen=True)
class Options:
    """Defaults are those of the command line. Raises UsageError."""

    ties: str = "batch"
    overrun: str = "kill"
    estimates: Estimates = field(default_factory=Estimates)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("ties", TIES), ("overrun", OVERRUN)):
            if getattr(self, name) not in known:
                raise BadArgument(name, getattr(self, name), " or ".join(known))
        if not 0 <= self.seed <= SEED_MAX:
            raise BadArgument("seed", self.seed, "a whole number from 0 to 2^64 - 1")
        if self.ties == "step" and self.overrun == "extend":
            raise UsageError("ties step counts a job at its limit as gone, so it does not go with overrun extend")

    @classmethod
    def of(cls, given: OptionsGiven) -> "Options":
        """From what a caller gives. Raises UsageError."""
        read: dict[str, Any] = {
            name: _READ[name](value) if name in _READ and isinstance(value, str) else value
            for name, value in given.items()
        }
        return cls(**read)

    def to_dict(self) -> dict[str, str]:
        """All but the seed, as in the JSON: those that make another algorithm of the same policy."""
        return {each.name: str(getattr(self, each.name)) for each in fields(self) if each.name != "seed"}

    @property
    def variant(self) -> list[str]:
        """Those that are not the default, a text each; the seed is none of them."""
        usual = Options().to_dict()
        return [f"{name} {value}" for name, value in self.to_dict().items() if value != usual[name]]
