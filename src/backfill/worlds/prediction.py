"""The predictors of run times that policies can plan by (`--predict`). This imports nothing of the core."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill.model.errors import BadArgument, PolicyError, UsageError, at
from backfill.model.own import imported

RULES = ("average2", "regression", "history")
CORRECTIONS = ("reqtime", "incremental", "doubling")
OWN = ".py:"  # marks the rule of a user's own predictor
EXPECTED = (
    f"{', '.join(RULES)} or FILE.py:NAME, and behind it :correct={', '.join(CORRECTIONS[:-1])} or {CORRECTIONS[-1]}"
)


class PredictorError(Exception):
    """A user's function returns what is no number of seconds."""


@dataclass(frozen=True)
class Prediction:
    """A predictor, and its correction of predictions that a job outlasts.

    reqtime: to the walltime; incremental: by steps of 1 min, 5 min, 15 min ... 100 h; doubling: twice as long.
    """

    rule: str
    correct: str = "incremental"

    @classmethod
    def parse(cls, text: str) -> "Prediction":
        """Return the predictor that a text such as `average2:correct=doubling` names. Raises UsageError."""
        rule, colon, setting = text.partition(":correct=")
        if (rule not in RULES and OWN not in rule) or (colon and setting not in CORRECTIONS):
            raise BadArgument("predict", text, EXPECTED)
        return cls(rule, setting or cls.correct)

    def __str__(self) -> str:
        return self.rule if self.correct == "incremental" else f"{self.rule}:correct={self.correct}"

    @property
    def of_users(self) -> bool:
        """Return whether it distinguishes jobs by their users only."""
        return self.rule == "average2"

    @property
    def file(self) -> str:
        """The file of a user's own predictor."""
        return self.rule.partition(OWN)[0] + OWN[:-1]

    def load(self) -> Callable[..., Any]:
        """Return the user's function. Raises UsageError or PolicyError."""
        file, name = self.file, self.rule.partition(OWN)[2]
        if not Path(file).is_file():
            raise UsageError(at(file, None, "cannot be read: no such file"))
        try:
            module = imported(Path(file), "predictor")
        except Exception as error:
            raise self.mistake(error) from error
        found: Callable[..., Any] | None = getattr(module, name, None)
        if found is None or not callable(found):
            raise PolicyError(
                at(file, None, f"has no function {name!r}; expected one of a job and its user's ended jobs")
            )
        return found

    def mistake(self, error: Exception) -> PolicyError:
        """Return the error of a user's function, with its line."""
        if isinstance(error, PredictorError):
            return PolicyError(at(self.file, None, f"function {self.rule.partition(OWN)[2]}: {error}"))
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == Path(self.file)]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        return PolicyError(at(self.file, line, f"{type(error).__name__}: {error}"))


def is_prediction(text: str) -> bool:
    """Return whether a text names a predictor rather than a kind of estimates."""
    return OWN in text or text.partition(":")[0] in RULES
