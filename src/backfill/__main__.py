"""The console entry point.

It loads nothing that the verbs of the live queue do not need, so that they answer at once.
"""

import os
import sys

if __name__ == "__main__" and sys.path and not sys.flags.safe_path and os.path.isdir(sys.path[0] or "."):
    del sys.path[0]  # `python -m backfill` puts the working folder there: a user's json.py would hide the real one

from backfill.client.options import VERBS


def main() -> int:
    """Run the command line of this process; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may contain characters that the terminal lacks
            stream.reconfigure(errors="replace")
    words = sys.argv[1:]
    if words and words[0] in VERBS:
        from backfill.client.client import main as queue

        return queue(words)
    from backfill.cli import main as others

    return others(words)


if __name__ == "__main__":
    sys.exit(main())
