"""The process of a planner: it receives messages and answers with the decisions of its policy, a line each way.

It reports when it compiles, even before it has loaded anything else, so that the daemon knows what it waits for.
"""

import gc
import json
import os
import sys
from pathlib import Path

from backfill.model.errors import BackfillError
from backfill.queue.shapes import JsonObject


def serve(text: str, cpu_s: float) -> None:
    """Answer requests on standard input until it ends. The output of a policy goes to standard error.

    cpu_s: see Watchdog; a request may have another one.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: JsonObject) -> None:
        try:
            out.write(json.dumps(message) + "\n")
            out.flush()
        except BrokenPipeError:  # the daemon has ended, so this process is not needed
            os._exit(0)

    def compiles(begins: bool) -> None:
        (gc.enable if begins else gc.disable)()  # unlike what is loaded, most of what a compiler makes is garbage
        send({"compiles": begins})

    gc.disable()  # to look again and again through what stays would take a sixth of the time
    from backfill.worlds.watchdog import WATCHDOG

    WATCHDOG.on_compile = compiles
    from backfill.worlds.aside import Rest, leave_in_peace, load
    from backfill.worlds.live import HOW, answer, load_policy  # this may compile the core

    planner, WATCHDOG.cpu_s = None, cpu_s
    try:
        send({"progress": True})  # from here on the policy is responsible
        policy, _ = load_policy(text, preempts=HOW)  # the epoch says what its pool can do
        if policy.compiled:
            _ = policy.entry
        leave_in_peace()
        send({"loaded": True})
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["do"] == "question":
                from backfill.answers.questions import aside  # few queues ever need it

                assert planner is not None  # otherwise messages would be lost
                planner.learn(asked["messages"])
                send({"asked": aside(planner, asked)})
                continue
            WATCHDOG.cpu_s = asked["cpu_s"]
            if asked["do"] == "begin":
                planner, file = None, Path(asked["file"])
                program = asked["epoch"].get("program", "")
                rest = Rest(file, {"epoch_seq": asked["epoch_seq"], "program": program})
                if asked["since"]:
                    try:
                        planner = load(file, asked["epoch"])
                    except Exception as error:  # the file may be damaged in any way; the log has everything
                        file.unlink(missing_ok=True)
                        send({"killed": f"{file.name} cannot be read: {error!r:.200}"})
                        continue
            planner, message = answer(planner, asked, lambda: send({"progress": True}))
            send(message)
            if asked["do"] == "ask":
                rest.take(planner, asked["seq"], asked["now"])
    except BackfillError as error:
        send({"error": str(error)})
    except (Exception, SystemExit) as error:
        send({"error": repr(error)})
        raise


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]))
