"""Print the queue, its jobs and changes of them on a terminal."""

from __future__ import annotations

from backfill.model.names import printable
from backfill.model.units import (
    SECOND,
    bound_text,
    clock_text,
    counted,
    date_text,
    local_text,
    more_text,
    names_text,
    numbers_text,
    size_text,
    time_text,
)
from backfill.queue.words import WHOLE, asks_text, needs_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    Facts = dict[str, Any]

OLD_S = 10.0  # seconds; the age of older estimates is shown
NODES_MAX = 30  # most characters of the column
NAMED = 20  # most labels of changed jobs that are printed
# columns of jobs that a narrow terminal leaves out, the first ones first
SPARED = ("USER", "NEEDS", "MEM", "LIMIT", "90 %", "LIKELY", "ELAPSED", "NODES", "CPUS", "LEFT", "NAME", "GUARANTEED")
INSTANTS = ("start_s", "ended_s", "due_s", "begin_s", "deadline_s")  # in events; other names in _s are spans
WAITS = {
    "JobHeldUser": "it is held; next: backfill release {}",
    "BadConstraints": "it can never run on this platform; next: backfill explain {}",
    "LaunchFailed": "it is held since three launches failed; next: backfill release {}",
    "StartsDeclined": "it is held: the policy started it 20 times although it did not fit; next: backfill release {}",
    "BeginTime": "its begin time, {}",
    "Dependency": "other jobs: {}",
    "JobArrayTaskLimit": "other tasks of its array, of which {} may run at once",
    "Planner": "the policy, which is being started",
    "Paused": "the queue, which is paused; next: backfill resume",
    "Preempting": "jobs that make way for it and are being ended",
    "Reservation": "reservation {} to begin",
    "Resources": "what it needs: {}",
    "Limit": "a limit on running jobs; next: backfill explain {}",
    "Priority": "jobs that go first",
}
AT_RISK = "deadline at risk"
PAST = {"cancel": "cancelled", "hold": "held", "edit": "changed", "signal": "sent a signal to"}


def print_queue(found: Facts, hint: str = "") -> None:
    """Print jobs of the queue, and a line about the machine. hint: how to see more jobs."""
    now = round(found["now_s"] * 1e6)
    ahead = starts_shown(found)
    nodes = ["NODES"] if any("nodes" in job for job in found["jobs"]) else []
    lines = [["JOB", "NAME", "STATE", "CPUS", "MEM", "LIMIT", "ELAPSED", *ahead.values(), *nodes, "WHY"]]
    for job in found["jobs"]:
        *cells, reason = _line(job, now, ahead)
        lines.append([*cells, *(nodes and [_shortened(nodes_text(job.get("nodes", ())))]), reason])
    if len(lines) > 1:
        shown = fitting(lines, terminal_width())
        right = [place for place, column in enumerate(shown) if column == 0 or 3 <= column < 7 + len(ahead)]
        table([[line[column] for column in shown] for line in lines], right)
        if out := [head for column, head in enumerate(lines[0]) if column not in shown]:
            print(f"left out on a terminal this narrow: {', '.join(out)}")
    if found["more"]:
        print(f"and {more_text(found['more'])}{hint}")
    states = found["states"]
    running = sum(states.get(state, 0) for state in ("STARTING", "RUNNING", "ENDING"))
    held = found["held"]
    used = [f"cpus {held.get('cpus', 0)}/{found['capacity'].get('cpus', 0)}"]
    for name, amount in found["capacity"].items():
        if name == "memory" and held.get(name):
            used.append(f"memory {size_text(held[name])}/{size_text(amount)}")
        elif name not in ("cpus", "memory") and amount:
            used.append(f"{name} {held.get(name, 0)}/{amount}")
    for name, licence in found["licences"].items():
        if licence["stale"]:
            used.append(f"{name} not asked: {printable(licence['problem'])}")
        elif licence["others"]:
            used.append(f"others use {licence['others']} {name}")
    policy = f"policy {found['policy']}{planned_by(found)}"
    if found["policy"] != found["asked_policy"]:
        policy += f" in place of {found['asked_policy']}, which failed twice at the same pass"
        policy += f" (backfill serve --policy {found['asked_policy']} tries it again)"
    if found["planner"] != "ready":
        policy += ", which is starting"
    if found.get("shadow"):
        policy += f", which only watches {found['pool']}"
        policy += f" does not answer: {printable(found['problem'])}" if found["problem"] else ""
    if found["paused"]:
        policy += ". paused: nothing starts until backfill resume"
    for line in reservation_lines(found.get("reservations", ()), found["now_s"]):
        print(printable(line))
    print(f"{running} running, {states.get('PENDING', 0)} pending; {', '.join(used)}. {policy}{age_text(found)}")


