"""The policy's view of the State: what is known now can be read, and only the policy's own memory written.

`View` implements it for plain Python, `view_type` for compiled code, where a view is the pointer to the State under
another type: its arrays are read-only, arrays with a row per job end at the last submitted job (the policy's own memory
too), and only the fields in READABLE exist. `state.own` has the parameters and the memory of the policy by name. Verbs
get the State behind the view (wall.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.extending import infer_getattr, lower_cast, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate

from backfill.compiler import jit
from backfill.compiler.pointer import array_of, read_field
from backfill.compiler.users import NOT_YOURS, Whole
from backfill.core.batch import BATCH
from backfill.core.jobs import JOBS as OF_JOBS
from backfill.core.machine import FREE, MACHINE, PLACED
from backfill.core.plan.promises import PROMISES
from backfill.core.plan.shadow import SHADOW
from backfill.core.projects import PROJECTS
from backfill.core.queue.places import QUEUE
from backfill.core.runs import RUNS
from backfill.core.state import STATE, StateT


class Named(NamedTuple):
    """A parameter or a memory that the policy declares."""

    name: str
    kind: str  # param, int or float
    place: int  # index among those of its kind
    per_job: bool = False  # whether the memory has an item per job


Layout = tuple[Named, ...]

READABLE = {
    "jobs": "count submit walltime tasks demand need spread most alone bound deadline priority admin_priority user "
    "group project licence_first licence licence_count limit_first",
    "machine": "nodes resources pool capacity in_play site sites site_first site_node allowed hosts copies licences "
    "windows",
    "free": "nodes total licences",
    "runs": "count job start limit end reason how first many held last by_limit limits active paused rows",
    "queue": "waiting slots waits",
    "placed": "pairs count job",
    "shadow": "extra licences job",
    "projects": "count of submit first last next",
    "promises": "reserved first",
    "batch": "arrived arrivals ended ends left leaves dropped drops begun begins changes started starts preempted "
    "preemptions",
}
FIELDS = {  # the numba type of every field, by part of the state
    "jobs": dict(OF_JOBS),
    "machine": dict(MACHINE),
    "free": dict(FREE),
    "runs": dict(RUNS),
    "queue": dict(QUEUE),
    "placed": dict(PLACED),
    "shadow": dict(SHADOW),
    "projects": dict(PROJECTS),
    "promises": dict(PROMISES),
    "batch": dict(BATCH),
}
_PER_JOB, _PER_RUN, _PER_PROJECT = ("jobs", "count", 0), ("runs", "count", 0), ("projects", "count", 0)
_ENDS = {
    "jobs": dict.fromkeys(READABLE["jobs"].split(), _PER_JOB) | {"licence_first": ("jobs", "count", 1)},
    "machine": {"allowed": ("jobs", "sets", 0), "copies": ("machine", "licences", 0)},
    "free": {"licences": ("machine", "licences", 0)},
    "shadow": {"licences": ("machine", "licences", 0)},
    "runs": {
        **dict.fromkeys(["job", "start", "limit", "end", "reason", "how", "first", "many"], _PER_RUN),
        **dict.fromkeys(["last", "paused"], _PER_JOB),
        **dict.fromkeys(["by_limit", "limits"], ("runs", "active", 0)),
        "held": ("runs", "held_used", 0),
    },
    "queue": {"waits": _PER_JOB},
    "projects": {"of": _PER_JOB, "next": _PER_JOB} | dict.fromkeys(["submit", "first", "last"], _PER_PROJECT),
    "promises": {"reserved": _PER_JOB, "first": _PER_JOB},
    "batch": {
        "arrived": ("batch", "arrivals", 0),
        "begun": ("batch", "begins", 0),
        "ended": ("batch", "ends", 0),
        "left": ("batch", "leaves", 0),
        "dropped": ("batch", "drops", 0),
        "started": ("batch", "starts", 0),
        "preempted": ("batch", "preemptions", 0),
    },
    "placed": {"pairs": ("placed", "count", 0)},
}  # length of an array: a part of the state, its field with the length, and an addend
_ITEMS = ("licence", "licence_count")  # fields of the job table with a row per licence of a job


def readable(room: str) -> list[str]:
    """Return the fields of a part of the state that a policy may read."""
    return READABLE[room].split()


class View:
    """The State for a policy in plain Python: arrays are read-only and have no rows for jobs not yet submitted."""

    _numba_type_ = StateT  # allows kernels to be called with it

    def __init__(self, state: Any, layout: Layout) -> None:
        rooms = {room: _Room(room, state) for room in READABLE}
        self.__dict__.update(
            _state=state,
            _error=state.trace.error,
            _meminfo=getattr(state, "_meminfo", None),
            **rooms,
            own=_Own(state, layout),
        )

    @property
    def now(self) -> int:
        """The current time."""
        return int(self._state.now)  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"state.{name} {NOT_YOURS}")


class _Room:
    __slots__ = ("_name", "_state")

    def __init__(self, name: str, state: Any) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_state", state)

    def __getattr__(self, field: str) -> Any:
        if field not in readable(self._name):
            raise AttributeError(f"state.{self._name} has no field {field!r}; fields: {READABLE[self._name]}")
        value = getattr(getattr(self._state, self._name), field)
        if not isinstance(value, np.ndarray):
            return value
        value = value[: self._end(field)]
        value.flags.writeable = False
        return value

    def _end(self, field: str) -> int | None:
        if self._name == "jobs" and field in _ITEMS:
            return int(self._state.jobs.licence_first[self._state.jobs.count])
        if field not in _ENDS.get(self._name, ()):
            return None
        room, counted, more = _ENDS[self._name][field]
        return int(getattr(getattr(self._state, room), counted)) + more

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"state.{self._name}.{field} {NOT_YOURS}")


class _Own:
    __slots__ = ("_layout", "_state")

    def __init__(self, state: Any, layout: Layout) -> None:
        object.__setattr__(self, "_state", state)
        object.__setattr__(self, "_layout", {named.name: named for named in layout})

    def __getattr__(self, name: str) -> Any:
        if name not in self._layout:
            raise AttributeError(f"state.own has no {name!r}; it has: {', '.join(self._layout) or 'nothing'}")
        named, own = self._layout[name], self._state.own
        if named.kind == "param":
            return float(own.param[named.place])
        memory, at = (getattr(own, f"{field}_{named.kind}") for field in ("memory", "at"))
        begin, end = at[named.place], at[named.place + 1]
        items = memory[begin : begin + self._state.jobs.count if named.per_job else end]
        return items.view(Whole) if named.kind == "int" else items

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(of_own(name, tuple(self._layout.values())))


def of_own(name: str, layout: Layout) -> str:
    """Return the message for an assignment to a parameter or memory of the policy."""
    if any(named.name == name and named.kind == "param" for named in layout):
        return f"state.own.{name} is a parameter, which no policy can change"
    return (
        f"state.own.{name} cannot be replaced; assign its items: state.own.{name}[0] = ... or state.own.{name}[:] = ..."
    )


class ViewType(types.Type):
    """The numba type of the view of the State."""

    opened = StateT  # the type that a verb receives

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        super().__init__(f"View{tuple(map(tuple, layout))}")

    def unwritable(self, name: str) -> str:
        """Return the message for an assignment to a field."""
        return f"state.{name} {NOT_YOURS}"


class RoomType(types.Type):
    """The numba type of one part of the State, as seen through the view."""

    def __init__(self, room: str) -> None:
        self.room = room
        super().__init__(f"Room({room})")

    def unwritable(self, name: str) -> str:
        """Return the message for an assignment to a field."""
        return f"state.{self.room}.{name} {NOT_YOURS}"


class OwnType(types.Type):
    """The numba type of the policy's own parameters and memory."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        super().__init__(f"Own{tuple(map(tuple, layout))}")

    def unwritable(self, name: str) -> str:
        """Return the message for an assignment to a field."""
        return of_own(name, self.layout)


