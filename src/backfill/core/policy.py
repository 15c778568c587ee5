"""A policy: a pass over the State, its order, tried order and placement rule, its parameters and its memory."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import NDArray

from backfill.compiler import jit
from backfill.compiler.explain import explain, is_ours
from backfill.compiler.kernel import kernel
from backfill.compiler.view import Layout, Named, View, view_type
from backfill.core.queue.order import DYNAMIC, FCFS, ORDERS
from backfill.model.errors import PolicyError, UsageError
from backfill.model.names import did_you_mean
from backfill.model.partitions import PLACES
from backfill.model.units import SECOND

ANSWERS = ("order", "tried", "place")  # those that can be set by name
Synonyms = Mapping[str, Mapping[str, tuple[str, str]]]

OURS_S = 3_600.0
SHARING = ("mpl", "quantum", "switch")  # the parameters of a policy that shares processors
MILLION = 1_000_000
FORGETS = ("no", "alone", "all")
# What memory can have one number for each of. A memory_f `user_target` (`group_target`, `project_target`) of "targets"
# begins with the targets that the platform has for single users, by their numbers; -1 where there are no more. The
# length of memory of size "facts" is that of its facts, 0 without them.
SIZES = ("jobs", "licences", "nodes", "sites", "targets", "facts")

Numbers = Mapping[str, Any]  # arrays of numbers, by name
MULTIFACTOR = "multifactor"  # an order that some policies take: a site's tiers and priorities
NO_JOB = "no job"  # the answer of a policy without reservations, or without backfilling


@dataclass(frozen=True)
class Param:
    """A parameter of a policy: default, bounds, unit, meaning, and whether it is a whole number.

    Compiled code receives it as a float64. Infinity counts as whole if the upper bound is infinite. The value of a
    parameter with `choices` is one of these texts; compiled code receives the index of the text.

    >>> import backfill as bf
    >>> bf.Param(3, low=1, high=10, whole=True, meaning="jobs that may overtake").expected
    'a whole number from 1 to 10'
    """

    default: float
    low: float
    high: float
    unit: str = ""
    meaning: str = ""
    whole: bool = False
    choices: tuple[str, ...] = ()

    @classmethod
    def choice(cls, *choices: str, meaning: str = "") -> "Param":
        """Return a parameter whose value is one of these texts, by default the first.

        >>> import backfill as bf
        >>> bf.Param.choice("all", "none", meaning="who makes way").shown(1)
        'none'
        """
        return cls(0, 0, len(choices) - 1, "", meaning, whole=True, choices=choices)

    @property
    def expected(self) -> str:
        """The allowed values, in words.

        >>> import backfill as bf
        >>> bf.Param.choice("all", "none").expected
        'all or none'
        """
        if self.choices:
            return " or ".join(self.choices)
        return f"{'a whole number from ' if self.whole else ''}{self.low:.15g} to {self.high:.15g}"

    def allows(self, value: float) -> bool:
        """Return whether a number lies within the bounds, and is whole if it has to be; NaN is never allowed.

        >>> import backfill as bf
        >>> bf.Param(3, 1, 10, whole=True).allows(2.5)
        False
        """
        return self.low <= value <= self.high and not (self.whole and value % 1 > 0)

    def number(self, value: float | str) -> float | None:
        """Return the number that compiled code receives for a value; None if the value is not allowed.

        >>> import backfill as bf
        >>> bf.Param.choice("all", "none").number("none")
        1.0
        """
        if self.choices:
            text = str(value).lower() if isinstance(value, str | bool) else f"{value:g}"
            return float(self.choices.index(text)) if text in self.choices else None
        return value if isinstance(value, int | float) and self.allows(value) else None

    def shown(self, number: float) -> float | str:
        """Return the value that a number of compiled code stands for.

        >>> import backfill as bf
        >>> bf.Param.choice("all", "none").shown(0.0)
        'all'
        """
        return self.choices[int(number)] if self.choices else number


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts of a site that a policy knows before the run: resolved parameters, and initial memory."""

    params: NDArray[np.float64]
    memory: Numbers = field(default_factory=dict)  # by name; those of size "jobs" have one number for each job


