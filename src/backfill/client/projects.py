"""Whole projects: `submit --project FILE`, and the output of `show` and `eta` about a project.

A project file is TOML. Its jobs have the options of `submit` under their long names, without the dashes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
import tomllib
from collections.abc import Sequence
from typing import Any

from backfill.client.asking import departure_lines, left_text, question
from backfill.client.calling import STARTING, USAGE, Problem, persistent, token
from backfill.client.options import SUBMIT, Option
from backfill.client.printing import dated, start_text, table
from backfill.client.requests import request_of, script_of, submitter
from backfill.client.sbatch import of_script, settled, submitted
from backfill.model.errors import at
from backfill.model.names import did_you_mean, printable
from backfill.model.units import bound_text, counted, time_text
from backfill.queue.schema import NAME_MAX, PROJECT_MAX
from backfill.queue.words import Unreadable
from backfill.system.home import home

Facts = dict[str, Any]
ALONG = {"project", "name", "test", "json", "quiet", "parsable", "wait"}  # options allowed with a project file
OWN = ("name", "command", "script", "arguments", "after")  # keys of a job that are not options
NOT_OF_JOBS = {"name", "array", "dependency", "project", "wrap", "source", "test", "parsable", "wait", "json", "quiet"}
OPTIONS = {
    name.removeprefix("--"): option
    for option in SUBMIT
    if option.key not in NOT_OF_JOBS
    for name in option.each
    if name.startswith("--")
}
KINDS = ("afterok", "afterany", "afternotok", "after")  # the first applies to a name without a kind
SHOWN = 20  # most promises that are printed
SETTLED_S, POLL_S = 60.0, 0.05  # seconds to wait for the policy; interval of checks
CAUSES = {  # why a promised departure changed, or a project departed later than promised
    "given": "first promise",
    "more-jobs": "further jobs of the project were promised a start",
    "made-way": "job {by} goes first",
    "moved-up": "room appeared",
    "held": "a job is held",
    "taken-back": "the policy promises no start to a job for now",
    "released": "job {job} was held",
    "preempt": "a preempted job took long to end",
    "run-again": "job {job} runs again",
    "job-edited": "a job was changed",
    "start-declined": "job {job} could not be started at its time",
    "launch-failed": "a job could not be launched",
    "overrun": "a job runs over its limit",
    "overrun-kill-late": "a job ran over its limit",
    "end-seen-late": "the end of a job was known only after its limit",
    "foreign-start": "a job was started outside the queue",
    "capacity-lowered": "a node or a licence has less capacity",
    "platform-changed": "the platform file was changed",
    "policy-switched": "another policy took over",
    "reservation-made": "an advance reservation was made",
    "queue-paused": "the queue was paused",
    "daemon-down": "the daemon was down",
    "planner-down": "the policy had to be started again",
    "machine-suspended": "the machine slept",
    "bug": "no event explains it",
    "": "jobs ended early",
}


class File:
    """A project file. Raises Problem, with file, line, field, value and what was expected."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, encoding="utf-8") as file:
                self._text = file.read()
            self.data = tomllib.loads(self._text)
        except UnicodeDecodeError:
            raise self.wrong("expected UTF-8 text") from None
        except (ValueError, RecursionError) as error:
            match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
            message, line = (str(error)[: match.start()], int(match[1])) if match else (str(error), None)
            raise self.wrong(f"is not valid TOML: {message}", line) from None
        for key in self.data:
            if key not in ("name", "defaults", "job"):
                hint = did_you_mean(key, ("name", "defaults", "job"), "expected name, [defaults] or [[job]]")
                raise self.wrong(f"unknown key {key!r}; {hint}", self.line("", key))
        self.name = self._name()
        self.defaults, self.jobs = self.data.get("defaults", {}), self.data.get("job", [])
        if not isinstance(self.defaults, dict):
            raise self.wrong("defaults: expected a table [defaults]", self.line("", "defaults"))
        good = isinstance(self.jobs, list) and all(isinstance(job, dict) for job in self.jobs)
        if not good or not self.jobs:
            raise self.wrong("no job; expected at least one table [[job]]", self.line("", "job"))
        if len(self.jobs) > PROJECT_MAX:
            raise self.wrong(f"{len(self.jobs):,} jobs; expected at most {PROJECT_MAX:,}")
        self.names: dict[str, int] = {}
        for place, job in enumerate(self.jobs):
            name = job.get("name")
            if not _is_name(name):
                message = "has no name" if name is None else f"name is {name!r:.60}"
                raise self.wrong(f"job {place + 1} {message}; expected a text", self.line(place, "name"))
            if name in self.names:
                raise self.wrong(
                    f"name {name!r} is that of an earlier job; expected another one", self.line(place, "name")
                )
            self.names[name] = place

    def _name(self) -> str:
        name = self.data.get("name", os.path.basename(self.path).removesuffix(".toml"))
        if not _is_name(name):
            raise self.wrong(f"name is {name!r:.60}; expected a text", self.line("", "name"))
        return str(name)

    def wrong(self, what: str, line: int | None = None, code: int = USAGE) -> Problem:
        """Return an error about the file."""
        return Problem(at(self.path, line, what), code)

    def line(self, table: int | str, key: str) -> int | None:
        """Return the line of a key in the job at an index, [defaults] or the file itself (""); else the line of the
        table."""
        inside: int | str = ""
        jobs, line_of_table = -1, None
        for number, line in enumerate(self._text.splitlines(), 1):
            header = re.match(r"\s*\[+\s*([\w.-]+)\s*\]", line)
            if header:
                jobs += header[1] == "job"
                inside = jobs if header[1] == "job" else header[1]
            if inside != table:
                continue
            if header:
                line_of_table = number
            elif re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", line):
                return number
        return line_of_table

    # ------------------------------------------------------------------ its jobs

    def request(self) -> Facts:
        """Return the request to submit the project, without its token."""
        jobs = [self._job(place, job) for place, job in enumerate(self.jobs)]
        common = {
            name: value
            for name, value in jobs[0]["spec"].items()
            if name != "argv" and all(one["spec"].get(name) == value for one in jobs)
        }
        for one in jobs:
            one["spec"] = {name: value for name, value in one["spec"].items() if name not in common}
        return {"project": self.name, "spec": common, "jobs": jobs}

    def _job(self, place: int, table: Facts) -> Facts:
        defaults = self._options("defaults", self.defaults)
        options = self._options(place, {key: value for key, value in table.items() if key not in OWN})
        argv, script = self._command(place, table)
        slurm = False
        try:
            if script is not None:
                in_script, slurm = of_script(script)
                options, _ = settled(in_script, options)
            options, _ = settled(defaults, options)
            request = request_of({**options, "name": table["name"]}, argv, script)
        except Unreadable as error:
            raise self.wrong(f"job {table['name']}: {error}", self.line(place, "name")) from None
        if slurm:
            request["spec"]["slurm"] = submitted(options, request["spec"]["cwd"])
        return {"job": request["job"], "spec": request["spec"], "after": self._after(place, table.get("after", []))}

    def _options(self, where: int | str, table: Facts) -> Facts:
        """Return the options of a table by their keys."""
        options: Facts = {}
        for key, value in table.items():
            option = OPTIONS.get(key.replace("_", "-"))
            if option is None:
                known = [*OPTIONS, *(OWN if where != "defaults" else ())]
                own = f", or {', '.join(OWN)}" if where != "defaults" else ""
                hint = did_you_mean(key, known, f"expected a long option of submit{own}")
                raise self.wrong(f"unknown key {key!r}; {hint}", self.line(where, key))
            try:
                if (read := _read(option, value)) is not None:
                    options[option.key] = read
            except Unreadable as error:
                raise self.wrong(f"{key}: {error}", self.line(where, key)) from None
        return options

    def _command(self, place: int, table: Facts) -> tuple[list[str], str | None]:
        """Return the words of a job's command, and the text of its script."""
        said = [key for key in ("command", "script") if key in table]
        if len(said) != 1:
            message = "command and script" if said else "neither command nor script"
            line = self.line(place, said[1] if said else "name")
            raise self.wrong(f"job {table['name']} has {message}; expected one of them", line)
        (key,), value, more = said, table[said[0]], table.get("arguments", [])
        if not _are_texts(more) or (more and key == "command"):
            expected = "a list of texts, which a script gets"
            raise self.wrong(f"arguments is {more!r:.60}; expected {expected}", self.line(place, "arguments"))
        if key == "command":
            if isinstance(value, str) and value.strip():
                return ["/bin/sh", "-c", value], None
            if _are_texts(value) and value:
                return [*value], None
            expected = "a text for the shell, or a list of words"
            raise self.wrong(f"command is {value!r:.60}; expected {expected}", self.line(place, key))
        if not isinstance(value, str) or not value:
            raise self.wrong(f"script is {value!r:.60}; expected the name of a file", self.line(place, key))
        try:
            script = script_of(value)
        except Unreadable as error:
            raise self.wrong(f"script: {error}", self.line(place, key)) from None
        return [value if script is not None else os.path.abspath(value), *more], script

    def _after(self, place: int, value: Any) -> list[list[Any]]:
        """Return the jobs on which a job depends, as kinds and indices in the list of jobs."""
        texts = [value] if isinstance(value, str) else value
        if not _are_texts(texts):
            raise self.wrong(f"after is {value!r:.60}; expected names of jobs", self.line(place, "after"))
        after = []
        for text in texts:
            kind, colon, name = text.partition(":")
            if text in self.names or not colon or kind not in KINDS:
                kind, name = KINDS[0], text
            if name not in self.names:
                hint = did_you_mean(name, self.names, "expected the name of another job of the file")
                raise self.wrong(f"after: there is no job {name!r:.60}; {hint}", self.line(place, "after"))
            after.append([kind, self.names[name]])
        return after

    def blamed(self, problem: Problem) -> Problem:
        """Return a refusal by the queue with the line of the file that caused it."""
        match = re.match(r"jobs\.(\d+)\.(.*)", problem.field)
        if not match:
            line = self.line("", "name") if problem.field == "project" else None
            return Problem(at(self.path, line, str(problem)), problem.code, problem.kind)
        place = int(match[1])
        names = [name for name, option in OPTIONS.items() if match[2] in (option.key, name)] or [match[2]]
        table = self.jobs[place]
        key = next((key for key in table if key.replace("_", "-") in names), "name")
        return Problem(at(self.path, self.line(place, key), str(problem)), problem.code, problem.kind)


