"""A job as a page shows it: its facts, its story, why it waits, and what a change would bring."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

from backfill.client.asking import change_around, explained, option_time
from backfill.client.options import parse
from backfill.client.printing import dated, edit_text, event_text, goes_on, nodes_text, start_text, waiting_text
from backfill.model.units import clock_text, numbers_text, size_text, time_text
from backfill.queue.parts import amounts_of
from backfill.queue.states import PENDING
from backfill.queue.words import asks_text

Facts = dict[str, Any]
JOB = re.compile(r"\b(jobs?) (\d{1,15}(?:_\d{1,9})?(?:, \d{1,15}(?:_\d{1,9})?)*)\b")
HOLDER = re.compile(r"(held by )?(\d{1,15}(?:_\d{1,9})?)(?= .*: .* until )")
LABEL = re.compile(r"\d{1,15}(?:_\d{1,9})?")
HEAD = "what would help"
EVENTS = {  # kinds of events whose names do not say what happened
    "submit": "submitted",
    "wait": "waits from now on",
    "start": "the policy started it",
    "spawned": "its process runs",
    "promise": "was promised a start",
    "end": "ended",
    "hold": "held",
    "release": "released",
    "edit": "changed",
    "stop": "is being ended",
    "slip": "starts later than promised",
}


def linked(text: str) -> Markup:
    """Return a text in which the jobs that it names are links."""
    parts, last = [], 0
    if holder := HOLDER.match(text):
        parts = [escape(holder[1] or ""), _link(holder[2])]
        last = holder.end()
    for match in JOB.finditer(text, last):
        labels = LABEL.sub(lambda each: _link(each[0]), match[2])
        parts += [escape(text[last : match.start()]), Markup(f"{match[1]} {labels}")]
        last = match.end()
    return Markup("").join([*parts, escape(text[last:])])


def _link(label: str) -> Markup:
    return Markup('<a href="/jobs/{0}">{0}</a>').format(label)


def facts(job: Facts) -> list[tuple[str, str]]:
    """Return what is known of a job, as terms and texts; in the order of `backfill show`."""
    ran = job["start_s"] is not None
    found = {
        "user": job["user"],
        "project": job["project"],
        "command": " ".join(job["argv"]),
        "folder": str(job["cwd"] or ""),
        "needs": asks_text(job),
        "limit": time_text(round(job["limit_s"] * 1e6)),
        "runs on": nodes_text(job["nodes"]) if job.get("nodes") else _cpus(job),
        "partition": job.get("partition", ""),
        "constraint": job.get("constraint", ""),
        "reservation": job.get("reservation", ""),
        "array": "" if job["index"] is None else f"{job['array']}, task {job['index']}",
        "priority": str(job["priority"] or ""),
        "waits for": job["dependency"],
        "begin": dated(job["begin_s"]),
        "deadline": dated(job["deadline_s"]),
        "submitted": dated(job["submit_s"]),
        "promised by": dated(job["promise_s"]),
        "started": dated(job["start_s"]) + (f" ({job['why']})" if ran and job["why"] else ""),
        "ended": dated(job["end_s"]),
        "waited": "" if not ran else time_text(round((job["start_s"] - job["submit_s"]) * 1e6)),
        "ran": "" if job["end_s"] is None or not ran else time_text(round((job["end_s"] - job["start_s"]) * 1e6)),
        "preempted": f"{job['preemptions']} times; {goes_on(job['keeps'])}" if job["preemptions"] else "",
        "exit code": "" if job["exit_code"] is None else str(job["exit_code"]),
        "signal": str(job["signal"] or ""),
        "peak memory": size_text(job["maxrss"]) if job["maxrss"] else "",
        "cpu time": "" if job["cpu_s"] is None else clock_text(round(job["cpu_s"] * 1e6)),
        "output": str(job["output"] or ""),
        "errors": str(job["error"] or ""),
    }
    return [(name, text) for name, text in found.items() if text]


def _cpus(job: Facts) -> str:
    parts = [f"{name} {numbers_text(job[key])}" for name, key in (("cpus", "cpu_ids"), ("gpus", "gpu_ids")) if job[key]]
    return ", ".join([job["node"], *parts]) if job["start_s"] is not None else ""


def story(job: Facts) -> list[tuple[str, str, str]]:
    """Return the events of a job: when, what, and with which data."""
    return [
        (dated(t), EVENTS.get(kind, kind), edit_text(data["to"]) if kind == "edit" else event_text(data))
        for t, kind, data in job["events"]
    ]


def explanation(answer: Facts) -> list[tuple[Markup, list[Markup]]]:
    """Return why a job waits: statements, each with its details; what would help is apart, see `helps`."""
    found: list[tuple[Markup, list[Markup]]] = []
    for line in explained(answer):
        if line.startswith(HEAD):
            break
        text = linked(line.strip())
        if line.startswith(" ") and found:
            found[-1][1].append(text)
        else:
            found.append((text, []))
    return found


def helps(answer: Facts) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the changes with which a job would start earlier: in words, the start, and the fields of the form that
    tries them; without fields for changes that the form does not try."""
    for change in answer.get("would_help", ()):
        fields: dict[str, str] = {}
        if "walltime_s" in change:
            fields = {"time": option_time(change["walltime_s"])}
            what = f"a limit of {time_text(round(change['walltime_s'] * 1e6))}"
        elif "resource" in change and change["resource"] in ("cpus", "memory"):
            memory = change["resource"] == "memory"
            fields = {"mem": f"{change['amount'] >> 20}M"} if memory else {"cpus": str(change["amount"])}
            what = f"{size_text(change['amount'])} of memory" if memory else f"{change['amount']:,} cpus"
        elif "cancel" in change:
            what = f"the end of job {change['label']}"
        elif around := change_around(change):
            what = around
        elif "resource" in change:
            what = f"{change['resource']}: {change['amount']}"
        elif "tasks" in change:
            what = f"{change['tasks']:,} tasks"
        else:
            what = ", ".join(f"{name} {text or 'any'}" for name, text in change.items()
                             if name in ("partition", "constraint", "site", "spread"))  # fmt: skip
        yield what, when(change, answer["now_s"]), fields


