"""A pool of a user's own file: FILE.py:NAME, a class that is made with a Given."""

from collections.abc import Callable
from pathlib import Path

from backfill.model.own import imported
from backfill.pools.base import Given, Pool
from backfill.queue.words import Unreadable


def load_pool(home: Path, text: str) -> Callable[[Given], Pool]:
    """The class that `pool` in config.toml names; a file in the folder of the queue, or an absolute path.

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
    except Exception as error:  # whatever a user's file does
        raise Unreadable(f"{file}: {type(error).__name__}: {error}") from None
    return found
