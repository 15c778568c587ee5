"""A policy that writes what is not its own, or reads what is not there, is refused before it runs, with its line."""

import linecache
import textwrap

import pytest

import backfill as bf
from backfill.compiler import jit
from backfill.loading import load
from backfill.model.errors import PolicyError

HEADER = """import numpy as np
from backfill import Param, policy
from backfill.verbs import HEAD, arrange_by, arrange_waiting, head, kernel, place, start

"""
DECORATOR = (
    '@policy("mine", {how}sorts=True, params={{"k": Param(1, 0, 9)}}, memory={{"seen": "jobs"}}, '
    'memory_f={{"score": "jobs"}})\n'
)
NOT_YOURS = "is read-only; a policy writes only its own memory, state.own, and calls verbs"

# body of the pass -> line within it, and message; {W} stands for NOT_YOURS
WRITES = {
    "state.free[0, 0] = 1000000": (1, "state.free[0, 0] {W}"),
    "state.free.nodes[0, 0] = 1000000": (1, "state.free.nodes[0, 0] {W}"),
    "state.free.nodes[0, 0] += 1": (1, "state.free.nodes[0, 0] {W}"),
    "state.now = 5": (1, "state.now {W}"),
    "state.queue.waiting = 0": (1, "state.queue.waiting {W}"),
    "state.queue.waiting -= 1": (1, "state.queue.waiting {W}"),
    "state.free = state.free": (1, "state.free {W}"),
    "del state.jobs.submit[0]": (1, "state.jobs.submit[0] {W}"),
    "free = state.free.nodes\nfree[0, 0] = 1": (2, "free[0, 0] is state.free.nodes[0, 0], which {W}"),
    "free = state.free.nodes\nfree += 1": (2, "free is state.free.nodes, which {W}"),
    "row = state.free.nodes[0]\nrow[0] = 1": (2, "row[0] is state.free.nodes[0][0], which {W}"),
    "for row in state.free.nodes:\n    row[0] = 1": (2, "row[0] is state.free.nodes[...][0], which {W}"),
    "state.free.nodes[0, :][0] = 1": (1, "state.free.nodes[0, :][0] {W}"),
    "free, n = state.free, 3\nfree.nodes[0, 0] = n": (2, "free.nodes[0, 0] is state.free.nodes[0, 0], which {W}"),
    "world = state\nworld.now = 5": (2, "world.now is state.now, which {W}"),
    "state.free.nodes.fill(9)": (1, "state.free.nodes.fill(...) writes to state.free.nodes, which {W}"),
    "state.jobs.submit.sort()": (1, "state.jobs.submit.sort(...) writes to state.jobs.submit, which {W}"),
    "state.free.nodes.flags.writeable = True": (
        1, "state.free.nodes.flags.writeable {W}"),
    "np.copyto(state.free.total, 1)": (1, "np.copyto(state.free.total, ...) writes to state.free.total, which {W}"),
    "np.add(1, 2, out=state.free.total)": (1, "out=state.free.total writes to state.free.total, which {W}"),
    "np.add.at(state.free.total, 0, 1)": (1, "np.add.at(state.free.total, ...) writes to state.free.total, which {W}"),
    "x = state.own.seen\nif state.now > 0:\n    x = state.runs.job\nx[0] = 1": (
        4, "x[0] is state.runs.job[0], which {W}"),
    "x = state.own.seen\nfor i in range(2):\n    x[0] = 1\n    x = state.runs.job": (
        3, "x[0] is state.runs.job[0], which {W}"),
    "state.own.seen = state.own.seen": (
        1, "state.own.seen cannot be replaced; assign its items: state.own.seen[0] = ... or state.own.seen[:] = ..."),
    "state.own.k = 2": (1, "state.own.k is a parameter, which no policy can change"),
    "state.own.sene[0] = 1": (1, "state.own has no 'sene'; the policy declares: k, seen, score"),
}  # fmt: skip
READS = {
    "job = state.walltime[0]": "state has no field 'walltime'; did you mean state.jobs.walltime?",
    "free = state.free[0, 0]": (
        "state.free is not an array; its fields: nodes, total, licences; did you mean state.free.nodes[0, 0]?"
    ),
    "n = state.jobs.runtime[0]": (
        "state.jobs has no field 'runtime': policies cannot see it; walltime is what the user asked for"
    ),
    "jobs = state.jobs\nn = jobs.subnit": "state.jobs has no field 'subnit'; did you mean submit?",
    "n = state.heap": "state has no field 'heap'; fields: now, ",
    "n = state.queue.line": "state.queue has no field 'line'; fields: waiting, slots, waits",
    "n = state.memory_i[0]": (
        "state has no field 'memory_i'; it is now state.own.NAME, by the name that @policy declares"
    ),
    "n = state.start_time[0]": (
        "state has no field 'start_time'; it is now state.runs.start[state.runs.last[job]], where "
        "state.runs.last[job] is not -1"
    ),
    "n = state.own.memory_f[0]": "state.own has no 'memory_f'; the policy declares: k, seen, score",
}
LAWFUL = [
    "state.own.seen[0] += 1",
    "state.own.score[:] = state.jobs.walltime[0]\narrange_by(state, 0, state.own.score)",
    "seen = state.own.seen\nseen[0] = 1\nseen += 1\nseen.fill(3)",
    "free = state.free.nodes.copy()\nfree[0, 0] = 1",
    "free = state.free.nodes\nfree = np.zeros(3)\nfree[0] = 1",
    "n = state.queue.waiting\nn += 1",
    "n = state.free.nodes[0, 0]\nn += 1",
    "np.copyto(state.own.score, 1.0)",
    "shape = state.free.nodes.shape\nn = shape[0]",
]
HOWS = {"compiled": "", "plain": "compiled=False, "}


