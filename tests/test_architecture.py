"""Imports point one way, the core never touches the outside, and `--help` loads nothing heavy."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import backfill
from tests.patience import PATIENCE_S

ROOT = Path(backfill.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
CHECKER = [*sorted((ROOT / "analysis" / "verify").rglob("*.py")), ROOT / "analysis" / "outages.py"]

# part -> the other parts it may import. A part is a folder or a module at the top, or the package itself.
BELOW = {
    "loading",
    "walls",
    "analysis",
    "worlds",
    "workloads",
    "traces",
    "policies",
    "core",
    "compiler",
    "model",
    "data",
}
ARROWS: dict[str, set[str]] = {
    "cli": {
        "merging",
        "estimate_sweep",
        "pool_report",
        "gang_run",
        "comparison",
        "distances",
        "settings",
        "optima",
        "shards",
        "saved_runs",
        "runs",
        "executors",
        "streams",
        "api",
        "spec",
        "report",
        "papers",
        "client",
        "daemon",
        "answers",
        "pools",
        "queue",
        "system",
        "packaged",
        *BELOW,
    },
    "papers": {"gang_run", "executors", "api", "spec", "report", "analysis", "workloads", "traces", "model"},
    "client": {"daemon", "answers", "pools", "queue", "system", "traces", "model", "compiler", "loading"},
    "web": {"client", "daemon", "answers", "report", "analysis", "queue", "system", "traces", "model"},
    "daemon": {"answers", "worlds", "pools", "queue", "system", "packaged", "policies", "model"},
    "answers": {"worlds", "analysis", "queue", "system", "loading", "core", "model"},
    "pools": {"queue", "system", "traces", "model"},
    "queue": {"pools", "system", "model"},
    "system": set(),
    "package": {"client", "merging", "estimate_sweep", "comparison", "shards", "optima", "streams", "api", *BELOW},
    "merging": {"estimate_sweep", "comparison", "saved_runs"},
    "estimate_sweep": {"comparison", "shards", "saved_runs", "runs", "executors", "spec", "report", *BELOW},
    "pool_report": {"comparison", "executors", "api", "spec", "report", *BELOW},
    "gang_run": {"worlds", "pools", "queue", "model"},
    "comparison": {"distances", "settings", "shards", "runs", "executors", "api", "spec", "report", *BELOW},
    "shards": {"saved_runs", "runs", "executors", "api", "spec", *BELOW},
    "saved_runs": {"runs", "api", "report", "spec", *BELOW},
    "distances": {"optima", "executors", "api", "spec", *BELOW},
    "settings": {"executors", "api", "spec", *BELOW},
    "optima": {"executors", "api", "spec", *BELOW},
    "runs": {"executors", "api", "spec", *BELOW},
    "executors": {"model"},
    "streams": {"api", "spec", "report", "system", *BELOW},
    "api": {"spec", "report", *BELOW},
    "report": BELOW,
    "verbs": {"policies", "core", "compiler"},
    "spec": {"loading", "walls", "worlds", "analysis", "traces", "core", "model"},
    "loading": {"walls", "packaged", "policies", "core", "compiler", "model"},
    "packaged": {"policies", "model"},
    "walls": {"verbs", "core", "compiler", "model"},
    "worlds": {"loading", "queue", "policies", "core", "compiler", "model"},
    "policies": {"core", "compiler", "model"},
    "core": {"compiler", "model"},
    "compiler": {"core", "model"},
    "analysis": {"compiler", "model"},
    "workloads": {"model"},
    "traces": {"model", "data"},
    "model": set(),
    "data": set(),
}
SAME = {"__init__": "package", "__main__": "cli"}
# Upward all the same, at the call and not before: a class whose constructors read tables; and what a queue needs only
# if it has a platform, as it takes numpy.
UPWARD = {("model/workload.py", f"backfill.traces.frames.from_{kind}") for kind in ("pandas", "polars", "arrays")}
UPWARD |= {("queue/commands.py", f"backfill.worlds.possible.{name}") for name in ("check", "default_walltime")}
UPWARD |= {("client/client.py", "backfill.web.process.serve")}  # which needs the extra
UPWARD |= {("client/plan.py", "backfill.web.offline.page")}  # the chart of the page
UPWARD |= {("queue/engine.py", "backfill.worlds.workload.parsed")}

LAYOUT = ROOT.parents[1] / "docs" / "architecture.md"
OUTSIDE = {"time", "random", "os", "threading", "pathlib", "subprocess"}
HEAVY = {"numba", "polars", "jinja2", "pydantic", "matplotlib", "ortools"}


@cache
def imported(path: Path, text: str = "") -> list[str]:
    """Full names of all that a file imports, wherever in the file it does so. text: what stands in it, if not all."""
    return [*_imported(path, ast.parse(text or path.read_text(encoding="utf-8")))]


def _imported(path: Path, tree: ast.Module) -> Iterator[str]:
    package = ["backfill", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(tree):
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
        if (name_of(path), name) in UPWARD:
            continue
        top, *rest = name.split(".")
        if top == "backfill" and rest and rest[0] != part:
            other = rest[0] if rest[0] in ARROWS else "api"
            assert other == part or other in ARROWS[part], f"{name_of(path)} imports {name}"


def test_papers_import_only_what_the_documentation_offers_to_other_packages():
    section = LAYOUT.read_text(encoding="utf-8").partition("## What other packages may import")[2].partition("\n## ")[0]
    offered = set(re.findall(r"`(backfill[\w.]*)`", section))
    for module in offered:
        assert find_spec(module), f"docs/architecture.md offers {module}, which does not exist"
    for path in (path for path in FILES if part_of(path) == "papers"):
        for name in imported(path):
            if name.split(".")[0] == "backfill" and not name.startswith("backfill.papers"):
                module, _, what = name.rpartition(".")
                assert module in offered, f"{name_of(path)} imports {name}, which is private"
                assert what == "__version__" or not what.startswith("_"), f"{name_of(path)} imports {name}"


def test_only_the_verb_that_runs_papers_imports_them():
    users = {name_of(path) for path in FILES for name in imported(path) if name.startswith("backfill.papers")}
    assert {user for user in users if not user.startswith("papers/")} == {"cli/reproduce.py", "cli/reproduce_pool.py"}


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


# Modules that import each other, of which one does so when it is called: classes whose constructors read files.
CIRCLES = [
    {"model.workload", "model.precedence", "model.schedule", "traces.columns", "traces.dates", "traces.demand"}
    | {"traces.fixed", "traces.frames", "traces.notes", "traces.seconds", "traces.table"},
    {"model.platform", "model.platform_file"},
]


def test_no_modules_import_each_other_but_for_those_that_are_listed():
    assert sorted(map(sorted, circles(arrows()))) == sorted(map(sorted, CIRCLES))


def test_a_planner_loads_nothing_of_the_log():
    found, todo = set(), ["worlds.aside"]
    known = arrows()
    while todo:
        if (one := todo.pop()) not in found:
            found.add(one)
            todo += known[one]
    assert "queue.protocol" in found
    assert not found & {"queue.events", "queue.book", "queue.store"}  # which would take a tenth of its time to load


@cache
def arrows() -> dict[str, set[str]]:
    """The modules that each module imports."""
    module = {path: name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in FILES}
    modules, found = {*module.values()}, {}
    for path in FILES:
        named = {name.removeprefix("backfill.") for name in needed(path) if name.startswith("backfill.")}
        whole = {name if name in modules else name.rpartition(".")[0] for name in named}
        found[module[path]] = (whole & modules) - {module[path]}
    return found


def needed(path: Path) -> list[str]:
    """Return what a file imports when it runs, not only for those who check types."""
    whole = path.read_text(encoding="utf-8")
    text = re.sub(r"^if TYPE_CHECKING:.*?(?=^\S)", "", whole, flags=re.MULTILINE | re.DOTALL)
    return imported(path, "" if text == whole else text)


def circles(arrows: dict[str, set[str]]) -> Iterator[set[str]]:
    """The sets of modules each of which leads to all others of its set."""
    reach = {one: {*some} for one, some in arrows.items()}
    for through in reach:
        for one in reach:
            if through in reach[one]:
                reach[one] |= reach[through]
    seen: set[str] = set()
    for one in sorted(reach):
        if one in reach[one] and one not in seen:
            yield (ring := {other for other in reach[one] if one in reach[other]})
            seen |= ring


PLACEHOLDERS = {"FILE.py", "NAME.py", "file.py", "shells.py"}  # in texts about files of a user


def test_modules_that_texts_name_exist():
    root = ROOT.parents[1]
    there = {path.relative_to(root).as_posix() for path in (*FILES, *root.glob("tests/**/*.py"))}
    pages = {path: path.read_text(encoding="utf-8") for path in (LAYOUT, root / "CONTRIBUTING.md")}
    for path, text in {**{path: words(path) for path in FILES}, **pages}.items():
        for name in re.findall(r"(?<![\w./*-])(?:\w+/)*\w+\.py\b", text):
            exists = any(f"/{each}".endswith(f"/{name}") for each in there)
            standard = name.removesuffix(".py") in sys.stdlib_module_names
            assert exists or standard or name.rpartition("/")[2] in PLACEHOLDERS, f"{path} names {name}"


def words(path: Path) -> str:
    """The docstrings and comments of a file."""
    text = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return "\n".join([*found, *re.findall(r"# .*", text)])


def test_the_layout_sends_nobody_to_decisions_that_were_replaced():
    table = (LAYOUT.parent / "decisions" / "README.md").read_text(encoding="utf-8")
    clauses = re.findall(r"replaces [^;|]*", table)
    replaced = {number for clause in clauses for number in re.findall(r"\d{4}", clause)}
    assert "0024" in replaced
    assert not replaced & {*re.findall(r"decisions/(\d{4})", LAYOUT.read_text(encoding="utf-8"))}


def test_one_module_makes_pools_by_their_names_and_the_daemon_names_none():
    daemon = (ROOT / "daemon" / "daemon.py").read_text(encoding="utf-8")
    hosting = (ROOT / "daemon" / "hosting.py").read_text(encoding="utf-8")
    for name in ("LocalPool", "FakePool", "WatchedPool", "reader_of", "load_pool"):
        assert name not in daemon
        assert name in hosting


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) in ("queue", "daemon")], ids=name_of)
def test_engine_and_daemon_know_of_pools_only_the_seam(path):
    if name_of(path) == "daemon/hosting.py":
        return
    known = {name.rpartition(".")[0] for name in imported(path) if name.startswith("backfill.pools")}
    assert known <= {"backfill.pools.base"}
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(get|has|set)attr\([\w.]*pool\b", text), "an attribute of pools that is in no protocol"
