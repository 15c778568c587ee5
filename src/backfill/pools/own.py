"""A pool from a user's own file: FILE.py:NAME, a class that is constructed with a Given."""

from collections.abc import Callable
from pathlib import Path

from backfill.model.own import imported
from backfill.pools.base import Given, Pool
from backfill.queue.words import Unreadable


def load_pool(home: Path, text: str) -> Callable[[Given], Pool]:
    """Return the class that `pool` in config.toml names; its file is relative to the folder of the queue, or absolute.

    Raises Unreadable.
    """
    path, _, name = text.rpartition(":")
    file = home / path
    expected = "expected FILE.py:NAME of a class"
    if not path.endswith(".py"):
        raise Unreadable(f"pool is {text!r}; {expected}")
    try:
        found: Callable[[Given], Pool] = getattr(imported(file, "pool"), name)
    except AttributeError:
        raise Unreadable(f"{file}: there is no {name}; {expected}") from None
    except Exception as error:  # errors in a user's file can be of any kind
        raise Unreadable(f"{file}: {type(error).__name__}: {error}") from None
    return found