def view_type(layout: Layout) -> Any:
    """Return the numba type of the State as seen by a policy with this memory layout."""
    return ViewType(layout)


if not jit.PLAIN:
    ROOMS = dict(STATE)
    for each in (ViewType, RoomType, OwnType):  # each is the pointer to the State
        register_default(each)(models.OpaqueModel)

    @lower_cast(ViewType, StateT)
    def _open(context: Any, builder: Any, view: Any, state: Any, value: Any) -> Any:
        return value

    def _field(context: Any, builder: Any, state: Any, room: str, field: str) -> Any:
        return read_field(context, builder, ROOMS[room], read_field(context, builder, StateT, state, room), field)

    @infer_getattr
    class _ViewFields(AttributeTemplate):
        key = ViewType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            if attr == "own":
                return OwnType(typ.layout)
            return types.int64 if attr == "now" else RoomType(attr) if attr in READABLE else None

    @lower_getattr_generic(ViewType)
    def _read_view(context: Any, builder: Any, typ: Any, state: Any, attr: str) -> Any:
        return read_field(context, builder, StateT, state, attr) if attr == "now" else state

    @infer_getattr
    class _RoomFields(AttributeTemplate):
        key = RoomType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            if attr not in readable(typ.room):
                return None
            kind = ROOMS[typ.room].fields[attr]
            return kind.copy(readonly=True) if isinstance(kind, types.Array) else kind

    @lower_getattr_generic(RoomType)
    def _read_room(context: Any, builder: Any, typ: Any, state: Any, attr: str) -> Any:
        kind = ROOMS[typ.room].fields[attr]
        field = _field(context, builder, state, typ.room, attr)
        rows = _rows(context, builder, state, typ.room, attr)
        return field if rows is None else _cut(context, builder, kind, field, rows)

    def _rows(context: Any, builder: Any, state: Any, room: str, attr: str) -> Any:
        if room == "jobs" and attr in _ITEMS:
            first = _array(context, builder, state, "jobs", "licence_first")
            return builder.load(builder.gep(first.data, [_field(context, builder, state, "jobs", "count")]))
        if not isinstance(ROOMS[room].fields[attr], types.Array) or attr not in _ENDS.get(room, ()):
            return None
        where, counted, more = _ENDS[room][attr]
        rows = _field(context, builder, state, where, counted)
        return builder.add(rows, rows.type(more)) if more else rows

    def _array(context: Any, builder: Any, state: Any, room: str, attr: str) -> Any:
        return array_of(context, builder, ROOMS[room].fields[attr], _field(context, builder, state, room, attr))

    def _cut(context: Any, builder: Any, kind: Any, value: Any, rows: Any) -> Any:
        array = array_of(context, builder, kind, value)
        shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        rows = builder.select(builder.icmp_signed("<", rows, shape[0]), rows, shape[0])
        array.shape = cgutils.pack_array(builder, [rows, *shape[1:]])
        array.nitems = rows
        for length in shape[1:]:
            array.nitems = builder.mul(array.nitems, length)
        return array._getvalue()

    @infer_getattr
    class _OwnFields(AttributeTemplate):
        key = OwnType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            kinds = {"param": types.float64, "int": types.int64[::1], "float": types.float64[::1]}
            return next((kinds[named.kind] for named in typ.layout if named.name == attr), None)

    @lower_getattr_generic(OwnType)
    def _read_own(context: Any, builder: Any, typ: Any, state: Any, attr: str) -> Any:
        named = next(named for named in typ.layout if named.name == attr)

        def item(field: str, place: int) -> Any:
            array = _array(context, builder, state, "own", field)
            return builder.load(builder.gep(array.data, [context.get_constant(types.intp, place)]))

        if named.kind == "param":
            return item("param", named.place)
        memory, at = f"memory_{named.kind}", f"at_{named.kind}"
        begin, end = item(at, named.place), item(at, named.place + 1)
        array = _array(context, builder, state, "own", memory)
        array.data = builder.gep(array.data, [begin])
        rows = _field(context, builder, state, "jobs", "count") if named.per_job else builder.sub(end, begin)
        return _cut(context, builder, ROOMS["own"].fields[memory], array._getvalue(), rows)
