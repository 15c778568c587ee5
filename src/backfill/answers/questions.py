"""Questions to the planner: when a job starts, why not yet, what fits now, and what another policy would do.

They are answered by copies of the planner (asked.py), at low priority, so that decisions never wait for an answer.
"""

import gc
import json
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypedDict

from backfill.answers.asked import Queue
from backfill.answers.explain import explain
from backfill.answers.projects import project, test_project
from backfill.answers.slots import slots
from backfill.answers.whatif import estimates, switch, test
from backfill.model.errors import BackfillError, UsageError
from backfill.queue.shapes import Estimate, Eta, JsonObject, ProjectEta, Question
from backfill.worlds.blame import blaming
from backfill.worlds.live import Planner
from backfill.worlds.watchdog import WATCHDOG

CPU_MOST_S, MOST_S = 120.0, 300.0  # limits for an answer, in seconds: a user's policy may loop or sleep for ever
TRIAL_CPU_S, TRIAL_S = 15.0, 28.0  # limits for the trial of a policy of a file, in seconds
LEAST = 19  # nice value of an answering process: all others go first


def eta(queue: Queue, asked: Question) -> Eta:
    """Return when pending jobs start: latest time, median, and 90 % bound."""
    return _with_head(queue, estimates(queue))


def eta_project(queue: Queue, asked: Question) -> ProjectEta:
    """Return when the pending jobs of a project start, and when it departs."""
    rows, departure = project(queue, asked["jobs"])
    return {**_with_head(queue, rows), "departure": departure}


def _with_head(queue: Queue, rows: list[Estimate]) -> Eta:
    """Return estimates together with the facts about how they were made."""
    return {"schema": 1, "now_s": queue.now / 1e6, "policy": queue.planner.spec, "binds": queue.binds,
            "futures": queue.looked, "widened": round(queue.widened, 3), "held": round(queue.held, 3),
            "arrivals": queue.arrivals is not None, "jobs": rows}  # fmt: skip


ANSWERS: dict[str, Callable[[Queue, Question], JsonObject]] = {
    "eta": eta,
    "slots": lambda queue, asked: slots(
        queue, asked["need"], asked["grace"], asked["user"], asked["group"], asked["gpu_type"]
    ),
    "test": lambda queue, asked: test(queue, asked["tasks"]),
    "test_project": lambda queue, asked: test_project(queue, asked["tasks"]),
    "eta_project": eta_project,
    "switch": switch,
    "explain": lambda queue, asked: explain(queue, asked["id"], asked["reason"], asked.get("to")),
}


class Asked(TypedDict):
    """A request to the planner: a question, and the name of the pipe for the answer."""

    to: str
    question: Question


def aside(planner: Planner | None, asked: Asked) -> int:
    """Answer a question in a copy of this process, which writes to the pipe named asked["to"]; return the copy's
    number.

    Returns 0 if no further process can be created, or the pipe has no reader any more. The pipe is opened before the
    fork, so that its reader sees its end however early the copy ends.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        pipe = os.open(asked["to"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        pid = os.fork()
    except OSError:
        os.close(pipe)
        return 0
    if pid:
        os.close(pipe)
        return pid
    code = 1
    try:
        if ".py" in asked["question"].get("policy", ""):
            WATCHDOG.bound(TRIAL_CPU_S, TRIAL_S)
        else:
            WATCHDOG.bound(CPU_MOST_S, MOST_S)
        gc.disable()  # the process lives for one answer; collecting would scan 100,000 jobs repeatedly
        null = os.open(os.devnull, os.O_RDWR)
        for end in (0, 1):
            os.dup2(null, end)
        os.closerange(3, pipe)  # the daemon must see the end of the planner even while its copy still runs
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(LEAST)
        os.set_blocking(pipe, True)
        with open(pipe, "w", encoding="utf-8") as out:
            out.write(json.dumps(answer(planner, asked["question"])))
        code = 0
    except BrokenPipeError:  # the daemon has ended, or needs no answer any more
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def answer(planner: Planner | None, asked: Question) -> JsonObject:
    """Return the answer to a question; this may modify the planner."""
    assert planner is not None
    begun = time.process_time()
    try:
        with blaming(planner.policy):
            answer = ANSWERS[asked["what"]](Queue.read(planner, asked), asked)
    except UsageError as error:
        field = "policy" if asked["what"] == "switch" else ""
        return {"error": {"code": "usage", "message": str(error), "field": field}}
    except BackfillError as error:
        return {"error": {"code": "question", "message": str(error), "field": ""}}
    return {**answer, "cpu_s": round(time.process_time() - begun, 3)}
