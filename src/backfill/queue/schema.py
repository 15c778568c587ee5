"""The requests that the daemon accepts: the fields of each, with their types and bounds. All others are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from backfill.queue.shapes import Failure
from backfill.queue.words import AFTER, AHEAD_MAX, INSTANT_MAX, TASKS_MAX

Facts = dict[str, Any]
Asked = TypeVar("Asked")

NAME_MAX, INDEXES_MAX, IDS_MAX = 256, 10_000, 100_000
ENVIRONMENT_MAX = 256 << 10
SCRIPT_MAX = 4 << 20
SPAN_MAX = AHEAD_MAX  # microseconds
NUMBER_MAX = 10**15
AHEAD = "_ahead"  # begin_ahead, in place of begin: so long after the request, by the clock of the queue


class Refused(Exception):
    """A request that is refused. Nothing has changed."""

    def __init__(self, message: str, code: str = "usage", field: str = "") -> None:
        super().__init__(message)
        self.code, self.field = code, field

    def answer(self) -> Failure:
        """Return the answer for the client."""
        return {"error": {"code": self.code, "message": str(self), "field": self.field}}


def dated(asked: Asked, now: int) -> Asked:
    """Return a checked request in which no instant is an amount ahead of now any more. now: by the calendar."""
    found = dict(cast("Facts", asked))
    for name in [name for name in found if name.endswith(AHEAD)]:
        found[name.removesuffix(AHEAD)] = now + found.pop(name)
    return cast("Asked", found)


class Type(Protocol):
    """Base class of types of values."""

    def check(self, value: Any, name: str) -> None:
        """Raise Refused for a value of another type."""


def _refused(value: Any, name: str, expected: str) -> Refused:
    return Refused(f"{name} is {value!r:.60}; expected {expected}", field=name)


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    low: int
    high: int

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise _refused(value, name, f"a whole number from {self.low} to {self.high}")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, bool):
            raise _refused(value, name, "true or false")


@dataclass(frozen=True)
class Text:
    """Printable characters."""

    most: int = NAME_MAX
    least: int = 0

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, str) or not self.least <= len(value) <= self.most or not value.isprintable():
            raise _refused(value, name, f"from {self.least} to {self.most} printable characters")


@dataclass(frozen=True)
class Body:
    """A text that is written to a file as UTF-8."""

    most: int

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        try:
            good = isinstance(value, str) and len(value.encode()) <= self.most
        except UnicodeEncodeError:
            good = False
        if not good:
            raise Refused(f"{name}: expected a text in UTF-8 of at most {self.most:,} bytes", field=name)


@dataclass(frozen=True)
class Word:
    """An argument, path or variable of the system; a byte that is not UTF-8 is a lone surrogate."""

    most: int = 1 << 20
    begins: str = ""
    without: str = "\0"
    least: int = 0

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        good = isinstance(value, str) and self.least <= len(value) <= self.most
        good = good and not any(c in value for c in self.without)
        try:
            good = good and value.startswith(self.begins) and value.encode(errors="surrogateescape") is not None
        except UnicodeEncodeError:
            good = False
        if not good:
            path = f" that begins with {self.begins}" if self.begins else ""
            size = f"{self.least:,} to {self.most:,}" if self.least else f"at most {self.most:,}"
            raise _refused(value, name, f"a text{path} without zero bytes, of {size} characters")


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, str) or value not in self.words:
            raise _refused(value, name, f"one of {', '.join(self.words)}")


@dataclass(frozen=True)
class Many:
    """A list."""

    of: Type
    most: int
    least: int = 0
    expected: str = "a list"

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, list):
            raise _refused(value, name, self.expected)
        if not self.least <= len(value) <= self.most:
            message = f"{name} has {len(value):,} entries; expected from {self.least} to {self.most:,}"
            raise Refused(message, field=name)
        for one in value:
            self.of.check(one, name)


@dataclass(frozen=True)
class Row:
    """A list with a type for each position."""

    of: tuple[Type, ...]

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, list) or len(value) != len(self.of):
            raise _refused(value, name, f"a list of {len(self.of)}")
        for kind, one in zip(self.of, value, strict=True):
            kind.check(one, name)


@dataclass(frozen=True)
class Table:
    """An object with arbitrary names and values of one type."""

    key: Type
    value: Type
    most: int
    size: int = 1 << 30  # total number of characters

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise _refused(value, name, f"an object of at most {self.most:,} names")
        for key, one in value.items():
            self.key.check(key, name)
            self.value.check(one, key)
        if self.size < 1 << 30 and sum(len(key) + len(one) for key, one in value.items()) > self.size:
            raise Refused(f"the environment is larger than {self.size >> 10} KiB; see --export", field=name)


@dataclass(frozen=True)
class Record:
    """An object with certain names, some of them required."""

    fields: Mapping[str, Type]
    required: tuple[str, ...] = ()

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        if not isinstance(value, dict):
            raise _refused(value, name, "an object")
        for missing in self.required:
            if missing not in value:
                raise Refused(f"{missing} is missing", field=missing)
        for key, one in value.items():
            kind = self.fields.get(key)
            if kind is None:
                raise Refused(f"{key!r:.60} is not a field of {name}", field=name)
            kind.check(one, key)


@dataclass(frozen=True)
class Either:
    """One of several types."""

    of: tuple[Type, ...]
    expected: str

    def check(self, value: Any, name: str) -> None:
        """See Type."""
        for kind in self.of:
            try:
                kind.check(value, name)
            except Refused:
                continue
            return
        raise _refused(value, name, self.expected)


@dataclass(frozen=True)
class Request:
    """A request: its fields, and whether it changes anything."""

    fields: Record = field(default_factory=lambda: Record({}))
    changes: bool = False


FLAG, NAME = Flag(), Text()
NUMBER = Whole(0, NUMBER_MAX)
TASK = Row((NUMBER, Whole(0, 2**31)))
NAMED, OF = Record({"name": NAME}, ("name",)), Record({"project": NAME}, ("project",))
ONE = Either((NUMBER, TASK, NAMED, OF, Choice(("all",))),
             "the number of a job, [array, index], {\"name\": ...}, {\"project\": ...} or \"all\"")  # fmt: skip
IDS = Many(ONE, IDS_MAX, 1, "a list of jobs")
PRIORITY = Whole(-(2**31), 2**31)
WALLTIME, SPAN, INSTANT = Whole(1, SPAN_MAX), Whole(0, SPAN_MAX), Whole(0, INSTANT_MAX)
NEED = Table(Text(least=1), Whole(0, 2**62), 64)
PATH = Word(4096)
NAMES = Many(NAME, 1000)

DEPENDENCY = Many(Row((Choice(AFTER), Either((NUMBER, TASK), "a job"))), INDEXES_MAX)

JOB = Record(
    {
        "need": NEED, "name": NAME, "project": NAME, "priority": PRIORITY, "walltime": WALLTIME, "grace": SPAN,
        "begin": INSTANT, "begin_ahead": SPAN, "deadline": INSTANT, "deadline_ahead": SPAN, "requeue": FLAG,
        "retry": Whole(0, 1000), "notify": Word(4096), "singleton": FLAG, "held": FLAG, "any_of": FLAG,
        "array": Many(Whole(0, 2**31), INDEXES_MAX, 1), "throttle": Whole(0, INDEXES_MAX),
        "after": DEPENDENCY,
        "tasks": Whole(1, TASKS_MAX), "ntasks": Whole(1, TASKS_MAX),
        "spread": Choice(("any", "node", "site", "distinct")),
        "constraint": NAME, "gpu_type": NAME, "partition": NAME, "qos": NAME, "site": NAME,
        "exclusive": FLAG, "reservation": NAME,
    },
    ("need",),
)  # fmt: skip
IN_PROJECTS = JOB.fields.keys() - {"project", "array", "throttle", "singleton", "after"}  # fields of a job in a project
SLURM = Record(
    {"tasks": Whole(1, 2**31), "host": Word(), "dir": PATH, "per_cpu": Whole(0, 2**62),
     "array": Row((Whole(0, 2**31),) * 4)},
    ("tasks", "host", "dir"),
)  # fmt: skip
SPEC = Record(
    {
        "argv": Many(Word(), 100_000, 1, "a command, as a list of words"),
        "cwd": Word(4096, "/"),
        "env": Table(Word(without="\0=", least=1), Word(), 100_000, ENVIRONMENT_MAX),
        "umask": Whole(0, 0o777),
        "limits": Table(Text(32, 1), Row((Whole(-1, 2**64), Whole(-1, 2**64))), 32),
        "nice": Whole(-20, 20),
        "affinity": Many(Whole(0, 2**16), 2**16),
        "input": PATH, "output": PATH, "error": PATH,
        "truncate": FLAG, "keep_descendants": FLAG,
        "warn": Row((Whole(1, 64), Whole(0, SPAN_MAX), FLAG)),
        "script": Body(SCRIPT_MAX),
        "slurm": SLURM,
        "runtime": SPAN,  # its run time in a fake pool
    },
    ("argv",),
)  # fmt: skip
SUBMIT = Record(
    {"token": Text(least=1), "user": NAME, "group": NAME, "job": JOB, "spec": SPEC}, ("token", "job", "spec")
)
PROJECT_MAX = 1000  # jobs queued at once
OF_PROJECT = Record(
    {
        "job": Record({name: kind for name, kind in JOB.fields.items() if name in IN_PROJECTS}, ("need", "name")),
        "spec": SPEC,
        "after": Many(
            Row((Choice(("after", "afterok", "afternotok", "afterany")), Whole(0, PROJECT_MAX))), PROJECT_MAX
        ),
    },
    ("job", "spec", "after"),
)
SUBMIT_PROJECT = Record(
    {
        "token": Text(least=1), "user": NAME, "group": NAME, "project": Text(least=1),
        "spec": Record(SPEC.fields),  # common fields of the specs of the jobs
        "jobs": Many(OF_PROJECT, PROJECT_MAX, 1),
    },
    ("token", "project", "jobs"),
)  # fmt: skip
TO = Record(
    {
        "walltime": WALLTIME, "priority": PRIORITY, "name": Text(least=1), "need": NEED,
        "begin": INSTANT, "begin_ahead": SPAN, "deadline": INSTANT, "deadline_ahead": SPAN,
        "after": DEPENDENCY, "any_of": FLAG, "singleton": FLAG,
        "constraint": NAME, "gpu_type": NAME, "partition": NAME, "qos": NAME, "reservation": NAME,
    },
)  # fmt: skip
SOME = Record({"ids": IDS}, ("ids",))
TRIED = Record({"walltime": WALLTIME, "need": NEED})
RESERVE = Record(
    {
        "token": Text(least=1), "reservation": Text(least=1), "user": NAME, "group": NAME, "project": NAME,
        "nodes": Many(NAME, 10_000, 1), "count": Whole(1, 10_000), "amount": NEED,
        "begin": INSTANT, "begin_ahead": SPAN, "until": INSTANT, "until_ahead": SPAN, "span": WALLTIME, "force": FLAG,
    },
    ("token", "reservation"),
)  # fmt: skip

REQUESTS = {
    "submit": Request(SUBMIT, changes=True),
    "submit_project": Request(SUBMIT_PROJECT, changes=True),
    "hold": Request(SOME, changes=True),
    "release": Request(SOME, changes=True),
    "cancel": Request(SOME, changes=True),
    "edit": Request(Record({"ids": IDS, "to": TO}, ("ids", "to")), changes=True),
    "requeue": Request(SOME, changes=True),
    "suspend": Request(SOME, changes=True),
    "resume": Request(SOME, changes=True),
    "signal": Request(Record({"ids": IDS, "signal": Whole(1, 64)}, ("ids", "signal")), changes=True),
    "reserve": Request(RESERVE, changes=True),
    "unreserve": Request(Record({"reservation": NAME, "force": FLAG}, ("reservation",)), changes=True),
    "pause": Request(changes=True),
    "unpause": Request(changes=True),
    "test": Request(SUBMIT),
    "test_project": Request(SUBMIT_PROJECT),
    "project": Request(Record({"project": NAME}, ("project",))),
    "ping": Request(),
    "metrics": Request(),
    "stop": Request(),
    "queue": Request(
        Record(
            {
                "ended": Whole(0, IDS_MAX),
                "estimates": FLAG,
                "nodes": FLAG,
                "states": NAMES,
                "users": NAMES,
                "names": NAMES,
                "projects": NAMES,
                "fold": FLAG,
                "limit": Whole(0, IDS_MAX),
                "after": NUMBER,
                "by_id": FLAG,
            },
        )
    ),
    "plan": Request(Record({"users": NAMES, "names": NAMES, "projects": NAMES, "limit": Whole(0, IDS_MAX)})),
    "show": Request(Record({"ids": IDS, "from": Whole(0, IDS_MAX), "limit": Whole(1, 1000)}, ("ids",))),
    "find": Request(SOME),
    "wait": Request(SOME),
    "explain": Request(Record({"ids": IDS, "to": TRIED}, ("ids",))),
    "eta": Request(Record({"project": NAME})),
    "slots": Request(Record({"need": NEED, "gpu_type": NAME, "user": NAME, "group": NAME})),
    "output": Request(Record({"ids": IDS, "err": FLAG}, ("ids",))),
    "switch": Request(Record({"policy": Word(4096)}, ("policy",))),
    "policy": Request(Record({"policy": Word(4096)}, ("policy",))),
}


def check(message: Facts) -> Request:
    """Return the kind of a request. Raises Refused, with the field that is wrong."""
    name = message.get("do")
    request = REQUESTS.get(name) if isinstance(name, str) else None
    if request is None:
        raise Refused(f"{name!r:.40} is not a request of this queue", "unknown", "do")
    request.fields.check({key: value for key, value in message.items() if key not in ("do", "v")}, str(name))
    return request
