"""The specification of one run, independent of the workload: made once, checked once, and passed on as a whole."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union, Unpack, cast, get_type_hints

from backfill.analysis.metrics import NOTHING, Trim
from backfill.analysis.names import name_of, names_of
from backfill.model.errors import UsageError
from backfill.model.events import Events
from backfill.model.names import did_you_mean
from backfill.worlds.options import Options, OptionsGiven

if TYPE_CHECKING:  # needed at run time only with a policy, whose module imports the compiler
    from backfill.core.policy import Policy

Params = Mapping[str, float | str]
Chosen = Union[str, "Policy", Callable[[Any], None]]  # a policy as a caller names or gives it
Function = TypeVar("Function", bound=Callable[..., Any])


class Given(OptionsGiven, total=False):
    """The arguments of a run besides its policy, each as a text or as its value.

    events: a file, an Events, or a table: a list of dicts, a dict of columns, a DataFrame.
    lost: fate of a job whose run is lost with its node: `requeue` or `fail`.
    place: rule for the placement of jobs among nodes, if the policy sets none: `power`, `pack`, `spread`, `contiguous`
    or `exclusive`.
    warmup, cooldown: jobs left out of the metrics: a number of jobs or a span such as `2d`.
    """

    place: str | None
    warmup: str | int | Trim | None
    cooldown: str | int | Trim | None


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSpec:
    """The specification of one run: policy, parameters, options of the simulation, and jobs left out of the metrics.

    It can be sent to another process, which then loads a policy named by its text once.
    """

    named: "str | Policy"  # the text that names the policy, or the policy itself
    given: Params  # its parameters and settings, in that text or separately
    options: Options = field(default_factory=Options)
    warmup: Trim = NOTHING
    cooldown: Trim = NOTHING
    watched: str | None = None  # the job or project whose promises are recorded
    explained: str | None = None  # the job whose wait is explained

    @classmethod
    def of(
        cls,
        policy: Chosen,
        params: Params | Sequence[str] | None = None,
        *,
        promise: str | None = None,
        explain: str | None = None,
        **given: Unpack[Given],
    ) -> "RunSpec":
        """Return the specification for arguments of the command line or Python, all of them checked.

        params: by name, or `key=value` each. Raises UsageError, and PolicyError for a mistake in a policy's file.
        """
        if unknown := [name for name in given if name not in Given.__annotations__]:
            hint = did_you_mean(unknown[0], ["policy", *Given.__annotations__])
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}; {hint}")
        given = with_events(given)
        options = Options.of(
            cast("OptionsGiven", {n: v for n, v in given.items() if n in OptionsGiven.__annotations__})
        )
        if promise is not None and options.predict is not None:
            raise UsageError("plans by predictions give no promises; expected --promise without --predict")
        warmup, cooldown = _trim(given.get("warmup"), "warmup"), _trim(given.get("cooldown"), "cooldown")
        texts, more = (params, {}) if isinstance(params, Sequence) else ((), dict(params or {}))
        found, own = _policy(policy, texts)
        if (place := given.get("place")) is not None and "place" not in {**found.given, **more}:
            more = {**more, "place": place}
        found, more = _with_answers(found, more)
        found.values({**own, **more})
        named = policy if isinstance(policy, str) else found
        all_given = {**found.given, **own, **more}
        made = cls(
            named=named,
            given=all_given,
            options=options,
            warmup=warmup,
            cooldown=cooldown,
            watched=promise,
            explained=explain,
        )
        vars(made)["policy"] = found
        return made

    @cached_property
    def policy(self) -> "Policy":
        """The policy with the settings that were given."""
        own = _policy(self.named)[0]
        return _with_answers(own, self.given)[0]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without a policy that is named by its text, which is loaded there."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def params(self) -> dict[str, float | str]:
        """The parameters that were given."""
        return {name: value for name, value in self.given.items() if name not in self.policy.given}

    @property
    def non_defaults(self) -> dict[str, float | str]:
        """The part of the name that distinguishes the policy from its defaults."""
        return self.policy.non_defaults(self.params)

    @property
    def name(self) -> str:
        """The policy with its parameters and the variant of the rules that it runs under, where not the default."""
        return ", ".join([name_of(self.policy.name, self.non_defaults), *self.options.variant])

    def replicated(self, replication: int) -> "RunSpec":
        """Return the spec with the seed of a replication."""
        if not replication:
            return self
        return self._with(replace(self.options, seed=self.options.seed + replication))

    def under(self, events: Events | None) -> "RunSpec":
        """Return the spec with these events; itself without any, or if it has its own."""
        if events is None or self.options.events is not None:
            return self
        return self._with(replace(self.options, events=events))

    def _with(self, options: Options) -> "RunSpec":
        other = replace(self, options=options)
        vars(other)["policy"] = self.policy
        return other


def with_events(given: Given) -> Given:
    """Return the options with the events read, if a file of them is named. Raises EventsError."""
    events = given.get("events")
    if not isinstance(events, str | Path):
        return given
    from backfill.traces.events import read_events

    return {**given, "events": read_events(events)}


def names(specs: Sequence[RunSpec]) -> list[str]:
    """Return the names of their policies. Raises UsageError if there are too few, or one is given twice."""
    return names_of([(spec.policy.name, spec.non_defaults) for spec in specs])


def _policy(policy: Chosen, settings: Sequence[str] = ()) -> "tuple[Policy, dict[str, float | str]]":
    """Return the policy that a caller names or gives, and the parameters in its text and settings.

    Raises UsageError.
    """
    from backfill.core.policy import Policy
    from backfill.loading import load
    from backfill.walls import check_policy

    if isinstance(policy, str):
        return load(policy, settings)
    if not isinstance(policy, Policy):
        if not callable(policy):
            several = "; compare runs several" if isinstance(policy, list | tuple) else ""
            raise UsageError(f"policy is {policy!r}; expected a name, a policy or a function{several}")
        policy = Policy(name=getattr(policy, "__name__", "policy"), decide=policy, compiled=False)
    check_policy(policy)
    return policy, {}


def _with_answers(policy: "Policy", given: Params) -> "tuple[Policy, dict[str, float | str]]":
    """Return the policy with the new settings among these, and the parameters."""
    from backfill.loading import choose

    return choose(policy, {name: value for name, value in given.items() if policy.given.get(name) != value})


def _trim(value: str | int | Trim | None, argument: str) -> Trim:
    """Return the value of warmup or cooldown; the argument's name is for messages. Raises UsageError."""
    if value is None:
        return NOTHING
    return value if isinstance(value, Trim) else Trim.parse(str(value), argument)


def shows_given(function: Function) -> Function:
    """Let help and notebooks show the options in `**given: Unpack[Given]` of a function by name."""
    usual = {**Options().to_dict(), "seed": Options().seed}
    own = inspect.signature(function)
    kept = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=usual.get(name), annotation=kind)
        for name, kind in get_type_hints(Given).items()
    ]
    function.__signature__ = own.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
    return function
