"""Imports point one way, the core never touches the outside, and `--help` loads nothing heavy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import backfill
from tests.patience import PATIENCE_S

ROOT = Path(backfill.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
CHECKER = [*sorted((ROOT / "analysis" / "verify").rglob("*.py")), ROOT / "analysis" / "outages.py"]

# part -> the other parts it may import. A part is a folder or a module at the top, or the package itself.
BELOW = {"loading", "walls", "analysis", "worlds", "workloads", "traces", "policies", "core", "model", "data"}
ARROWS: dict[str, set[str]] = {
    "cli": {
        "estimate_sweep",
        "comparison",
        "runs",
        "executors",
        "api",
        "spec",
        "report",
        "papers",
        "queue",
        "packaged",
        "jit",
        *BELOW,
    },
    "papers": {"executors", "api", "spec", "report", *BELOW},
    "queue": {"loading", "packaged", "policies", "worlds", "traces", "core", "model", "jit"},
    "package": {"estimate_sweep", "comparison", "api", *BELOW},
    "estimate_sweep": {"comparison", "executors", "spec", "report", *BELOW},
    "comparison": {"runs", "executors", "api", "spec", "report", *BELOW},
    "runs": {"executors", "api", "spec", *BELOW},
    "executors": {"model"},
    "api": {"spec", "report", *BELOW},
    "report": BELOW,
    "verbs": {"core"},
    "spec": {"loading", "walls", "worlds", "analysis", "traces", "core", "model"},
    "loading": {"walls", "packaged", "policies", "core", "model", "kept", "jit"},
    "packaged": {"policies", "model"},
    "walls": {"verbs", "core", "model", "jit"},
    "worlds": {"policies", "core", "model"},
    "policies": {"core", "model"},
    "core": {"model", "kept", "jit"},
    "analysis": {"model"},
    "workloads": {"model"},
    "traces": {"model", "data"},
    "model": set(),
    "kept": {"jit"},
    "jit": set(),
    "data": set(),
}
SAME = {"__init__": "package", "__main__": "cli"}
# Upward all the same, at the call and not before: a class whose constructors read tables.
CONSTRUCTORS = {("model/workload.py", f"backfill.traces.frames.from_{kind}") for kind in ("pandas", "polars", "arrays")}

OUTSIDE = {"time", "random", "os", "threading", "pathlib", "subprocess"}
HEAVY = {"numba", "polars", "jinja2", "pydantic", "matplotlib"}


def imported(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, wherever in the file it does so."""
    package = ["backfill", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    name = path.relative_to(ROOT).with_suffix("").parts[0]
    return SAME.get(name, name)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path):
    part = part_of(path)
    assert part in ARROWS, f"say in ARROWS what {part} may import"
    for name in set(imported(path)):
        if (name_of(path), name) in CONSTRUCTORS:
            continue
        top, *rest = name.split(".")
        if top == "backfill" and rest and rest[0] != part:
            other = rest[0] if rest[0] in ARROWS else "api"
            assert other == part or other in ARROWS[part], f"{name_of(path)} imports {name}"


@pytest.mark.parametrize("path", [p for p in FILES if part_of(p) in ("core", "policies")], ids=name_of)
def test_core_and_policies_never_touch_clock_files_or_processes(path):
    tops = {name.split(".")[0] for name in imported(path)}
    assert not tops & OUTSIDE


@pytest.mark.parametrize("path", CHECKER, ids=name_of)
def test_the_checker_knows_nothing_but_numpy_and_the_model(path):
    for name in imported(path):
        top, own = name.split(".")[0], name.startswith(("backfill.analysis.outages.", "backfill.analysis.verify."))
        assert own or top == "numpy" or name.startswith("backfill.model.") or top in sys.stdlib_module_names, name


@pytest.mark.parametrize(
    "code",
    [
        "import backfill",
        "import backfill.cli",
        "import sys; sys.argv = ['backfill', '--help']; from backfill.cli import main; main()",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code):
    watch = f"import atexit, sys; atexit.register(lambda: print({HEAVY!r} & set(sys.modules), file=sys.stderr)); "
    done = subprocess.run([sys.executable, "-c", watch + code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr.strip()) == (0, "set()")