def when(start: Facts, now: float) -> str:
    """Return when a changed job would start."""
    if start["now"]:
        return "now"
    return "too far ahead to say" if start["start_s"] is None else start_text(start["start_s"], round(now * 1e6))


def change_of(query: Mapping[str, str]) -> Facts:
    """Return the change of a job that the fields of a form ask for, as requests have it. Raises Unreadable."""
    words = []
    for field, option in (("time", "--time"), ("cpus", "--cpus-per-task"), ("mem", "--mem")):
        if value := query.get(field, "").strip():
            words += [f"{option}={value}"]
    options, _, _ = parse("submit", words)
    need = amounts_of(options) if options.keys() - {"walltime"} else {}
    return {**({"walltime": options["walltime"]} if "walltime" in options else {}), **({"need": need} if need else {})}


def fields_of(job: Facts) -> dict[str, str]:
    """Return the present values of the fields of that form."""
    memory = job["need"].get("memory", 0)
    return {
        "time": option_time(job["limit_s"]) if job["limit_s"] >= 60 else f"{job['limit_s']:.0f}s",
        "cpus": str(job["need"].get("cpus", 1)),
        "mem": f"{memory >> 20}M" if memory else "",
    }


def verbs(job: Facts) -> list[str]:
    """Return the verbs that change a job in its state."""
    if job["end_s"] is not None:
        return []
    if job["state"] != PENDING:
        return ["cancel", "requeue"]
    held = job["reason"] in ("JobHeldUser", "LaunchFailed", "StartsDeclined")
    return ["cancel", "release" if held else "hold"]


def status(job: Facts, now: float) -> str:
    """Return the state of a job as a sentence."""
    if job["state"] == PENDING:
        text = waiting_text(job).partition("; next:")[0].partition("; guaranteed")[0]
        return text.removeprefix(f"job {job['label']} is pending, it ").capitalize() if job["label"] in text else text
    word = job["state"].lower().replace("_", " ").capitalize()
    if job["end_s"] is None:
        left = job["start_s"] + job["limit_s"] - now
        limit = f"its limit ends it in {time_text(round(left * 1e6))}" if left > 0 else "it is over its limit"
        return f"{word} since {dated(job['start_s'])}; {limit}"
    why = f" ({job['reason']})" if job["reason"] else ""
    code = "" if job["exit_code"] is None else f", exit code {job['exit_code']}"
    return f"{word}{why}, {dated(job['end_s'])}{code}"
