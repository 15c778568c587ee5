"""What a policy gets instead of the State: it reads what is known now, and writes only what is its own.

`View` is that for plain Python, `view_type` the same for compiled code, where a view is the pointer to the State under
another type: its arrays cannot be written, those of the job table end with the last job that was submitted, and fields
that are not in READABLE are not there. `state.own` has the parameters and the memory of the policy by their names.
Verbs open the wall (wall.py).
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.extending import infer_getattr, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate

from backfill import jit
from backfill.core.batch import BATCH
from backfill.core.jobs import JOBS as OF_JOBS
from backfill.core.machine import FREE, MACHINE, PLACED
from backfill.core.places import QUEUE
from backfill.core.pointer import array_of, read_field
from backfill.core.promises import PROMISES
from backfill.core.runs import RUNS
from backfill.core.shadow import SHADOW
from backfill.core.state import STATE, StateT

Layout = tuple[tuple[str, str, int], ...]  # of the policy's own: name, kind (param, int or float), place among these

READABLE = {
    "jobs": "count submit walltime tasks demand need spread alone bound deadline priority admin_priority user group "
    "project licence_first licence licence_count",
    "machine": "nodes resources pool capacity in_play site allowed hosts copies windows",
    "free": "nodes total licences",
    "runs": "count job start limit end reason how first many held last by_limit limits active paused",
    "queue": "waiting slots waits",
    "placed": "pairs count job",
    "shadow": "extra licences job",
    "promises": "reserved first",
    "batch": "arrived arrivals ended ends left leaves changes started starts preempted preemptions",
}
FIELDS = {  # the numba type of every field, by room
    "jobs": dict(OF_JOBS),
    "machine": dict(MACHINE),
    "free": dict(FREE),
    "runs": dict(RUNS),
    "queue": dict(QUEUE),
    "placed": dict(PLACED),
    "shadow": dict(SHADOW),
    "promises": dict(PROMISES),
    "batch": dict(BATCH),
}
ITEMS = ("licence", "licence_count")  # columns of the job table with a row per licence of a job


def readable(room: str) -> list[str]:
    """The fields of a room that a policy may read."""
    return READABLE[room].split()


class View:
    """The State as a policy in plain Python sees it. Arrays are read-only, and have no row of a job to come."""

    _numba_type_ = StateT  # verbs may be called with it

    def __init__(self, state: Any, layout: Layout) -> None:
        rooms = {room: _Room(room, getattr(state, room), state.jobs) for room in READABLE}
        self.__dict__.update(
            _state=state,
            _error=state.trace.error,
            _meminfo=getattr(state, "_meminfo", None),
            **rooms,
            own=_Own(state.own, layout),
        )

    @property
    def now(self) -> int:
        """The present instant."""
        return int(self._state.now)  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"state.{name} is not the policy's to write")


class _Room:
    __slots__ = ("_jobs", "_name", "_record")

    def __init__(self, name: str, record: Any, jobs: Any) -> None:
        for field, value in (("_name", name), ("_record", record), ("_jobs", jobs)):
            object.__setattr__(self, field, value)

    def __getattr__(self, field: str) -> Any:
        if field not in readable(self._name):
            raise AttributeError(f"state.{self._name} has no field {field!r}; fields: {READABLE[self._name]}")
        value = getattr(self._record, field)
        if not isinstance(value, np.ndarray):
            return value
        if self._name == "jobs":
            count = int(self._jobs.count)
            items = int(self._jobs.licence_first[count]) if field in ITEMS else count + (field == "licence_first")
            value = value[:items]
        else:
            value = value[:]
        value.flags.writeable = False
        return value

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"state.{self._name}.{field} is not the policy's to write")


class _Own:
    __slots__ = ("_layout", "_record")

    def __init__(self, record: Any, layout: Layout) -> None:
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_layout", {name: (kind, place) for name, kind, place in layout})

    def __getattr__(self, name: str) -> Any:
        if name not in self._layout:
            raise AttributeError(f"state.own has no {name!r}; it has: {', '.join(self._layout) or 'nothing'}")
        kind, place = self._layout[name]
        if kind == "param":
            return float(self._record.param[place])
        memory, at = (getattr(self._record, f"{field}_{kind}") for field in ("memory", "at"))
        return memory[at[place] : at[place + 1]]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"state.own.{name} is written by its items: state.own.{name}[0] = ...")


class ViewType(types.Type):
    """A State behind its wall."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        super().__init__(f"View{layout}")


class RoomType(types.Type):
    """A room behind the wall."""

    def __init__(self, room: str) -> None:
        self.room = room
        super().__init__(f"Room({room})")


class OwnType(types.Type):
    """What belongs to the policy."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        super().__init__(f"Own{layout}")


def view_type(layout: Layout) -> Any:
    """The numba type of the State as a policy with this memory sees it."""
    return ViewType(layout)


if not jit.PLAIN:
    ROOMS = dict(STATE)
    JOBS, OWN = ROOMS["jobs"], ROOMS["own"]
    for each in (ViewType, RoomType, OwnType):
        register_default(each)(models.OpaqueModel)

    @infer_getattr
    class _ViewFields(AttributeTemplate):
        key = ViewType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            if attr == "own":
                return OwnType(typ.layout)
            return types.int64 if attr == "now" else RoomType(attr) if attr in READABLE else None

    @lower_getattr_generic(ViewType)
    def _read_view(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        return read_field(context, builder, StateT, value, attr)

    @infer_getattr
    class _RoomFields(AttributeTemplate):
        key = RoomType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            if attr not in readable(typ.room):
                return None
            kind = ROOMS[typ.room].fields[attr]
            return kind.copy(readonly=True) if isinstance(kind, types.Array) else kind

    @lower_getattr_generic(RoomType)
    def _read_room(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        kind = ROOMS[typ.room].fields[attr]
        field = read_field(context, builder, ROOMS[typ.room], value, attr)
        if not isinstance(kind, types.Array) or typ.room != "jobs":
            return field
        array = array_of(context, builder, kind, field)
        rows = read_field(context, builder, JOBS, value, "count")
        if attr in ITEMS:
            first = JOBS.fields["licence_first"]
            at = array_of(context, builder, first, read_field(context, builder, JOBS, value, "licence_first"))
            rows = builder.load(builder.gep(at.data, [rows]))
        elif attr == "licence_first":
            rows = builder.add(rows, rows.type(1))
        shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        array.shape = cgutils.pack_array(builder, [rows, *shape[1:]])
        return array._getvalue()

    @infer_getattr
    class _OwnFields(AttributeTemplate):
        key = OwnType

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            kinds = {"param": types.float64, "int": types.int64[::1], "float": types.float64[::1]}
            return next((kinds[kind] for name, kind, _ in typ.layout if name == attr), None)

    @lower_getattr_generic(OwnType)
    def _read_own(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        kind, place = next((kind, place) for name, kind, place in typ.layout if name == attr)

        def items(field: str) -> Any:
            return array_of(context, builder, OWN.fields[field], read_field(context, builder, OWN, value, field))

        def item(array: Any, place: int) -> Any:
            return builder.load(builder.gep(array.data, [context.get_constant(types.intp, place)]))

        if kind == "param":
            return item(items("param"), place)
        memory, at = items(f"memory_{kind}"), items(f"at_{kind}")
        begin, end = item(at, place), item(at, place + 1)
        count = builder.sub(end, begin)
        memory.data = builder.gep(memory.data, [begin])
        memory.nitems = count
        memory.shape = cgutils.pack_array(builder, [count])
        return memory._getvalue()
