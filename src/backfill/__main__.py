"""The console entry point.

It loads nothing that the verbs of the live queue do not need, so that they answer at once.
"""

import os
import sys

if __name__ == "__main__" and sys.path and not sys.flags.safe_path and os.path.isdir(sys.path[0] or "."):
    del sys.path[0]  # `python -m backfill` puts the working folder there: a user's json.py would hide the real one

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process; return its exit code."""
    try:
        return _run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are imported; verbs handle their own
        return _interrupted()
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python and typer make other errors of it
            return _interrupted()
        raise


def _run(words: list[str]) -> int:
    from backfill.client.options import VERBS

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may contain characters that the terminal lacks
            stream.reconfigure(errors="replace")
    if words and words[0] in VERBS:
        from backfill.client.client import main as queue

        return queue(words)
    from backfill.cli import main as others

    return others(words)


def _interrupted() -> int:
    print("backfill: interrupted", file=sys.stderr)
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
