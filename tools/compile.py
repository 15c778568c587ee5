"""Compile the core and all bundled policies on all cores, into the disk cache: python -m tools.compile."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

from backfill import policies
from backfill.compiler import jit
from backfill.compiler.far import address_of
from backfill.compiler.kernel import Apart, Kernel
from backfill.compiler.record import allocators
from backfill.core.plan import plan as future
from backfill.core.plan import profile, shadow
from backfill.policies import TABLE, get

Task = tuple[Callable[..., None], tuple[str, ...]]


def compile_loop() -> None:
    """Compile what every run needs: the loop, the world, the verbs of the simplest policy."""
    import backfill.worlds.simulated  # noqa: F401

    compile_module("fcfs")


def compile_records() -> None:
    """Compile the allocators of the records of the modules that are loaded."""
    for allocate in allocators:
        if not jit.PLAIN:
            allocate.compile(())


def compile_plans() -> None:
    """The kernels apart of plans and reservations, of which most policies need some."""
    load_all(profile, future, shadow)


def load_all(*modules: ModuleType) -> None:
    """The kernels apart of modules."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Apart):
                value.load()


def compile_far_calls() -> None:
    """Compile what is called by address: for announced windows, a file of events and planners of the live queue."""
    from backfill.core import entry, once
    from backfill.core.acts import do_act
    from backfill.core.plan.planned import book_start, fits, hold_place
    from backfill.core.transitions import do_again

    load_all(entry, once)
    do_again.load()
    for function in (do_act, fits, hold_place, book_start):
        address_of(function)


def compile_for_python() -> None:
    """What Python calls: the bounds, and together with compiled code a policy in plain Python, the world around it and
    an open State."""
    import backfill.analysis.squashed  # noqa: F401
    from backfill import verbs
    from backfill.core import loop, transitions, world

    for module in (verbs, loop, transitions, world):
        for value in vars(module).values():
            if isinstance(value, Kernel) and value.from_python:
                value.compile(value.signature())


def compile_module(module: str) -> None:
    """The policies of one module of backfill.policies."""
    for name in (name for name, where in TABLE.items() if where == module):
        _ = get(name).entry
    compile_records()


def _smallness(module: str) -> tuple[int, str]:
    """Return a key that sorts modules of policies by their length, the longest first."""
    folder = Path(str(policies.__file__)).parent
    files = [folder / f"{module}.py", *(folder / module).glob("*.py")]
    return -sum(file.stat().st_size for file in files if file.exists()), module


def compile_all(beside: Iterable[Task] = ()) -> None:
    """Compile it all, the largest modules first. Other tasks are done meanwhile."""
    modules: list[Task] = [(compile_module, (module,)) for module in sorted(set(TABLE.values()), key=_smallness)]
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for tasks in (
            [(compile_loop, ()), (compile_plans, ())],
            [(compile_far_calls, ()), (compile_for_python, ()), *beside, *modules],
        ):
            for done in [workers.submit(task, *arguments) for task, arguments in tasks]:
                done.result()


if __name__ == "__main__":
    compile_all()
