"""A policy file is read, imported and compiled once for each content."""

import os
from collections import Counter
from pathlib import Path

import pytest
from numba.core.event import install_recorder

import backfill as bf
from backfill import loading
from backfill.compiler import jit, kept
from backfill.loading import choose, is_kept, load
from backfill.model.errors import PolicyError, UsageError
from backfill.spec import RunSpec

TWO = """import os
from pathlib import Path
from backfill import Param, policy
from backfill.verbs import HEAD, head, place, start
from helpers import WAITING

with open(Path(__file__).with_name("imported"), "a") as out:
    out.write(f"{os.getpid()}\\n")

def _first(state):
    while state.queue.waiting >= WAITING and head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)

@policy("one", compiled=False, params={"k": Param(1, 0, 9)})
def one(state):
    _first(state)

@policy("two", compiled=False, settable=("order",))
def two(state):
    _first(state)
"""

COMPILED = """from backfill import policy
from backfill.verbs import BACKFILL, HEAD, candidate, head, kernel, place, place_beside
from backfill.verbs import reserve, rewind, shadow_time, start, use_extra

@kernel()
def longest(state):
    return state.jobs.walltime[:].max()

@policy("mine")
def mine(state):
    while head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)
    if head(state) >= 0 and longest(state) > 0:
        shadow = shadow_time(state, head(state))
        reserve(state, head(state), t=shadow)
        rewind(state, 0)
        job = candidate(state, 0, shadow - state.now)
        if job >= 0 and place_beside(state, job, shadow - state.now):
            start(state, job, BACKFILL)
            use_extra(state, job=job)
"""


@pytest.fixture
def file(tmp_path):
    """A file of two policies that imports another one, and notes in which process it is imported."""
    (tmp_path / "helpers.py").write_text("WAITING = 1\n")
    (tmp_path / "mine.py").write_text(TWO)
    return tmp_path / "mine.py"


def imports(file: Path) -> list[str]:
    return file.with_name("imported").read_text().split()


def test_a_file_is_imported_once_whatever_is_asked_of_it(file):
    one, params = load(f"{file}:one:k=2")
    assert (load(f"{file}:one")[0], params) == (one, {"k": 2})
    two = load(f"{file}:two")[0]
    assert load(f"{file}:two:order=sjf")[0].decide is two.decide
    bf.compare(bf.generate("lublin?jobs=20&cpus=16"), None, [f"{file}:one", f"{file}:one:k=3", f"{file}:two"])
    assert imports(file) == [str(os.getpid())]


def test_an_edit_of_it_or_of_what_it_imports_is_seen_in_the_same_process(file):
    log = bf.generate("lublin?jobs=20&cpus=16")
    before = bf.simulate(log, None, f"{file}:one").metrics["mean_wait_s"]
    file.with_name("helpers.py").write_text("WAITING = 1 + (2 > 1)\n")
    with pytest.raises(PolicyError, match="never start"):  # the last one has no company
        bf.simulate(log, None, f"{file}:one")
    file.with_name("helpers.py").write_text("WAITING = 1\n")
    file.write_text(TWO + "\n# edited\n")
    assert bf.simulate(log, None, f"{file}:one").metrics["mean_wait_s"] == before
    assert len(imports(file)) == 3


def test_files_of_one_name_in_two_folders_have_their_own_helpers(file, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text(TWO)
    (other / "helpers.py").write_text("WAITING = 2\n")
    found = [load(f"{each}:one")[0].decide.__globals__["WAITING"] for each in (file, other / "mine.py", file)]
    assert found == [1, 2, 1]
    assert len(imports(file)) == 1


@pytest.mark.skipif(jit.PLAIN, reason="nothing is compiled")
def test_of_an_edited_policy_its_own_functions_alone_are_compiled(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(COMPILED)
    _ = load(str(file))[0].entry  # also what it calls, where that is not kept yet
    file.write_text(COMPILED + "# edited\n")
    with install_recorder("numba:compile") as recorded:
        _ = load(str(file))[0].entry
    assert {event.data["dispatcher"].__name__ for _, event in recorded.buffer} == {"mine", "longest"}


def test_the_package_is_cached_for_all_although_a_file_imports_it_first(tmp_path):
    own, ours = tmp_path / "mine.py", jit.PACKAGE / "core" / "plan" / "way.py"
    with loading._own_cache("0123456789abcdef"):
        places = {path: kept._Place(choose, str(path)).get_cache_path() for path in (own, ours)}
    assert Path(places[ours]) == jit.FOLDER / "core" / "plan"
    assert Path(places[own]).is_relative_to(jit.FOLDER / "own-0123456789abcdef")


def test_a_file_that_fails_is_tried_again(file):
    file.write_text("1 / 0\n")
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"mine\.py:1: ZeroDivisionError"):
            load(f"{file}:one")
    file.write_text(TWO)
    assert load(f"{file}:one")[0].name == "one"


def test_each_process_imports_a_file_once(file):
    log = bf.generate("lublin?jobs=40&cpus=16")
    chosen = [f"{file}:one", f"{file}:one:k=2", f"{file}:one:k=3", f"{file}:two", f"{file}:two:order=sjf"]
    here, there = (bf.compare(log, None, chosen, workers=workers) for workers in (1, 2))
    assert [each.metrics for each in here.results] == [each.metrics for each in there.results]
    count = Counter(imports(file))
    assert set(count.values()) == {1}
    assert 2 <= len(count) <= 3  # this process and one or two others


def test_an_answer_leaves_what_is_compiled_as_it_is():
    easy, _ = load("k-reservations")
    compiled = easy.entry
    assert choose(easy, {"order": "sjf"})[0].entry is compiled


def test_a_synonym_stands_for_an_answer():
    for text, tried in (("relaxed:pick=score", "wfp3"), ("relaxed:pick=submit", "fcfs")):
        found, left = load(text)
        assert (found.tried, left) == (tried, {})
        assert RunSpec.of("relaxed", {"pick": text[13:]}).non_defaults == {"tried": tried}
    with pytest.raises(UsageError, match=r"policy relaxed: pick is 'best'; expected submit or score"):
        load("relaxed:pick=best")
    with pytest.raises(UsageError, match=r"policy relaxed: pick=score contradicts tried=sjf; give one"):
        load("relaxed:pick=score,tried=sjf")


@pytest.mark.skipif(jit.PLAIN, reason="nothing is compiled")
def test_whether_a_policy_is_compiled_is_known_without_compiling_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(COMPILED + f"# of its own: {tmp_path}\n")
    assert not is_kept(str(file))
    load(str(file))
    assert is_kept(str(file))
    file.write_text(COMPILED + f"# edited: {tmp_path}\n")
    assert not is_kept(f"{file}:mine")
    _ = load("fcfs")[0].entry
    assert is_kept("fcfs")
    with pytest.raises(UsageError, match="easi"):
        is_kept("easi")
    with pytest.raises(UsageError, match="cannot be read"):
        is_kept("nowhere.py")