def planned_by(found: Facts) -> str:
    """Return by which predictions the policy plans; empty if by walltimes. found: the answer to `queue`."""
    if not found.get("predict"):
        return ""
    text = f", by predictions of {found['predict']}"
    if later := found.get("predict_after"):
        one = len(later) == 1
        text += f" once reservation{'' if one else 's'} {', '.join(later)} {'is' if one else 'are'} over"
    return text


def reservation_lines(some: Sequence[Facts], now_s: float) -> Iterator[str]:
    """Yield a line for each reservation: where, when and for whom."""
    now = round(now_s * 1e6)
    for each in some:
        begin, until = (local_text(round(each[name] * 1e6), now) for name in ("begin_s", "until_s"))
        owners = ", ".join(f"{owner} {each[owner]}" for owner in ("user", "group", "project") if each[owner])
        whole = names_text(name for name, _, whole in each["nodes"] if whole)
        parts = [f"{_amounts_text(has)} of {name}" for name, has, whole in each["nodes"] if not whole]
        where = ", ".join([*([f"all of {whole}"] if whole else []), *parts])
        since = f"since {begin}" if each["begin_s"] <= now_s else f"from {begin}"
        yield f"reservation {each['reservation']}: {where}, {since} until {until}, for {owners}"


def _amounts_text(amounts: dict[str, int]) -> str:
    return needs_text({"cpus": 0, **amounts}).removeprefix("0 cpus, ")


def starts_shown(found: Facts) -> dict[str, str]:
    """Return the headings of the columns of future starts, by field; estimates only if a job has one."""
    columns = {"guaranteed_s": "GUARANTEED"}
    if found.get("shadow"):
        columns = {"expected_s": found["pool"].upper()}
    if any(job.get("median_s") is not None for job in found["jobs"]):
        columns |= {"median_s": "LIKELY", "p90_s": "90 %"}
    return columns


def age_text(found: Facts) -> str:
    """Return the age of the estimates, if it matters."""
    known = found.get("estimates") or {}
    if "age_s" not in known:
        return ". estimates come in a moment" if known else ""
    few = known.get("wide_from_jobs")
    wide = "" if few is None else f". wide bounds: from {counted(few, 'ended job') if few else 'no ended job'}"
    if known["current"] and known["age_s"] < OLD_S:
        return wide
    return f"{wide}. estimates {time_text(round(known['age_s']) * 10**6)} old"


def start_text(seconds: float | None, now: int) -> str:
    """Return the text of a future start, rounded up."""
    return "-" if seconds is None else bound_text(round(seconds * 1e6), now)


def _line(job: Facts, now: int, ahead: Iterable[str]) -> list[str]:
    running = job["start_s"] is not None and job["end_s"] is None
    if job["start_s"] is None:
        elapsed = "-"
    else:
        elapsed = clock_text((now if running else round(job["end_s"] * 1e6)) - round(job["start_s"] * 1e6))
    parts = job.get("parts", 1)
    return [
        job["label"], printable(job["name"])[:20], job["state"], str(job["need"]["cpus"] * parts),
        size_text(job["need"].get("memory", 0) * parts), clock_text(round(job["limit_s"] * 1e6)), elapsed,
        *(start_text(job.get(name), now) for name in ahead), why_text(job),
    ]  # fmt: skip


def why_text(job: Facts) -> str:
    """Return why a job does not run, with a mark if it may miss its deadline."""
    return f"{job['reason']}, {AT_RISK}" if job.get("misses_deadline") else str(job["reason"])


def _advised(job: Facts) -> str:
    """Return when the policy of a queue that only watches would have started a job, and how much before its start."""
    advised, start = job.get("advised_s"), job["start_s"]
    if advised is None:
        return ""
    ahead = f", {clock_text(round((start - advised) * 1e6))} before its start" if start and start > advised else ""
    return f"{dated(advised)}{ahead}"


