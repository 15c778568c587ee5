"""Tests of every policy take a share of them, another share for each test, and many take a share of their examples;
`make test-long` takes all.

A fault in a policy breaks many tests, and one in what all policies use shows under many of them.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def share(test: str, names: Iterable[str], of: int = 3) -> list[str]:
    """One of so many of these names, for this test; in the long run all."""
    return [name for name in names if LONG or crc32(f"{test} {name}".encode()) % of == 0]


def a_share(names: Iterable[str], of: int = 3) -> Callable[[Any], Any]:
    """Parametrize a test by `name`, with its share."""
    everyone = [*names]
    return lambda test: pytest.mark.parametrize("name", share(test.__qualname__, everyone, of))(test)


def seeds(count: int, here: int = 1) -> Any:
    """Parametrize a test by `seed`; all but the first ones are left to the long run."""
    return pytest.mark.parametrize("seed", range(count if LONG else here))


def examples(count: int) -> settings:
    """So many examples of a property in the long run, a quarter of them in others."""
    return settings(max_examples=count if LONG else count // 4, deadline=None)
