"""The verbs that change or show the queue. They answer in tens of milliseconds, so this module imports little."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from importlib import import_module

from backfill.client.calling import (
    FAILED,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    Problem,
    answered,
    asked,
    persistent,
    stop,
    waited,
)
from backfill.client.options import has, help_text, ids_of, parse
from backfill.client.requests import absolute, instant_of, request_of, script_of
from backfill.model.errors import error_json, os_error_text
from backfill.model.names import printable
from backfill.model.units import more_text, time_text
from backfill.queue.states import OVER as ENDED
from backfill.queue.words import Unreadable, asks_text
from backfill.system.home import LOCK, home, python_path

LINES, PAGE = 1000, 1000  # rows on a terminal; in one answer
DEADLINE_S = 1.0  # seconds that a submit waits at most to learn whether its deadline is at risk
OF_WEB = {"listen", "read_only", "new_token", "hosts", "tls_cert", "tls_key", "insecure"}  # options of serve --web
NO_OUTPUT = "there is no output yet"
STORIES, NO_END = 100, 100_000  # jobs with all about them; all
ELSEWHERE = {"eta": "asking", "explain": "asking", "slots": "asking", "plan": "plan", "top": "top", "doctor": "doctor",
             "reserve": "reserving", "unreserve": "reserving"}  # verb: module  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Callable, Sequence
    from typing import Any

    Facts = dict[str, Any]


# ---------------------------------------------------------------------- verbs


def submit(words: Sequence[str]) -> int:
    """Queue a job."""
    given, left, behind = parse("submit", words)
    if "source" in given:
        from backfill.client import from_file

        return from_file.submit(given, left)
    if "project" in given and not (left or "wrap" in given):
        from backfill.client import projects

        name = projects.submit(given)
        return wait(["--project", name]) if name and given.get("wait") else 0
    script, slurm, ignored = None, False, list[str]()
    if "wrap" in given:
        if left:
            raise Unreadable("--wrap and a command cannot be combined")
        argv = ["/bin/sh", "-c", given["wrap"]]
    elif not left:
        raise Unreadable("no command; expected backfill submit [OPTIONS] -- COMMAND, or a script")
    elif behind:
        argv = left
    else:
        argv, script = left, script_of(left[0])
        if script is None:  # a program in this folder, not one of the same name on the PATH
            argv = [absolute(left[0]), *left[1:]]
        else:
            from backfill.client.sbatch import of_script

            try:
                in_script, slurm = of_script(script)
            except Unreadable as error:
                raise Unreadable(f"{left[0]}: {error}") from None
            given, ignored = _with_script(in_script, given)
    request = request_of(given, argv, script)
    if slurm:
        from backfill.client.sbatch import submitted

        request["spec"]["slurm"] = submitted(given, request["spec"]["cwd"])
    if given.get("test"):
        from backfill.client.asking import test

        return test(request, given)
    answer = persistent("submit", home(), **request)
    number = answer["id"]
    if given.get("json"):
        if "deadline" in given:
            row, _ = _late(answer, given)
            answer["misses_deadline"] = None if row is None else row["misses_deadline"]
        print(json.dumps({"schema": 1, **answer}))
    elif given.get("parsable"):
        print(number)
    elif not given.get("quiet"):
        _say_submitted(answer, given)
        if "deadline" in given:
            _warn_of_deadline(answer, given)
    ignored += [f"--{name}" for name in answer.get("ignored", ())]
    if ignored and not given.get("quiet"):
        who = "" if script is None else f"{left[0]}: "
        _note(f"{who}ignored options, which this queue does not have: {', '.join(ignored)}")
    if not (given.get("quiet") or given.get("parsable")):
        from backfill.daemon.neighbours import overlap

        shared = overlap(home())
        if shared:
            _note(shared)
    _note_config(home())
    return wait([str(number)]) if given.get("wait") else 0


def _note_config(folder: str) -> None:
    """Print what is wrong with settings changed since the daemon began, which the next daemon will read."""
    with suppress(OSError):
        changed, begun = (os.stat(os.path.join(folder, name)).st_mtime_ns for name in ("config.toml", LOCK))
        if changed > begun:
            from pathlib import Path

            from backfill.daemon.config import Config

            try:
                Config(Path(folder))
            except Unreadable as error:
                _note(f"{error}; the running daemon keeps its settings, and the next one will not start")


def _with_script(in_script: Facts, given: Facts) -> tuple[Facts, list[str]]:
    """Merge the options of a script and of the command line, which takes precedence; also return the ignored names."""
    if not in_script:
        return given, []
    from backfill.client.sbatch import settled

    return settled(in_script, given)


def _late(answer: Facts, given: Facts) -> tuple[Facts | None, float]:
    """Return the estimate of a job just queued, and its time; None if the planner does not answer at once.

    If only its guaranteed start is known that soon, this is the estimate. Of an array it is that of a task that may
    miss its deadline, if there is one.
    """
    from backfill.client.calling import Queue

    tasks = len(given["array"][0]) if "array" in given else 1
    last = answer["id"] + tasks
    for what, more in (("eta", {}), ("queue", {"after": answer["id"] - 1, "limit": min(tasks, PAGE)})):
        with suppress(Problem, OSError):
            connection = Queue(home())
            try:
                found = connection.ask(what, DEADLINE_S, **more)
            finally:
                connection.close()
            rows = [row for row in found["jobs"] if answer["id"] <= row["id"] < last]
            rows.sort(key=lambda row: not row["misses_deadline"])
            return (rows[0] if rows else None), found["now_s"]
    return None, 0.0


def _warn_of_deadline(answer: Facts, given: Facts) -> None:
    """Print if a job just queued may miss its deadline, provided that the planner answers at once."""
    sys.stdout.flush()
    row, now = _late(answer, given)
    if row is not None and row["misses_deadline"]:
        from backfill.client.asking import deadline_text

        _note(f"job {row['label']} {deadline_text(row, round(now * 1e6))}")


def _say_submitted(answer: Facts, given: Facts) -> None:
    what = asks_text(answer)
    kind = f"array {answer['id']} of {len(given['array'][0]):,} jobs" if answer["array"] else f"job {answer['id']}"
    state = "held" if answer["held"] else "queued"
    print(f"{kind} {state}: {what}, limit {time_text(answer['walltime'])}")
    print(f"next: backfill release {answer['id']}" if answer["held"] else "next: backfill queue")


def queue(words: Sequence[str]) -> int:
    """Print the queue."""
    given, left, _ = parse("queue", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}; backfill show {left[0]} shows one job")
    ended = given.get("ended", 0)
    over = [state for state in given.get("states", ()) if state in ENDED]
    if over and not ended:
        hint = f"expected also --ended N, or backfill history --state {','.join(over)}"
        raise Unreadable(f"--state: jobs that are {over[0]} have ended; {hint}")
    chosen: Facts = {name: given[name] for name in ("states", "users", "names", "projects") if name in given}
    if given.get("json"):  # may have 100,000 jobs, as the daemon has encoded them
        most = min(given.get("most", NO_END), NO_END)
        line, _ = answered("queue", home(), ended=ended, estimates=True, limit=most, **chosen)
        print(line.decode(), end="")
        return 0
    most = given.get("most", LINES)
    found = persistent("queue", home(), ended=ended, estimates=True, fold=True, limit=min(most, PAGE), **chosen)
    from backfill.client.printing import print_queue

    print_queue(found, "" if "most" in given else "; backfill queue --lines N shows N")
    _note_config(home())
    return 0


def show(words: Sequence[str]) -> int:
    """Print all facts about jobs."""
    given, left, _ = parse("show", words)
    if "of_project" in given:
        from backfill.client import projects

        return projects.show(given, left)
    ids = ids_of(given, left)
    found = persistent("show", home(), ids=ids, **({"limit": PAGE} if given.get("json") else {"limit": STORIES}))
    if given.get("json"):
        jobs = found["jobs"]
        while len(jobs) < found["all"]:
            page = persistent("show", home(), ids=ids, limit=PAGE, **{"from": len(jobs)})["jobs"]
            if not page:
                break
            jobs += page
        print(json.dumps({"schema": 1, "jobs": jobs}))
        return 0
    from backfill.client.printing import print_job

    for job in found["jobs"]:
        print_job(job)
    if found["all"] > len(found["jobs"]):
        more = more_text(found["all"] - len(found["jobs"]))
        print(f"and {more}; backfill show ARRAY_INDEX shows one, --json all")
    return 0


def change(verb: str, words: Sequence[str]) -> int:
    """Cancel, hold, release or edit jobs, and print which; return 1 if none was changed."""
    given, left, _ = parse(verb, words)
    more: Facts = {}
    if verb == "edit":
        more["to"] = _to(given)
    elif verb == "cancel" and "signal" in given:
        verb, more = "signal", {"signal": given["signal"]}
    elif verb == "pause" or (verb == "resume" and not (left or given.keys() & {"all", "name", "of_project"})):
        if left:
            raise Unreadable(f"unexpected {left[0]!r}; backfill suspend {left[0]} suspends one job")
        return _pause(verb, bool(given.get("json")))
    found, again = asked(verb, home(), ids=ids_of(given, left), **more)
    from backfill.client.printing import changed_text, unchanged_text

    others = unchanged_text(found)
    if given.get("json"):
        print(json.dumps({"schema": 1, **found}))
    elif found["ids"]:
        print(changed_text(verb, found))
    if not found["ids"] and not again:
        raise Problem(f"nothing to {verb}: {others or 'no job is open'}", FAILED)
    if others:
        _note(f"{'not changed' if found['ids'] else 'the daemon ended meanwhile'}: {others}")
    return 0


def _to(given: Facts) -> Facts:
    """Return the changes of `edit` as a request has them."""
    to: Facts = {name: given[name] for name in ("walltime", "priority") if name in given}
    if "new_name" in given:
        to["name"] = given["new_name"]
    from backfill.queue.parts import amounts_of, gpu_type_of

    to |= {name: given[name] for name in ("constraint", "partition", "qos") if name in given}
    if "reservation" in given:
        to["reservation"] = "" if given["reservation"] == "none" else given["reservation"]
    to |= gpu_type_of(given)
    need = amounts_of(given)
    if need:
        to["need"] = need
    for name in ("begin", "deadline"):
        if name in given:
            to |= {name: 0} if given[name] in ("none", "now") else instant_of(name, given[name])
    to |= given.get("dependency", {})
    return to


def _pause(verb: str, as_json: bool) -> int:
    """Pause the queue, or let it start jobs again; return 1 if it was in that state already."""
    found, again = asked("pause" if verb == "pause" else "unpause", home())
    if as_json:
        print(json.dumps({"schema": 1, "paused": verb == "pause", **found}))
    elif found["changed"]:
        print("paused: running jobs continue, nothing starts; next: backfill resume" if verb == "pause" else "resumed")
    if not found["changed"] and not again:
        raise Problem("the queue is paused already" if verb == "pause" else "the queue is not paused", FAILED)
    return 0


def wait(words: Sequence[str]) -> int:
    """Wait until jobs are over; return the exit code of the job, of several the largest."""
    given, left, _ = parse("wait", words)
    timeout = given["timeout"] / 1e6 if "timeout" in given else None
    try:
        jobs = waited(ids_of(given, left), home(), timeout)
    except TimeoutError:
        raise Problem("the jobs have not ended yet", FAILED) from None
    if given.get("json"):
        print(json.dumps({"schema": 1, "jobs": jobs}))
    return max((job["code"] for job in jobs), default=0)


def log(words: Sequence[str]) -> int:
    """Print the output of a job."""
    given, left, _ = parse("log", words)
    if len(left) != 1:
        raise Unreadable("expected one job")
    folder, ids, err = home(), ids_of(given, left), bool(given.get("err"))
    found = persistent("output", folder, ids=ids, err=err)
    path, ids = found["path"], [found["job"]["id"]]
    if given.get("json"):
        if not os.path.exists(path):
            raise Problem(f"{path}: {NO_OUTPUT}", FAILED)
        with open(path, encoding="utf-8", errors="replace") as file:
            print(json.dumps({"schema": 1, "job": ids[0], "path": path, "output": file.read()}))
        return 0
    place, waits, shown = 0, "", ""
    while True:
        over = not given.get("follow")
        if not over:
            job = persistent("output", folder, ids=ids, err=err)["job"]
            over = job["end_s"] is not None
            waits, before = _waits_for(job), waits
            if waits and waits == before != shown:  # not for a job that starts in a moment
                from backfill.client.printing import waiting_text

                _note(waiting_text(job))
                shown = waits
        try:
            with open(path, "rb") as file:
                file.seek(place)
                while some := file.read(1 << 16):
                    place += len(some)
                    sys.stdout.buffer.write(some)
            sys.stdout.buffer.flush()
        except FileNotFoundError:
            if over:
                raise Problem(f"{path}: {NO_OUTPUT}", FAILED) from None
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}", FAILED) from None
        if over:
            return 0
        time.sleep(0.2)


def _waits_for(job: Facts) -> str:
    """Return a text that changes when a pending job waits for something else; empty for other jobs."""
    if job["state"] != "PENDING":
        return ""
    # For an array, one task less is not worth a message.
    named = job["dependency"] if "[" not in job["dependency"] else ""
    return f"{job['reason']} {named}"


def _platform_of(pool: str) -> str:
    """Return the present platform of a batch system. Raises Unreadable."""
    from backfill.daemon.hosting import platform_of  # only needed for queues with a batch system

    return platform_of(pool)


def _set_metrics_file(path: str) -> None:
    """Let the daemon write its metrics to a file; a daemon that runs already is named."""
    from backfill.client.calling import Queue
    from backfill.daemon.config import set_metrics_file

    if set_metrics_file(home(), path):
        with suppress(Problem):
            Queue(home(), start=False).close()
            _note(
                "the running daemon keeps its settings; backfill serve --stop ends it, and the next one writes the file"
            )


def serve(words: Sequence[str]) -> int:
    """Run the daemon, or stop it."""
    given, left, _ = parse("serve", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}")
    if given.keys() & OF_WEB and not given.get("web"):
        option = min(given.keys() & OF_WEB).replace("_", "-")
        raise Unreadable(f"--{option.replace('hosts', 'host')} belongs to --web")
    if given.get("web"):
        from pathlib import Path

        from backfill.web.process import serve as serve_page

        return serve_page(Path(home()), given)
    if "policy" not in given and (given.get("dry") or given.get("drop")):
        raise Unreadable("--dry-run and --drop-promises belong to --policy")
    if "policy" in given:  # before a queue is made
        from backfill.daemon.config import named

        named(given["policy"])
    settings: dict[str, Any] = {
        name: given[name] for name in ("pool", "platform", "shadow", "adopt", "predict") if name in given
    }
    if settings:
        if others := [name for name in ("dry", "stop", "install", "uninstall", "backup", "restore") if given.get(name)]:
            option = "dry-run" if others[0] == "dry" else others[0]
            raise Unreadable(f"--{next(iter(settings))} begins a queue; expected it without --{option}")
        from backfill.daemon.config import begin_with

        begin_with(home(), settings, _platform_of)
    if "metrics_file" in given:
        _set_metrics_file(given["metrics_file"])
    if "policy" in given:
        from backfill.client.asking import switch

        return switch(given)
    if given.get("stop"):
        stop(home())
        return 0
    if given.get("install") or given.get("uninstall"):
        from backfill.client.boot import install, uninstall

        print("\n".join((install if given.get("install") else uninstall)(home())))
        return 0
    if "backup" in given:
        from backfill.daemon.backups import back_up

        problem = back_up(home(), given["backup"])
        if problem:
            raise Problem(problem, FAILED)
        return 0
    if "restore" in given:
        from backfill.client.restoring import restore

        return restore(given["restore"])
    if given.get("detach"):
        persistent("ping", home())
        return 0
    from backfill.system.processes import JOB, unmarked

    if JOB in os.environ:  # this daemon must not count as a process of the job's attempt
        env = {**unmarked(), "BACKFILL_HOME": home(), "PYTHONPATH": python_path()}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "backfill.daemon.daemon"], env)
    from backfill.daemon.daemon import main as work

    return work()


def main(words: Sequence[str]) -> int:
    """Run one command line whose first word is a verb of VERBS; return its exit code."""
    verb, *rest = words
    done = _tried(lambda: _help(verb) if has(("-h", "--help"), verb, rest) else _run(verb, rest))
    written = _tried(_flush)
    if isinstance(done, int):
        done = written or done
    if isinstance(done, int):
        return done
    if has(("--json",), verb, rest):
        print(error_json(str(done), done.code, kind=done.kind, field=done.field), file=sys.stderr)
    else:
        _note(str(done))
    return done.code


def _tried(work: Callable[[], int]) -> int | Problem:
    """Return the exit code of some work, or the problem that ended it."""
    try:
        return work()
    except Problem as error:
        return error
    except Unreadable as error:
        return Problem(str(error), USAGE)
    except KeyboardInterrupt:
        return Problem("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has closed it
        _discard_output()
        return FAILED
    except ConnectionError:
        return Problem("the daemon ended before it answered; run the command again, which starts another one", FAILED)
    except OSError as error:
        if not error.filename:
            _discard_output()
        return Problem(os_error_text(error), FAILED)


def _flush() -> int:
    if sys.stdout is not None:  # as if it is closed
        sys.stdout.flush()
    return 0


def _discard_output() -> None:
    """Let what is not written yet go nowhere; otherwise Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _help(verb: str) -> int:
    print(help_text(verb), end="")
    return 0


def _run(verb: str, words: Sequence[str]) -> int:
    if sys.platform != "linux":  # the keeper adopts orphans and reads /proc
        what = f"the live queue needs Linux; this system is {sys.platform}. All verbs that simulate run here"
        raise Problem(what, UNREACHABLE)
    run = {"submit": submit, "queue": queue, "show": show, "wait": wait, "log": log, "serve": serve}
    if verb in run:
        return run[verb](words)
    if verb in ELSEWHERE:
        module = import_module(f"backfill.client.{ELSEWHERE[verb]}")
        return int(getattr(module, verb)(words))
    return change(verb, words)


def _note(what: str) -> None:
    _flush()
    print(f"backfill: {printable(what)}", file=sys.stderr)