def print_job(job: Facts) -> None:
    """Print all facts about a job."""
    facts = {
        "name": job["name"],
        "user": job["user"],
        "project": job["project"],
        "state": job["state"] + (f" ({job['reason']})" if job["reason"] else ""),
        "command": " ".join(job["argv"]),
        "in": str(job["cwd"] or ""),
        "needs": asks_text(job),
        "tasks": str(job.get("ntasks", "")),
        "constraint": job.get("constraint", ""),
        "partition": job.get("partition", ""),
        "reservation": job.get("reservation", ""),
        "qos": job.get("qos", ""),
        "runs on": _place(job),
        "limit": f"{_span(job['limit_s'])}, grace {_span(job['grace_s'])}",
        "array": _array(job),
        "priority": str(job["priority"]),
        "dependency": job["dependency"],
        "begin": dated(job["begin_s"]),
        "deadline": dated(job["deadline_s"]),
        "requeue": "if the machine goes down" if job["requeue"] else "",
        "restarts": str(job["restarts"] or ""),
        "retries": f"{job['retries']} of {job['retry']}" if job["retry"] else "",
        "input": job["input"] or "",
        "output": job["output"] or "",
        "errors": job["error"] or "",
        "notify": job["notify"],
        "submitted": dated(job["submit_s"]),
        "guaranteed": dated(job["promise_s"]),
        "expected": dated(job.get("expected_s")),
        "advised": _advised(job),
        "started": dated(job["start_s"]) + (f" ({job['why']})" if job["start_s"] and job["why"] else ""),
        "ended": dated(job["end_s"]),
        "preempted": _times(job["preemptions"], job["preempted_for"]),
        "progress": f"{time_text(round(job['done_s'] * SECOND))}; {goes_on(job['keeps'])}" if job["keeps"] else "",
        "exit code": "" if job["exit_code"] is None else str(job["exit_code"]),
        "signal": str(job["signal"] or ""),
        "peak memory": size_text(job["maxrss"] or 0).replace("-", ""),
        "cpu time": _span(job["cpu_s"]),
    }
    print(f"job {job['label']}")
    for name, value in facts.items():
        if value:
            print(f"  {name:<12}{printable(value)}")
    for t, kind, data in job["events"]:
        text = edit_text(data["to"]) if kind == "edit" else event_text(data)
        print(f"  {dated(t)}  {kind} {printable(text)}".rstrip())


def _place(job: Facts) -> str:
    """Return the machine, cpus and gpus of the last attempt."""
    if job.get("nodes"):
        return nodes_text(job["nodes"])
    starts = [data for _, kind, data in job["events"] if kind == "start"]
    if job["start_s"] is None or not starts:
        return ""
    kinds = (("cpus", "cpu_ids"), ("gpus", "gpu_ids"))
    return ", ".join(
        [job["node"], *(f"{name} {numbers_text(starts[-1][key])}" for name, key in kinds if starts[-1][key])]
    )


def nodes_text(nodes: Iterable[Sequence[Any]]) -> str:
    """Return nodes and the tasks on each: n1, n3*2."""
    return ", ".join(name if tasks == 1 else f"{name}*{tasks}" for name, tasks, *_ in nodes)


def _shortened(text: str) -> str:
    return text if len(text) <= NODES_MAX else f"{text[: NODES_MAX - 3]}..."


def _array(job: Facts) -> str:
    if job["index"] is None:
        return ""
    return f"{job['array']}, task {job['index']}" + (f", {job['throttle']} at once" if job["throttle"] else "")


def event_text(data: Facts) -> str:
    """Return the data of an event as text with units."""
    parts = []
    for name, value in data.items():
        if value in ("", None, [], 0):
            continue
        if isinstance(value, dict):
            parts.append(event_text(value))
        elif name in INSTANTS:
            parts.append(f"{name[:-2]}={dated(value)}")
        elif name.endswith("_s"):
            parts.append(f"{name[:-2]}={_span(value)}")
        elif name == "maxrss":
            parts.append(f"{name}={size_text(value)}")
        elif name == "nodes":
            parts.append(f"{name}={nodes_text(value)}")
        elif isinstance(value, list):
            parts.append(f"{name}={','.join(map(str, value))}")
        else:
            parts.append(f"{name}={value}")
    return " ".join(parts)


