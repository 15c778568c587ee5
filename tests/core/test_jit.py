"""Compiled code is kept where an edit to any of its sources is seen, and is never the price of a read-only disk."""

import multiprocessing
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import pytest
from numba.core.bytecode import FunctionIdentity

from backfill.compiler import jit
from tests.forks import Forks

posix = pytest.mark.skipif(os.name != "posix", reason="needs limits of a process, symbolic links or fork")
STAND_IN = {
    "__init__.py": "",
    "core/__init__.py": "",
    "core/helper.py": """
from backfill.compiler.kernel import apart, kernel

@kernel()
def answer():
    return 41

@apart()
def scaled(number, by):
    return answer() * by + number
""",
    "core/caller.py": """
from numba import int64
from backfill.compiler import jit
from backfill.core import helper
from backfill.compiler.kernel import kernel

@kernel(int64)
def ask():
    return helper.scaled(by=1, number=0)

hits = sum(sum(each.stats.cache_hits.values()) for each in (ask, helper.scaled))
print(ask(), "warm" if jit.WARM else "cold", hits)
""",
}
RECORDS = {
    "core/state.py": """
from numba import int64
from backfill.compiler.record import record

Pair, PairT = record("Pair", [("first", int64), ("second", int64)], globals())
State, StateT = record("State", [("pair", PairT)], globals())
""",
    "core/caller.py": """
from backfill.compiler import jit
from backfill.compiler.kernel import apart
from backfill.core.state import Pair, State

@apart()
def ask(state):
    return state.pair.second

answer = ask(State(pair=Pair(first=40, second=41)))
print(answer, "warm" if jit.WARM else "cold", sum(ask.stats.cache_hits.values()))
""",
}


@pytest.fixture
def package(tmp_path):
    """A package with the real cache and decorators: a kernel calls one apart in another file, and that a helper."""
    root = tmp_path / "backfill"
    (root / "core").mkdir(parents=True)
    (root / "compiler").mkdir()
    (root / "policies").mkdir()
    for name in ("jit", "kernel", "linked", "users", "kept", "stamps"):
        shutil.copy(jit.PACKAGE / "compiler" / f"{name}.py", root / "compiler")
    for name, text in STAND_IN.items():
        (root / name).write_text(text)
    return root


SCRIPT = """
import sys, numba
sys.dont_write_bytecode = True  # an edit of one byte within a second would not be seen
numba.config.reload_config()
{before}
import backfill.core.caller
"""


@pytest.fixture(scope="module")
def processes():
    with closing(Forks("numba")) as forks:
        yield forks


@pytest.fixture
def run(processes, tmp_path):
    """Runs the caller in a process of its own, which does something before: what it prints, and says on stderr."""
    script = tmp_path / "script.py"

    def run(package, cache, before=""):
        script.write_text(SCRIPT.format(before=before))
        environment = os.environ | {"BACKFILL_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
        done = processes.run([str(script)], package.parent, environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    return run


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_key_of_the_cache_changes_with_one_byte_of_the_compilers_part_alone(tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(jit.PACKAGE, root, ignore=shutil.ignore_patterns("__pycache__"))
    assert jit.key(root) == jit.key()
    edit(root / "core" / "verbs.py", "state", "State")
    assert jit.key(root) == jit.key()
    edit(root / "compiler" / "view.py", "state", "State")
    assert jit.key(root) != jit.key()


def test_a_new_process_takes_what_another_compiled(run, package, tmp_path):
    assert run(package, tmp_path / "cache")[0] == ["41", "cold", "0"]
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "2"]


def test_a_package_that_is_installed_elsewhere_takes_what_the_same_sources_compiled(run, package, tmp_path):
    run(package, tmp_path / "cache")
    moved = shutil.copytree(package, tmp_path / "elsewhere" / "backfill", copy_function=shutil.copyfile)
    assert run(moved, tmp_path / "cache")[0] == ["41", "warm", "2"]


def test_an_edited_helper_is_seen_though_the_file_of_its_caller_is_as_before(run, package, tmp_path):
    run(package, tmp_path / "cache")
    edit(package / "core" / "helper.py", "41", "42")
    assert run(package, tmp_path / "cache")[0] == ["42", "warm", "1"]
    edit(package / "core" / "helper.py", "42", "41")  # what was compiled before is still there
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "2"]


@pytest.mark.parametrize(
    "after", ["    return 41  # a comment", '    "A docstring."\n    return 41', "    return 41\n\nOTHER = 1"]
)
def test_an_edit_that_changes_no_code_compiles_nothing(run, package, tmp_path, after):
    run(package, tmp_path / "cache")
    edit(package / "core" / "helper.py", "    return 41", after)
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "2"]


def test_a_constant_of_another_module_counts(run, package, tmp_path):
    edit(package / "core" / "helper.py", "    return 41", "    return limits.MOST[0]")
    edit(package / "core" / "helper.py", "\n@kernel", "\nfrom backfill.core import limits\n\n@kernel")
    (package / "core" / "limits.py").write_text("import numpy as np\nMOST, LEAST = np.array([41, 1]), 0\n")
    assert run(package, tmp_path / "cache")[0] == ["41", "cold", "0"]
    edit(package / "core" / "limits.py", "0", "1")
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "2"]
    edit(package / "core" / "limits.py", "[41, 1]", "[42, 1]")
    assert run(package, tmp_path / "cache")[0] == ["42", "warm", "1"]


