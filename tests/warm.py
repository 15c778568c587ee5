"""Compile every policy once, on all cores, before tests that run side by side would all do it: python -m tests.warm"""

import os
from concurrent.futures import ProcessPoolExecutor

from backfill.core.far import address_of
from backfill.policies import TABLE, get


def compile_module(module: str) -> None:
    """The policies of one module of backfill.policies."""
    for name in (name for name, where in TABLE.items() if where == module):
        _ = get(name).entry
    import backfill.worlds.simulated  # noqa: F401

    if module == "fcfs":
        compile_far_calls()


def compile_far_calls() -> None:
    """What announced windows and a file of events need, which is called by address."""
    from backfill.core.acts import do_act
    from backfill.core.planned import book_start, fits, hold_place

    for function in (do_act, fits, hold_place, book_start):
        address_of(function)


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_module, sorted(set(TABLE.values()), key=["conservative", "easy"].count, reverse=True)))
