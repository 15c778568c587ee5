"""The console entry point. The verbs of the live queue answer at once, so it loads nothing that they do not need."""

import os
import sys

if __name__ == "__main__" and sys.path and not sys.flags.safe_path and os.path.isdir(sys.path[0] or "."):
    del sys.path[0]  # `python -m backfill` puts the working folder there, and a json.py of a user is not ours

from backfill.client.options import VERBS


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may have letters that the terminal does not
            stream.reconfigure(errors="replace")
    words = sys.argv[1:]
    if words and words[0] in VERBS:
        from backfill.client.client import main as queue

        return queue(words)
    from backfill.cli import main as others

    return others(words)


if __name__ == "__main__":
    sys.exit(main())
