"""The options of a simulation, checked before anything is read or compiled: this imports nothing of the core."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, TypedDict

from backfill.model.errors import BadArgument, UsageError
from backfill.model.events import Events
from backfill.worlds.estimates import Estimates
from backfill.worlds.prediction import Prediction

TIES = ("batch", "step")
OVERRUN = ("kill", "extend")
LOST = ("requeue", "fail")
SEED_MAX = 2**64 - 1  # a State counts its draws in a word of 64 bits


class OptionsGiven(TypedDict, total=False):
    """The options as a caller gives them, each as a text or as a value."""

    ties: str
    overrun: str
    estimates: str | Estimates
    predict: str | Prediction | None
    seed: int
    events: Any
    lost: str


# Options whose values are parsed from texts.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "estimates": lambda given: Estimates.parse(given) if isinstance(given, str) else given,
    "predict": lambda given: Prediction.parse(given) if isinstance(given, str) else given,
    "events": lambda given: None if given is None else Events.of(given),
}


@dataclass(frozen=True)
class Options:
    """The checked options; defaults are those of the command line. Raises UsageError."""

    ties: str = "batch"
    overrun: str = "kill"
    estimates: Estimates = field(default_factory=Estimates)
    predict: Prediction | None = None
    seed: int = 0
    events: Events | None = None
    lost: str = "requeue"  # what happens to a job whose node is lost

    def __post_init__(self) -> None:
        for name, known in (("ties", TIES), ("overrun", OVERRUN), ("lost", LOST)):
            if getattr(self, name) not in known:
                raise BadArgument(name, getattr(self, name), " or ".join(known))
        if not isinstance(self.seed, Integral) or not 0 <= self.seed <= SEED_MAX:
            raise BadArgument("seed", self.seed, "a whole number from 0 to 2^64 - 1")
        if self.ties == "step" and self.overrun == "extend":
            raise UsageError(
                "ties step counts a job at its limit as gone, so it cannot be combined with overrun extend"
            )
        if self.predict is not None and self.overrun == "extend":
            raise UsageError(
                "predict counts on jobs being killed at their walltime, so it cannot be combined with overrun extend"
            )
        if self.ties == "step" and self.events is not None:
            raise UsageError("ties step is for published schedules, which have no events; use ties batch")

    @classmethod
    def of(cls, given: OptionsGiven) -> "Options":
        """Return the options from the arguments of a caller. Raises UsageError."""
        read: dict[str, Any] = {name: _READ[name](value) if name in _READ else value for name, value in given.items()}
        return cls(**read)

    def to_dict(self) -> dict[str, Any]:
        """Return all options but the seed, as in the JSON: those that change the algorithm of a policy.

        Events are given by name, hash and number, and only if there are any.
        """
        hidden = (
            "seed",
            "events",
            *(["lost"] if self.events is None else []),
            *(["predict"] if self.predict is None else []),
        )
        options: dict[str, Any] = {
            each.name: str(getattr(self, each.name)) for each in fields(self) if each.name not in hidden
        }
        if self.events is not None:
            options["events"] = {"name": self.events.name, "sha256": self.events.sha256, "count": len(self.events)}
        return options

    @property
    def variant(self) -> list[str]:
        """Return the non-default options as texts, without the seed."""
        usual = Options().to_dict()
        given = {name: text for name, text in self.to_dict().items() if name != "events"}
        texts = [f"{name} {text}" for name, text in given.items() if text != usual.get(name, LOST[0])]
        if self.events is not None:
            texts.append("events" if self.events.name == "events" else f"events {self.events.name}")
        return texts