def write(folder, body, how, before=""):
    text = HEADER + before + DECORATOR.format(how=HOWS[how]) + "def mine(state):\n" + textwrap.indent(body, "    ")
    (folder / "mine.py").write_text(text + "\n")
    return text[: text.index("def mine(state):")].count("\n") + 1


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("body", WRITES)
def test_a_write_is_refused(tmp_path, monkeypatch, body, how):
    monkeypatch.chdir(tmp_path)
    line, message = WRITES[body]
    first = write(tmp_path, body, how)
    with pytest.raises(PolicyError) as caught:
        load("mine.py")
    assert str(caught.value) == f"mine.py:{first + line}: {message.format(W=NOT_YOURS)}"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("body", READS)
def test_a_field_that_is_not_there_is_refused(tmp_path, monkeypatch, body, how):
    monkeypatch.chdir(tmp_path)
    first = write(tmp_path, body, how)
    with pytest.raises(PolicyError) as caught:
        load("mine.py")
    assert str(caught.value).startswith(f"mine.py:{first + len(body.splitlines())}: {READS[body]}")


@pytest.mark.parametrize("body", LAWFUL)
def test_what_is_lawful_is_not_refused(tmp_path, body):
    write(tmp_path, body, "plain")
    load(str(tmp_path / "mine.py"))


HELPERS = {
    "@kernel()\ndef spoil(free):\n    free[0, 0] = 1\n": "spoil(state.free.nodes)",
    "@kernel()\ndef spoil(a, s):\n    s.free.nodes[0, 0] = a\n": "spoil(1, s=state)",
    "@kernel()\ndef inner(x):\n    x[0, 0] = 1\n@kernel()\ndef spoil(r):\n    inner(r.nodes)\n": "spoil(state.free)",
    "@kernel()\ndef nodes(state):\n    return state.free.nodes\n": "nodes(state)[0, 0] = 1",
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("helper", HELPERS)
def test_a_helper_is_followed(tmp_path, monkeypatch, helper, how):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, HELPERS[helper], how, before=helper)
    with pytest.raises(PolicyError, match=r"^mine\.py:\d+: .*state\.free\.nodes\[0, 0\], which is read-only"):
        load("mine.py")


def test_a_helper_in_a_file_beside_it_is_followed(tmp_path):
    (tmp_path / "beside.py").write_text("def spoil(state):\n    state.now = 3\n")
    write(tmp_path, "beside.spoil(state)", "plain", before="import beside\n\n")
    with pytest.raises(PolicyError, match=r"beside\.py:2: state\.now is read-only"):
        load(str(tmp_path / "mine.py"))


def test_what_is_no_verb_is_not_called(tmp_path):
    write(tmp_path, "take(state, 0, -1)", "plain", before="from backfill.core.runs import take\n\n")
    with pytest.raises(PolicyError, match="take is not for policies; expected one of the verbs"):
        load(str(tmp_path / "mine.py"))


@pytest.mark.parametrize("verb", ["arrange_by", "arrange_waiting"])
def test_a_policy_that_sorts_says_so(tmp_path, verb):
    write(tmp_path, f"{verb}(state, 0, state.own.score)", "plain")
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("sorts=True, ", ""))
    with pytest.raises(PolicyError, match=rf"{verb} sorts the queue; expected @policy\('mine', sorts=True"):
        load(str(tmp_path / "mine.py"))


