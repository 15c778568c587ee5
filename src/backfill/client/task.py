"""A job of a QueueExecutor: call a pickled function and store its result: python -m backfill.client.task FOLDER"""

import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

TASK, RESULT = "{}.task", "{}.result"


class RemoteTraceback(Exception):
    """The traceback of an exception in the process where it was raised."""


def keep(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    os.replace(part, path)


def run(folder: Path, index: int) -> bool:
    """Run one task, and store (True, its value) or (False, (the exception, its traceback)). Return which one."""
    import cloudpickle

    result: tuple[bool, Any]
    try:
        function, arguments, keywords = pickle.loads((folder / TASK.format(index)).read_bytes())
        result = True, function(*arguments, **keywords)
        content = cloudpickle.dumps(result)
    except Exception as error:
        result = False, (error, traceback.format_exc())
        try:
            content = cloudpickle.dumps(result)
            pickle.loads(content)  # an exception whose class wants other arguments could not be read
        except Exception:
            content = cloudpickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), result[1][1])))
    keep(folder / RESULT.format(index), content)
    return result[0]


if __name__ == "__main__":
    sys.exit(0 if run(Path(sys.argv[1]), int(os.environ.get("BACKFILL_ARRAY_INDEX") or 0)) else 1)
