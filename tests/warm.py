"""Do once, on all cores, what tests that run side by side would each do: python -m tests.warm

All policies are compiled, and pytest keeps the tests as it rewrites them.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor

from backfill.compiler.far import address_of
from backfill.compiler.kernel import Apart
from backfill.core.plan import plan as future
from backfill.core.plan import profile, shadow
from backfill.policies import TABLE, get


def compile_loop() -> None:
    """What every run needs: the loop, the world, the verbs of the simplest policy."""
    import backfill.worlds.simulated  # noqa: F401

    compile_module("fcfs")


def compile_plans() -> None:
    """The kernels apart of plans and reservations, of which most policies need some."""
    for module in (profile, future, shadow):
        for value in vars(module).values():
            if isinstance(value, Apart):
                value.load()


def compile_far_calls() -> None:
    """What announced windows and a file of events need, which is called by address."""
    from backfill.core.acts import do_act
    from backfill.core.plan.planned import book_start, fits, hold_place
    from backfill.core.transitions import do_again

    do_again.load()  # which planners of the live queue call
    for function in (do_act, fits, hold_place, book_start):
        address_of(function)


def compile_module(module: str) -> None:
    """The policies of one module of backfill.policies."""
    for name in (name for name, where in TABLE.items() if where == module):
        _ = get(name).entry


def collect_tests() -> None:
    """Have pytest keep what it rewrites of each file. What cannot be collected, the run itself tells."""
    subprocess.run([sys.executable, "-m", "pytest", "--collect-only"], stdout=subprocess.DEVNULL, check=False)


def all_at_once(pool: Executor, tasks: dict[Callable[..., None], list[tuple[str, ...]]]) -> None:
    """Do the tasks side by side: each function with each of its lists of arguments."""
    for done in [pool.submit(task, *arguments) for task, given in tasks.items() for arguments in given]:
        done.result()


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        all_at_once(workers, {compile_loop: [()], compile_plans: [()]})
        modules = [(module,) for module in sorted(set(TABLE.values()))]
        all_at_once(workers, {compile_far_calls: [()], collect_tests: [()], compile_module: modules})