def test_what_the_check_cannot_follow_is_stopped_when_it_happens():
    class Hides:
        def __call__(self, state):
            rooms = [state.free]
            rooms[0].nodes[0, 0] = 3

    def hides(state):
        rooms = [state.free]
        rooms[0].nodes[0, 0] = 3

    message = rf"^{__file__}:\d+: policy \w+: this array is read-only"
    for policy in (Hides(), hides):
        with pytest.raises(PolicyError, match=message):
            bf.simulate(bf.generate(LOG), None, policy)


LOG = "lublin?jobs=20&cpus=16"


def test_a_function_given_in_python_is_checked():
    def careless(state):
        def spoil(room):
            room.nodes[0, 0] = 3

        spoil(state.free)

    class Careless:
        def __call__(self, state):
            self.helper(state)

        def helper(self, state):
            state.now = 3

    with pytest.raises(PolicyError, match=rf"{__file__}:\d+: room.nodes\[0, 0\] is state.free.nodes\[0, 0\], which"):
        bf.simulate(bf.generate(LOG), None, careless)
    with pytest.raises(PolicyError, match=rf"{__file__}:\d+: state.now is read-only"):
        bf.simulate(bf.generate(LOG), None, Careless())
    with pytest.raises(PolicyError, match=rf"{__file__}:\d+: state has no field 'walltime'"):
        bf.simulate(bf.generate(LOG), None, lambda state: state.walltime)


COMPILED = {  # what the types of compiled code refuse by themselves
    "state.now = 5": (1, "state.now {W}"),
    "state.queue.waiting -= 1": (1, "state.queue.waiting {W}"),
    "state.own.k = 2": (1, "state.own.k is a parameter, which no policy can change"),
    "state.own.seen = state.own.seen": (
        1, "state.own.seen cannot be replaced; assign its items: state.own.seen[0] = ... or state.own.seen[:] = ..."),
    "state.free.nodes[0, 0] += 1": (1, "this array {W}"),
    "flat = state.free.nodes.flat\nflat[0] = 1": (2, "this array {W}"),
    "np.fill_diagonal(state.free.nodes, 1)": (1, "this array {W}"),
    "x = np.ascontiguousarray(state.jobs.submit)\nx[0] = 1": (1, "np.ascontiguousarray {F}"),
    "for x in np.nditer(state.jobs.submit):\n    x[()] = 1": (1, "np.nditer {F}"),
    "some = [state.free.nodes]\nsome[0][0, 0] = 1": (2, "this array {W}"),
    "some = [each for each in (state.free.nodes,)]\nsome[0][0, 0] = 1": (1, "a list {F}"),
}  # fmt: skip
FORGETS = "drops the read-only flag of an array of the state; expected a copy, such as array.copy()"


def without_the_check(monkeypatch):
    monkeypatch.setattr("backfill.loading.check_policy", lambda *_: None)


@pytest.mark.skipif(jit.PLAIN, reason="needs the compiler")
@pytest.mark.parametrize("body", COMPILED)
def test_compiled_code_refuses_it_without_the_check_too(tmp_path, monkeypatch, body):
    monkeypatch.chdir(tmp_path)
    without_the_check(monkeypatch)
    line, message = COMPILED[body]
    (tmp_path / "mine.py").write_text("# another file was here before\n")
    linecache.getlines("mine.py")
    first = write(tmp_path, body, "compiled")
    with pytest.raises(PolicyError) as caught:
        load("mine.py")
    assert str(caught.value) == f"mine.py:{first + line}: {message.format(W=NOT_YOURS, F=FORGETS)}"


@pytest.mark.parametrize("body", ["state.now = 5", "state.queue.waiting = 0", "room = state.free\nroom.overheld = 1"])
def test_a_plain_pass_is_stopped_at_the_field_without_the_check_too(tmp_path, monkeypatch, body):
    monkeypatch.chdir(tmp_path)
    without_the_check(monkeypatch)
    write(tmp_path, body, "plain")
    with pytest.raises(PolicyError, match=rf"^mine\.py:\d+: policy mine: state\.[a-z.]+ {NOT_YOURS}$"):
        bf.simulate(bf.generate(LOG), None, "mine.py")


@pytest.mark.skipif(jit.PLAIN, reason="needs the compiler")
def test_what_the_compiler_does_not_know_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "np.add(1.0, 2.0, out=state.own.score)", "compiled")
    with pytest.raises(
        PolicyError, match=r"^mine\.py:\d+: policy mine does not compile: unsupported keyword arguments"
    ):
        load("mine.py")