@dataclass(frozen=True)
class Policy:
    """A pass over the State and its declarations. `decide` is compiled when it is first needed."""

    name: str
    decide: Callable[[Any], None]
    order: str = "fcfs"  # of the queue
    tried: str = "queue"  # order in which candidates are tried
    reserve: str = NO_JOB
    fill: str = NO_JOB
    place: str = "power"  # rule for the placement of a job among nodes, one of PLACES
    source: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    memory: Mapping[str, int | str] = field(default_factory=dict)  # name -> length, or one of SIZES; int64
    memory_f: Mapping[str, int | str] = field(default_factory=dict)  # the same for float64
    binds: bool = False  # no job starts later than its first promised start, if walltimes hold
    keeps: bool = False  # reservations persist until the policy changes them; else they hold for one pass
    settable: tuple[str, ...] = ()  # settings besides `place` that can be given like a parameter: `order`, `tried`
    given: Mapping[str, str] = field(default_factory=dict)  # the settings that were given
    synonyms: Synonyms = field(default_factory=dict)  # name -> its texts -> the setting that each stands for
    sorts: bool = False  # it sorts the queue itself, by `arrange_by` or `arrange_waiting`; `order` describes its key
    preempts: bool = False  # it may preempt running jobs
    dangles: bool = False  # jobs may start before their dependencies are over, but make no progress until then
    shares: bool = False  # its runs may share processors in turns: it has the parameters SHARING
    index: bool = True  # it may search a deep queue by its tree
    booked: bool = False  # bookings of waiting jobs are found by time, and all promises are recorded
    # which ended jobs it never refers to again, so that a queue reuses their rows: "all"; "alone", those without a
    # project; "no" job
    forgets: str = "no"
    projects: bool = False  # it promises the departure of whole projects
    processors: bool = False  # it requires nodes of one cpu each, without floating licences
    # what it knows before the run, given its parameters by name, the platform, the jobs in queue order and what they
    # requested (None on a live queue, whose jobs are not known before they come)
    facts: Callable[[Mapping[str, float], Any, Any, Any], Facts] | None = None
    patience: float = 10.0  # seconds after which a pass of a user's policy is stopped
    compiled: bool = True  # False: plain Python, run through the stepping form of the loop

    def __post_init__(self) -> None:
        for order in ([] if self.sorts else [self.order]) + ([] if self.tried == "queue" else [self.tried]):
            if order not in ORDERS:
                hint = did_you_mean(str(order), [*ORDERS, MULTIFACTOR])
                raise UsageError(f"policy {self.name}: order {order!r} is unknown; {hint}")
        if self.place not in PLACES:
            raise UsageError(f"policy {self.name}: place is {self.place!r}; expected {' or '.join(PLACES)}")
        for name, param in self.params.items():
            if not isinstance(param, Param):
                raise PolicyError(f"policy {self.name}: parameter {name} is {param!r}; expected Param(default, ...)")
            if not param.allows(param.default):
                raise PolicyError(f"policy {self.name}: the default of {name} lies outside its bounds")
        if self.forgets not in FORGETS:
            raise PolicyError(f"policy {self.name}: forgets is {self.forgets!r}; expected {' or '.join(FORGETS)}")
        if self.dangles and self.preempts:
            raise PolicyError(f"policy {self.name}: a policy either dangles or preempts; expected one of them at most")
        if self.shares and not {*SHARING} <= {*self.params}:
            problem = f"expected the parameters {', '.join(SHARING)}"
            raise PolicyError(f"policy {self.name} shares processors; {problem}")
        if not (isinstance(self.patience, int | float) and self.patience > 0):
            raise PolicyError(f"policy {self.name}: patience is {self.patience!r}; expected seconds above 0")
        for name, size in (*self.memory.items(), *self.memory_f.items()):
            if size not in SIZES and not (isinstance(size, int) and size >= 0):
                problem = f"expected a number or one of {', '.join(SIZES)}"
                raise PolicyError(f"policy {self.name}: memory {name} is {size!r}; {problem}")
        for name, count in Counter([*self.params, *self.memory, *self.memory_f]).items():
            if count > 1:
                raise PolicyError(f"policy {self.name}: {name} is declared more than once")
        code = getattr(self.decide, "__code__", None)  # a callable object has no code of its own
        if code is not None and code.co_argcount != 1:
            raise PolicyError(f"policy {self.name} takes {code.co_argcount} arguments; expected one, the state")

    @property
    def patience_s(self) -> float:
        """The longest time that one pass may take; a policy of this package may have to walk a very long queue."""
        ours = self.code is not None and is_ours(self.code.co_filename)
        return max(self.patience, OURS_S) if ours else self.patience

    @property
    def code(self) -> CodeType | None:
        """The code of the pass; that of its class if it is a callable object."""
        found: CodeType | None = getattr(self.decide, "__code__", None)
        return found or getattr(type(self.decide).__call__, "__code__", None)

    @property
    def orders(self) -> tuple[int, ...]:
        """The codes of the queue's order and, if it differs, of the order in which candidates are tried."""
        queue = FCFS if self.sorts else ORDERS.index(self.order)
        tried = queue if self.tried == "queue" else ORDERS.index(self.tried)
        return (queue,) if tried == queue else (queue, tried)

    @property
    def dynamic(self) -> bool:
        """Return whether an order changes with time, which costs a sort of the queue at each pass."""
        return self.sorts or self.sorted_for_it

    @property
    def sorted_for_it(self) -> bool:
        """Return whether the loop sorts the queue before each pass."""
        return bool(set(self.orders) & set(DYNAMIC))

    @property
    def layout(self) -> Layout:
        """The fields of `state.own`, by name."""
        kinds = {"param": dict.fromkeys(self.params), "int": self.memory, "float": self.memory_f}
        return tuple(
            Named(name, kind, place, size == "jobs")
            for kind, sizes in kinds.items()
            for place, (name, size) in enumerate(sizes.items())
        )

    @cached_property
    def entry(self) -> Any:
        """The compiled pass. Raises PolicyError with the line at fault."""
        if jit.PLAIN:
            return lambda state: self.decide(View(state, self.layout))
        view = view_type(self.layout)
        try:
            entry = kernel(types.void, view)(self.decide)
        except (NumbaError, UnsupportedBytecodeError, NotImplementedError) as error:
            raise PolicyError(explain(self.name, self.decide, self.layout, str(error))) from error
        made = entry.overloads[(view,)]
        entry.get_compile_result = lambda signature: made  # it is called with a State: the same pointer as its view
        entry.address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        return entry

    def choose(self, given: Mapping[str, float | str]) -> "tuple[Policy, dict[str, float | str]]":
        """Return the policy with the settings among these, and the remaining parameters for `values`.

        Raises UsageError.
        """
        given = self._by_answers(given)
        answers: Any = {name: str(value) for name, value in given.items() if name in (*self.settable, "place")}
        left = {name: value for name, value in given.items() if name not in answers}
        if not answers:
            return self, left
        binds = self.binds and "order" not in answers
        return replace(self, **answers, given={**self.given, **answers}, binds=binds), left

    def _by_answers(self, given: Mapping[str, float | str]) -> dict[str, float | str]:
        """Replace synonyms by the settings that they stand for. Raises UsageError."""
        found = {name: value for name, value in given.items() if name not in self.synonyms}
        for name, meant in self.synonyms.items():
            if name not in given:
                continue
            if (value := str(given[name])) not in meant:
                raise UsageError(f"policy {self.name}: {name} is {value!r}; expected {' or '.join(meant)}")
            answer, chosen = meant[value]
            if found.setdefault(answer, chosen) != chosen:
                raise UsageError(f"policy {self.name}: {name}={value} contradicts {answer}={found[answer]}; give one")
        return found

    def values(self, given: Mapping[str, float | str]) -> NDArray[np.float64]:
        """Return the parameter values in declared order.

        Raises UsageError for an unknown name or a value out of bounds.
        """
        numbers = {name: param.default for name, param in self.params.items()}
        for name, value in given.items():
            if name not in self.params:
                hint = did_you_mean(name, [*self.params, *self.synonyms, *self.settable, "place"])
                raise UsageError(f"policy {self.name} has no parameter {name!r}; {hint}")
            number = self.params[name].number(value)
            if number is None:
                shown = f"{value:.15g}" if isinstance(value, int | float) else repr(value)
                raise UsageError(f"policy {self.name}: {name} is {shown}; expected {self.params[name].expected}")
            numbers[name] = number
        return np.array([*numbers.values()] or [0.0], np.float64)

    def in_full(self, given: Mapping[str, float | str]) -> dict[str, float | str]:
        """Return every parameter, defaults included, and the settings that were given."""
        numbers = zip(self.params.items(), self.values(given).tolist(), strict=False)
        return {**self.given, **{name: param.shown(number) for (name, param), number in numbers}}

    def overhead(self, values: Mapping[str, float | str]) -> int:
        """Return the microseconds that a preemption adds to a job, given all parameters, if `how` is `checkpoint`."""
        asked = self.preempts and values.get("how", "checkpoint") == "checkpoint"
        return round(float(values.get("overhead", 0)) * SECOND) if asked else 0

    def sharing(self, values: Mapping[str, float | str]) -> tuple[int, int]:
        """Return how many rows may share the processors in turns, and the millionths of a turn that a switch takes.

        values: all parameters. Raises UsageError if a switch takes the whole turn.
        """
        if not self.shares:
            return 1, 0
        quantum, switch = float(values["quantum"]), float(values["switch"])
        if switch >= quantum:
            raise UsageError(f"policy {self.name}: switch is {switch:g}; expected less than quantum, {quantum:g} s")
        return int(values["mpl"]), round(MILLION * switch / quantum)

    def non_defaults(self, given: Mapping[str, float | str]) -> dict[str, float | str]:
        """Return what distinguishes it from the plain policy: its settings, and parameters with non-default values."""
        usual = {name: param.shown(param.default) for name, param in self.params.items()}
        return {name: value for name, value in self.in_full(given).items() if value != usual.get(name)}

    def prepared(self, params: NDArray[np.float64], platform: Any, jobs: Any = None, asked: Any = None) -> Facts:
        """Return what the policy knows before the run.

        jobs: in queue order; None if they are not known. asked: what each requested, shape (jobs, resources), if that
        is not what it holds.
        """
        if self.facts is None:
            return Facts(params)
        if jobs is not None and asked is None:
            asked = jobs.tasks[:, None] * jobs.demand
        named = dict(zip(self.params, params.tolist(), strict=False))  # an array has a number even if there are none
        return self.facts(named, platform, jobs, asked)

    def resolved(self, given: Mapping[str, float | str], platform: Any) -> dict[str, float]:
        """Return every parameter as a run on a platform counts it."""
        return dict(zip(self.params, self.prepared(self.values(given), platform).params.tolist(), strict=False))

    def lengths(self, facts: Numbers, **many: int) -> tuple[list[int], list[int]]:
        """Return the lengths of the integer and of the float memories.

        facts: the content of those of size "facts". many: the number of each of the other SIZES.
        """

        def length(name: str, size: int | str) -> int:
            if size == "facts":
                return len(facts.get(name, ()))
            return many[size] if isinstance(size, str) else size

        kinds = (self.memory, self.memory_f)
        ints, floats = ([length(name, size) for name, size in kind.items()] for kind in kinds)
        return ints, floats

    def like(self, name: str, **answers: Any) -> "Policy":
        """Return the same pass under another name, with these declarations changed."""
        return replace(self, name=name, **answers)


def json_value(value: float | str) -> float | str:
    """Return the value of a parameter for JSON, which has no infinity."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


def policy(name: str, **answers: Any) -> Callable[[Any], Policy]:
    """Turn a function of the State into a policy; docs/reference/policies.md lists the `answers` and the verbs.

    Raises PolicyError for an unknown answer. The function is compiled unless it is declared `compiled=False`.

    >>> import backfill as bf
    >>> from backfill.verbs import start_heads
    >>> @bf.policy("in-order", fill="no job", compiled=False)
    ... def in_order(state):
    ...     start_heads(state)
    >>> bf.simulate(bf.generate("lublin?jobs=20&cpus=64"), policy=in_order).metrics["jobs"]
    20
    """
    known = [each.name for each in fields(Policy) if each.name not in ("name", "decide")]
    for answer in answers:
        if answer not in known:
            raise PolicyError(f"policy {name}: unknown answer {answer!r}; {did_you_mean(answer, known)}")

    def make(decide: Callable[[Any], None]) -> Policy:
        return Policy(name=name, decide=decide, **answers)

    return make