def edit_text(to: Facts) -> str:
    """Return what `edit` has changed, with units; a removed value is `none`."""
    parts = []
    for name, value in to.items():
        if name == "need":
            amounts = {**value, "memory": size_text(value["memory"])} if value.get("memory") else value
            parts += [f"{resource}={amount}" for resource, amount in amounts.items()]
        elif name == "after":
            some = [f"{kind.removesuffix(WHOLE)}:{number}" for kind, number in value]
            some += ["singleton"] if to.get("singleton") else []
            parts.append(f"dependency={('?' if to.get('any_of') else ',').join(some) or 'none'}")
        elif name in INSTANTS:
            parts.append(f"{name[:-2]}={'none' if value is None else dated(value)}")
        elif name not in ("any_of", "singleton", "never"):  # part of the dependency
            text = "none" if value == "" else value
            parts.append(f"{name[:-2]}={_span(value)}" if name.endswith("_s") else f"{name}={text}")
    return " ".join(parts)


def dated(seconds: float | None) -> str:
    """Return the date of an instant in seconds; empty if there is none."""
    return "" if seconds is None else date_text(round(seconds * 1e6))


def _span(seconds: float | None) -> str:
    """Return a span as text; a short one with two digits."""
    if seconds is None:
        return ""
    return f"{seconds:.2g} s" if 0 < seconds < 10 else time_text(round(seconds * SECOND))


def goes_on(keeps: str) -> str:
    """Return how a preempted job runs again."""
    return {
        "suspend": "it continues from there on the same nodes",
        "checkpoint": "it continues from there, perhaps on other nodes",
    }.get(keeps, "it starts again from the beginning")


def _times(count: int, by: int) -> str:
    """Return how often a job was preempted, and for which job; empty if never."""
    times = "once" if count == 1 else f"{count} times, the last time"
    return (times + (f" for job {by}" if by else "")) if count else ""


def waiting_text(job: Facts) -> str:
    """Return what a pending job waits for."""
    more = {
        "BeginTime": dated(job["begin_s"]),
        "Dependency": job["dependency"],
        "JobArrayTaskLimit": job["throttle"],
        "Reservation": job.get("reservation"),
        "Resources": asks_text(job),
    }
    reason = job["reason"]
    text = str(WAITS.get(reason, reason)).format(more.get(reason, job["label"]))
    start = f"; guaranteed start {dated(job['guaranteed_s'])}" if job["guaranteed_s"] is not None else ""
    held = ("JobHeldUser", "LaunchFailed", "StartsDeclined", "BadConstraints")
    joint = ": " if reason in held else " for "
    return f"job {job['label']} is pending, it waits{joint}{text}{start}"


def changed_text(verb: str, found: Facts) -> str:
    """Return what a verb has changed: cancelled job 7; held 3 jobs: 7, 8, 9."""
    done = PAST.get(verb, f"{verb}d" if verb.endswith("e") else f"{verb}ed")
    count, labels = len(found["ids"]), found["labels"]
    if count == 1:
        return f"{done} job {labels[0]}"
    return f"{done} {count:,} jobs: {first_of(labels, NAMED)}"


def first_of(labels: Sequence[str], most: int) -> str:
    """Return the first of some labels: 2, 3, 4 and 12 more."""
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more


def unchanged_text(found: Facts) -> str:
    """Return the jobs that a verb did not change, and why: job 7 is COMPLETED; jobs 8, 9 are held."""
    parts = []
    for state, labels in found["unchanged"].items():
        more = ", ..." if len(labels) > NAMED else ""
        one = len(labels) == 1 and "[" not in labels[0]
        parts.append(f"job{'' if one else 's'} {', '.join(labels[:NAMED])}{more} {'is' if one else 'are'} {state}")
    return "; ".join(parts)


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if standard output is none, so that nothing need be left out."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitting(lines: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Return the columns of a table that are shown in this width, without as many of SPARED as necessary.

    lines: the headings, and the rows.
    """
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [*range(len(wide))]
    for head in SPARED:
        if width is None or sum(wide[column] for column in shown) + 2 * (len(shown) - 1) <= width:
            break
        shown = [column for column in shown if lines[0][column] != head]
    return shown


def table(lines: list[list[str]], right: Sequence[int]) -> None:
    """Print a header and rows; columns in `right` are right-aligned."""
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    for line in lines:
        cells = [
            cell.rjust(w) if c in right else cell.ljust(w) for c, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