def test_where_the_fields_of_a_record_lie_counts_also_of_one_in_another(run, package, tmp_path):
    for name in ("items", "record", "pointer"):
        shutil.copy(jit.PACKAGE / "compiler" / f"{name}.py", package / "compiler")
    for name, text in RECORDS.items():
        (package / name).write_text(text)
    assert run(package, tmp_path / "cache")[0] == ["41", "cold", "0"]
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "1"]
    edit(package / "core" / "state.py", '("first", int64), ("second", int64)', '("second", int64), ("first", int64)')
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "0"]
    edit(package / "core" / "state.py", '("first", int64)], globals()', '("first", int64)], globals(), fixed=["first"]')
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "0"]


def test_a_caller_is_kept_when_a_kernel_apart_that_it_calls_is_compiled_anew(run, package, tmp_path):
    run(package, tmp_path / "cache")
    edit(package / "core" / "helper.py", "* by + number", "* by + number + 1")
    assert run(package, tmp_path / "cache")[0] == ["42", "warm", "1"]


@posix
def test_where_the_cache_cannot_be_written_all_is_compiled_in_memory_and_that_is_said_once(run, package, tmp_path):
    a_file = tmp_path / "file"
    a_file.write_text("")
    printed, said = run(package, a_file / "below")
    assert printed == ["41", "cold", "0"]
    assert said.count("RuntimeWarning") == 1
    assert "cannot be written (Not a directory)" in said
    assert "set BACKFILL_CACHE_DIR" in said


@pytest.mark.parametrize("harm", ["truncated", "flipped", pytest.param("emptied", marks=pytest.mark.long)])
def test_what_is_damaged_is_named_and_compiled_anew(run, package, tmp_path, harm):
    run(package, tmp_path / "cache")
    for file in (tmp_path / "cache").rglob("*.nbc"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes({"truncated": content[: len(content) // 2], "flipped": content, "emptied": b""}[harm])
    out, said = run(package, tmp_path / "cache")
    assert out == ["41", "warm", "0"]
    assert str(tmp_path / "cache") in said
    assert "it is damaged; the compiled code kept there is discarded and compiled again" in said
    assert run(package, tmp_path / "cache") == (["41", "warm", "2"], "")


@pytest.fixture
def shipped(run, package, tmp_path, monkeypatch):
    """The folder of code that the package carries, compiled for a class of processors."""
    name = next(iter(jit.portable()), None)
    if name is None:
        pytest.skip("a processor of none of the classes for which code is shipped")
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CPU_NAME", name)
        patch.setenv("NUMBA_CPU_FEATURES", "")
        run(package, tmp_path / "made")
    shutil.copytree(tmp_path / "made" / "jit", package / "compiled")
    return package / "compiled"


def test_what_a_package_carries_is_not_compiled(run, package, shipped, tmp_path, monkeypatch):
    assert run(package, tmp_path / "cache") == (["41", "warm", "2"], "")
    assert not [*(tmp_path / "cache").rglob("*.nbc")]
    assert run(package, package / "core" / "helper.py" / "below")[0] == ["41", "warm", "2"]  # a cache that is no folder
    monkeypatch.setenv("BACKFILL_NATIVE", "1")
    assert run(package, tmp_path / "cache")[0] == ["41", "cold", "0"]
    monkeypatch.delenv("BACKFILL_NATIVE")
    edit(package / "core" / "helper.py", "41", "42")
    assert run(package, tmp_path / "cache")[0] == ["42", "warm", "1"]


def test_what_a_package_carries_for_another_compiler_or_processor_is_not_used(run, package, shipped, tmp_path):
    (folder,) = shipped.iterdir()
    folder.rename(shipped / "another")
    assert run(package, tmp_path / "cache")[0] == ["41", "cold", "0"]


def test_what_a_package_carries_and_is_damaged_is_named_and_compiled(run, package, shipped, tmp_path):
    for file in shipped.rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:-1])
    out, said = run(package, tmp_path / "cache")
    assert out == ["41", "warm", "0"]
    assert str(shipped) in said
    assert "it is damaged; the compiled code that came with backfill is not used" in said
    assert run(package, tmp_path / "cache") == (["41", "warm", "2"], "")


@posix
def test_where_the_disk_is_full_all_is_compiled_in_memory_and_that_is_said(run, package, tmp_path):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    out, said = run(package, tmp_path / "cache", full)
    assert out == ["41", "cold", "0"]
    assert "compiled code cannot be kept for the next run" in said
    assert not list((tmp_path / "cache").rglob("*.tmp.*"))


def test_what_nobody_used_for_long_is_removed_when_something_new_is_kept(run, package, tmp_path):
    run(package, tmp_path / "cache")
    old, other = tmp_path / "cache" / "jit" / "old" / "core", tmp_path / "cache" / "jit" / "other"
    for folder in (old, other):
        folder.mkdir(parents=True)
        (folder / "one.nbc").write_bytes(b"")
    long_ago = time.time() - jit.FORGET_S - 60
    kept = [*(tmp_path / "cache").rglob("*.nbc")]
    for path in kept:
        if path.parent != other:
            os.utime(path, (long_ago, long_ago))
    assert run(package, tmp_path / "cache")[0] == ["41", "warm", "2"]  # it is used again
    assert old.exists()
    edit(package / "core" / "helper.py", "41", "42")
    run(package, tmp_path / "cache")
    assert not old.parent.exists()
    used = {path for path in kept if "scaled" in path.name or "ask" in path.name or path.parent == other}
    assert len(used) == 3
    assert used <= {*(tmp_path / "cache").rglob("*.nbc")}


@posix
def test_that_another_process_removes_it_first_is_no_error(tmp_path):
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # is listed, and cannot be looked at
    jit.remove_old(tmp_path)


def number() -> int:
    return FunctionIdentity.from_function(number).unique_id


@posix
def test_processes_number_what_they_compile_apart_and_a_copy_of_one_does_too():
    mine = number()
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert abs(pool.submit(number).result() - mine) > 2**32
