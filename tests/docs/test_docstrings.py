"""Everything public has a docstring with an example, and every example gives what it says."""

import doctest
import inspect
from functools import cached_property
from typing import Any

import pytest

import backfill as bf
from tests.queue.conftest import Live

MODULES = {"pandas": "pandas", "polars": "polars", "plot(": "matplotlib", "gantt(": "matplotlib", "optimum(": "ortools"}
MODULES |= {"QueueExecutor(": "cloudpickle"}


def public() -> dict[str, Any]:
    """Return what `help` shows by itself: each name of the package, and the methods and properties of its classes."""
    found = {name: getattr(bf, name) for name in bf.__all__}
    for name, value in list(found.items()):
        if inspect.isclass(value) and not issubclass(value, Exception):
            found |= {
                f"{name}.{each}": getattr(member, "__func__", member)
                for member_of in value.__mro__
                if member_of.__module__.startswith("backfill")
                for each, member in vars(member_of).items()
                if not each.startswith("_")
                and (callable(getattr(member, "__func__", member)) or isinstance(member, property | cached_property))
            }
    return found


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    """A queue for the examples that need one."""
    live = Live(tmp_path_factory.mktemp("queue"))
    yield live
    live.run("serve", "--stop", check=None)


@pytest.mark.parametrize("name", public())
def test_the_example_of(name, tmp_path, monkeypatch, request):
    about = inspect.getdoc(public()[name]) or ""
    assert ">>> " in about, "no example"
    for word, module in MODULES.items():
        if word in about:
            pytest.importorskip(module)
    if name.partition(".")[0] in ("Queue", "Job", "QueueExecutor"):
        for variable, value in request.getfixturevalue("queue").env.items():
            monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    test = doctest.DocTestParser().get_doctest(about, {}, name, None, 0)
    printed: list[str] = []
    assert doctest.DocTestRunner().run(test, out=printed.append).failed == 0, "".join(printed)
    if "plot(" in about or "gantt(" in about:
        import matplotlib.pyplot as plt

        plt.close("all")
