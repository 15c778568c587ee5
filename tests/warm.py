"""Compile every policy once, on all cores, before tests that run side by side would all do it: python -m tests.warm"""

import os
from concurrent.futures import ProcessPoolExecutor

from backfill.policies import TABLE, get


def compile_module(module: str) -> None:
    """The policies of one module of backfill.policies."""
    for name in (name for name, where in TABLE.items() if where == module):
        _ = get(name).entry
    import backfill.worlds.simulated  # noqa: F401


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_module, sorted(set(TABLE.values()), key=["conservative", "easy"].count, reverse=True)))
