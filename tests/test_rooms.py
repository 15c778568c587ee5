"""Who writes which room of the State: the table of docs/architecture.md says what the source does."""

import re
from functools import cache
from pathlib import Path

import backfill
from backfill.compiler.view import READABLE
from backfill.core.state import STATE
from tests.written import writers

ROOT = Path(backfill.__file__).parent
EVERY_ROOM = "core/snapshot.py"
ROW = re.compile(r"^\| `(\w+)` \| `([\w/.]+)` \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def table():
    """Room -> owner, modules that write it, what policies may do."""
    text = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## The State\n")[2].partition("\n## ")[0]
    return {room: (_path(owner), {_path(each) for each in re.findall(r"`([\w/]+\.py)`", by)}, may)
            for room, owner, _, by, may in ROW.findall(section)}  # fmt: skip


def _path(name):
    return name if name.startswith("worlds/") else f"core/{name}"


@cache
def found():
    """Room -> modules that write it, and those of ADDED."""
    added = {module: source for module, source, _ in ADDED.values()}
    return {room: set(modules) for room, modules in writers(ROOT, added).items()}


def test_the_table_names_every_module_that_writes_a_room_and_no_other():
    there = {module for module, _, _ in ADDED.values()}
    for room, (_, by, _) in table().items():
        assert EVERY_ROOM in found()[room]
        own = {module for module in found()[room] if room == "own" and module.startswith("policies/")}
        assert by == found()[room] - there - own - {EVERY_ROOM}, f"who writes {room}"
    assert set(found()) == set(table())


def test_the_table_has_every_room_its_owner_and_what_policies_may_read():
    assert list(table()) == [name for name, _ in STATE]
    records = dict(re.findall(r'"(\w+)", (\w+)T\)', (ROOT / "core" / "state.py").read_text(encoding="utf-8")))
    for room, (owner, _, may) in table().items():
        source = (ROOT / owner).read_text(encoding="utf-8")
        assert f'record("{records.get(room, "State")}"' in source, f"{owner} does not own {room}"
        assert may.startswith("read") == (room in READABLE or room == "now"), f"policies may {may} {room}"


ADDED = {  # what writes -> a module of its own, its source, the room that it writes
    name: (f"{'policies' if name == 'a policy' else 'worlds'}/added_{number}.py", source, room)
    for number, (name, (source, room)) in enumerate(
        {
            "a field": ("def f(state):\n    state.queue.waiting = 1", "queue"),
            "an item": ("def f(state):\n    state.queue.waits[0] = 1", "queue"),
            "a change in place": ("def f(state):\n    state.runs.active += 1", "runs"),
            "a field of a record within": ("def f(state):\n    state.plan.nodes.count[3] = 1", "plan"),
            "an alias of a room": ("def f(state):\n    q = state.queue\n    q.waiting = 1", "queue"),
            "an alias of an array": ("def f(state):\n    w = state.queue.waits\n    w[0] = 1", "queue"),
            "a row of an array": ("def f(state):\n    row = state.free.nodes[2]\n    row[0] = 1", "free"),
            "an array changed in place": ("def f(state):\n    w = state.queue.waits\n    w += 1", "queue"),
            "aliases side by side": ("def f(state):\n    a, b = state.now, state.runs\n    b.count = 1", "runs"),
            "one of two rooms": ("def f(state):\n    for p in (state.plan, 0):\n        p.live = 1", "plan"),
            "a parameter": ("def g(x):\n    x.waits[0] = 1\ndef f(state):\n    g(state.queue)", "queue"),
            "a result": ("def g(state):\n    return state.queue\ndef f(state):\n    g(state).waiting = 1", "queue"),
            "a result of an imported function": (
                "from backfill.worlds.added_11 import g\ndef f(state):\n    g(state).waits[:] = 0",
                "queue",
            ),
            "an attribute of an object": (
                "class A:\n    def __init__(self, s):\n        self.s = s\n    def f(self):\n"
                "        self.s.runs.count = 1\ndef f(state):\n    A(state).f()",
                "runs",
            ),
            "a function that is handed on": (
                "def g(x):\n    x.waiting = 1\ndef h(way, x):\n    way(x)\ndef f(state):\n    h(g, state.queue)",
                "queue",
            ),
            "a helper": (
                "from backfill.compiler.record import shift_back\n"
                "def f(state):\n    shift_back(state.queue.line, 0, 1)",
                "queue",
            ),
            "numpy": ("import numpy as np\ndef f(state):\n    np.copyto(state.queue.waits, 0)", "queue"),
            "a method of an array": ("def f(state):\n    state.queue.waits.fill(0)", "queue"),
            "a list": ("def f(state):\n    some = []\n    some.append(state.runs)\n    some[0].count = 1", "runs"),
            "setattr": ('def f(state):\n    setattr(state.queue, "waiting", 1)', "queue"),
            "a policy": ("def f(state):\n    state.batch.changes = 1", "batch"),
            "a copy or a number, which is no room": (
                "def f(state):\n    number, item = state.queue.waiting, state.free.nodes[0, 0]\n    number += 1\n"
                "    item -= 1\n    copied = state.queue.waits.copy()\n    copied[0] = 1\n"
                "    fresh = state.queue.waits[:3] + 1\n    fresh[0] = 1",
                None,
            ),
        }.items()
    )
}


def test_a_writer_that_is_added_is_found():
    for name, (module, _, room) in ADDED.items():  # in one test, since to follow the State takes seconds
        assert {each for each, modules in found().items() if module in modules} == {room} - {None}, name