def _read(option: Option, value: Any) -> Any:
    """Return the value of an option as the command line reads it; None if a flag is false."""
    if option.read is None:
        if not isinstance(value, bool):
            raise Unreadable(f"{value!r:.60}; expected true or false")
        return value or None
    if isinstance(value, bool) or not (isinstance(value, str | int | float) or _are_texts(value)):
        raise Unreadable(f"{value!r:.60}; expected a text or a number")
    return option.read(",".join(value) if isinstance(value, list) else str(value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= NAME_MAX and value.isprintable()


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


# ---------------------------------------------------------------------- verbs


def submit(options: Facts) -> str:
    """Queue all jobs of a file, or none, and print the departure that the project is promised.

    Returns the name of the project; empty for a trial.
    """
    path = options["project"]
    if not os.path.isfile(path):
        expected = "backfill submit [OPTIONS] -- COMMAND, a script, or --project with a project file"
        raise Unreadable(f"no command, and no file {path}; expected {expected}")
    if others := sorted(options.keys() - ALONG):
        option = next(option.shown for option in SUBMIT if option.key == others[0])
        raise Unreadable(f"{option} does not go with a project file; expected it in its [defaults], or at a job")
    file = File(path)
    file.name = options.get("name", file.name)
    request = {**submitter(), "token": token(), **file.request()}
    try:
        if options.get("test"):
            _test(file, request, options)
            return ""
        answer = persistent("submit_project", home(), **request)
    except Problem as problem:
        raise file.blamed(problem) from None
    name, count, first = answer["project"], answer["count"], answer["id"]
    if not options.get("quiet") and not options.get("json") and not options.get("parsable"):
        print(f"project {printable(name)} queued: {counted(count, 'job')}, {first} to {first + count - 1}")
        if answer.get("ignored"):
            names = ", ".join(f"--{one}" for one in answer["ignored"])
            print(f"backfill: ignored options, which this queue does not have: {names}", file=sys.stderr)
    if options.get("parsable"):
        print(name)
    elif options.get("json") or not options.get("quiet"):
        _tell_departure(name, answer, bool(options.get("json")))
    return str(name)


def _tell_departure(name: str, answer: Facts, as_json: bool) -> None:
    """Print when a project that was just queued departs: as promised by the policy, or the estimate."""
    project, end = persistent("project", home(), project=name), time.monotonic() + SETTLED_S
    while not project["settled"] and time.monotonic() < end:
        time.sleep(POLL_S)
        project = persistent("project", home(), project=name)
    estimated: Facts | None = None
    if project["settled"] and (project["promised_s"] is None or project["left"]) and project["end_s"] is None:
        try:
            estimated = question("eta", SETTLED_S, project=name)
        except Problem as problem:
            if problem.code != STARTING and problem.kind not in ("unknown", "question"):
                raise
    departure = None if estimated is None else estimated["departure"]
    facts = {name: project[name] for name in ("policy", "departs", "promised_s", "left")}
    if as_json:
        likely = {name: None if departure is None else departure[name] for name in ("median_s", "p90_s")}
        print(json.dumps({"schema": 1, **answer, **facts, **likely}))
        return
    if not project["settled"]:
        print("the policy has not answered yet; next: backfill show --project " + shlex.quote(name))
        return
    for line in departure_lines(project, departure):
        print(line)
    print(f"next: backfill show --project {shlex.quote(name)}")


def _test(file: File, request: Facts, options: Facts) -> None:
    answer = question("test_project", **request)
    if options.get("json"):
        print(json.dumps({"schema": 1, **answer}))
        return
    name, jobs = printable(file.name), counted(answer["count"], "job")
    print(f"project {name}: {jobs}, of which {answer['at_once']} would start now")
    departure = answer["departure"]
    whole = departure["promised_s"] is not None and not departure["left"]
    for line in departure_lines({**answer, **departure}, None if whole else departure):
        print(line)


def show(options: Facts, left: Sequence[str]) -> int:
    """Print all facts about a project."""
    if left or "name" in options:
        raise Unreadable("--project and jobs cannot be combined")
    answer = persistent("project", home(), project=options["of_project"])
    if options.get("json"):
        print(json.dumps(answer))
        return 0
    now = round(answer["now_s"] * 1e6)
    facts = {
        "user": answer["user"],
        "jobs": ", ".join(f"{count} {state}" for state, count in sorted(answer["states"].items())),
        "submitted": dated(answer["submit_s"]),
        "started": dated(answer["start_s"]),
        "promised": _promised(answer, now),
        "first": dated(answer["first_promised_s"]),
        "departed": dated(answer["end_s"]),
        "kept": _kept(answer),
    }
    print(f"project {printable(answer['project'])}")
    for name, value in facts.items():
        if value:
            print(f"  {name:<12}{printable(value)}")
    for line in promise_lines(answer["promises"]):
        print(line)
    lines = [["JOB", "NAME", "STATE", "START", "END", "WAITS FOR"]]
    for job in answer["jobs"]:
        start = dated(job["start_s"]) or start_text(job.get("planned_s"), now)
        lines.append([job["label"], printable(job["name"])[:20], job["state"], start, dated(job["end_s"]) or "-",
                      job["dependency"]])  # fmt: skip
    table(lines, right=(0,))
    return 0


def promise_lines(promises: list[Facts]) -> list[str]:
    """Return lines about the promises that changed the departure; of many, the first and the last ones."""
    lines, before = [], None
    for one in promises:
        if one is not promises[0] and one["departure_s"] == before:
            continue
        before = one["departure_s"]
        until = "no departure" if before is None else f"departure {dated(before)}"
        part = f" without {counted(one['left'], 'job')}" if one["left"] and before is not None else ""
        lines.append(f"  {dated(one['at_s'])}  {until}{part}: {printable(cause_text(one))}")
    if len(lines) > SHOWN:
        lines[1 : len(lines) - SHOWN + 1] = [f"  and {len(lines) - SHOWN:,} more; --json has all of them"]
    return lines


def _promised(answer: Facts, now: int) -> str:
    if answer["promised_s"] is not None:
        return f"{bound_text(round(answer['promised_s'] * 1e6), now)}{left_text(answer['left'])}"
    if answer["end_s"] is not None or answer["departs"]:
        return ""
    return f"nothing; policy {answer['policy']} promises no departures"


def _kept(answer: Facts) -> str:
    """Return how the first promise of all jobs was kept, or is expected to be."""
    if not answer["slip_s"]:
        return "no later than first promised" if answer["end_s"] is not None and answer["slip_s"] is not None else ""
    late = f"{time_text(round(answer['slip_s'] * 1e6))} later than first promised"
    return f"{late}: {answer['slip']} ({cause_text({'cause': answer['slip'], 'job': '', 'by': '', 'by_project': ''})})"


def cause_text(promise: Facts) -> str:
    """Return why a departure was promised, or changed."""
    text = str(CAUSES.get(promise["cause"], promise["cause"])).format(**promise)
    return f"{text}, of project {promise['by_project']}" if promise["by_project"] else text
