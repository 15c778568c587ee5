"""The options of the queue's verbs, in one table: parsing, help and completion read it. Names follow Slurm's."""

from __future__ import annotations

import re

from backfill.model.names import did_you_mean, help_hint, nearest
from backfill.queue.states import HOLDING, OVER, PENDING
from backfill.queue.words import (
    Unreadable,
    parse_array,
    parse_constraint,
    parse_count,
    parse_dependency,
    parse_gpus,
    parse_id,
    parse_licences,
    parse_memory,
    parse_nodes,
    parse_time,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time, for every submit
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


SHORT = {"PD": "PENDING", "R": "RUNNING", "CG": "ENDING", "CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT",
         "CA": "CANCELLED", "OOM": "OUT_OF_MEMORY", "DL": "DEADLINE", "NF": "NODE_FAIL"}  # Slurm's  # fmt: skip


class Option:
    """One option: its names, the key of its value, how the value is read (None: a flag), and its help."""

    def __init__(self, names: str, key: str, read: Callable[[str], Any] | None, help: str, value: str = "") -> None:
        self.names, self.key, self.read, self.help, self.value = names, key, read, help, value

    @property
    def each(self) -> list[str]:
        """All names of the option."""
        return self.names.split()

    @property
    def shown(self) -> str:
        """The name used in messages."""
        return self.each[-1]


def text(value: str) -> str:
    """Return the value unchanged."""
    return value


def _priority(value: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,9}", value):
        raise Unreadable(f"{value!r} is not a whole number")
    return int(value)


def parse_signal(value: str) -> int:
    """Return the number of a signal given as USR1, SIGUSR1 or 10."""
    import signal

    name = value.upper().removeprefix("SIG")
    number = int(value) if value.isdecimal() else getattr(signal, f"SIG{name}", 0)
    if not 1 <= number <= 64:
        raise Unreadable(f"{value!r} is not a signal; expected for instance USR1")
    return int(number)


def _signal(value: str) -> list[int]:
    match = re.fullmatch(r"(B:)?([A-Za-z0-9]+)(?:@(\d+))?", value)
    if not match:
        raise Unreadable(f"{value!r} is not a signal; expected for instance USR1@300")
    return [parse_signal(match[2]), int(match[3] or 60), match[1] is not None]


def _new_dependency(value: str) -> dict[str, object]:
    return {"after": [], "any_of": False} if value == "none" else parse_dependency(value)


def parse_names(value: str) -> list[str]:
    """Return names separated by commas."""
    return [part for part in value.split(",") if part]


def _states(value: str) -> list[str]:
    known = (*HOLDING, PENDING, *OVER)
    states = [SHORT.get(part, part) for part in parse_names(value.upper())]
    for state in states:
        if state not in known:
            hint = did_you_mean(state, known, f"expected {', '.join(known)}")
            raise Unreadable(f"{state} is not a state; {hint}")
    return states


def _nodes_reserved(value: str) -> int | list[str]:
    names = parse_names(value)
    if not names or value == "0":
        raise Unreadable(f"{value!r} is neither nodes nor a number of them; expected for instance n1,n2 or 2")
    return int(value) if value.isdecimal() else names


def _amounts(value: str) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for part in parse_names(value):
        name, colon, amount = part.partition(":")
        if not name or not colon:
            raise Unreadable(f"{part!r} is not an amount; expected for instance cpus:4 or memory:8G")
        amounts[name] = parse_memory(amount) if name == "memory" else parse_count(amount)
    if not any(amounts.values()):
        raise Unreadable(f"{value!r} is no amount; expected for instance cpus:4")
    return amounts


def _gres(value: str) -> tuple[int, str]:
    if value.partition(":")[0] != "gpu":
        raise Unreadable(f"{value!r}: only gpu is known; other countable things are licences")
    return parse_gpus(value) if ":" in value else (1, "")


SUBMIT = (
    Option("-t --time", "walltime", parse_time, "Walltime: minutes, H:M:S, D-H:M:S, or 90s, 1.5h, 2d.", "TIME"),
    Option("-c --cpus-per-task --cpus", "cpus", parse_count, "Cpus of each task. [default: 1]", "N"),
    Option("-n --ntasks", "tasks", parse_count, "Number of tasks, each with its own cpus.", "N"),
    Option("-N --nodes", "nodes", parse_nodes, "Number of nodes, with equally many tasks on each: 2, 2-4.", "N"),
    Option("--tasks-per-node --ntasks-per-node", "tasks_per_node", parse_count, "Tasks on each node.", "N"),
    Option("--mem", "memory", parse_memory, "Memory on each node, for instance 16G; without a unit MiB.", "SIZE"),
    Option("--mem-per-cpu", "memory_per_cpu", parse_memory, "Memory for each of its cpus.", "SIZE"),
    Option("-G --gpus", "gpus", parse_gpus, "Gpus of the whole job, of any type or of one: a100:2.", "[TYPE:]N"),
    Option("--gpus-per-node", "gpus_per_node", parse_gpus, "Gpus on each node.", "[TYPE:]N"),
    Option("--gpus-per-task", "gpus_per_task", parse_gpus, "Gpus for each task.", "[TYPE:]N"),
    Option("--gres", "gpus_per_node", _gres, "The same as --gpus-per-node, as gpu:N.", "gpu:[TYPE:]N"),
    Option("-C --constraint", "constraint", parse_constraint, "Features of its nodes: gpu&ssd, a100|h100, !old.",
           "LIST"),
    Option("-p --partition", "partition", text, "Partition.", "NAME"),
    Option("--qos", "qos", text, "Quality of service.", "NAME"),
    Option("--exclusive", "exclusive", None, "It has its nodes exclusively."),
    Option("--reservation", "reservation", text, "The advance reservation in which it runs.", "NAME"),
    Option("-L --licenses", "licences", parse_licences, "Licences: NAME:COUNT,...", "LIST"),
    Option("-J --job-name", "name", text, "Name. [default: the command's]", "NAME"),
    Option("-a --array", "array", parse_array, "One job per index: 1-10, 0-9:3, 1-1000%20.", "LIST"),
    Option("-d --dependency", "dependency", parse_dependency, "afterok:ID, afternotok, afterany, after, aftercorr, "
           "singleton; , for and, ? for or.", "LIST"),
    Option("-b --begin", "begin", text, "Earliest start: now+2h, 16:00, 2030-01-31T08:00.", "TIME"),
    Option("--deadline", "deadline", text, "Start only if it can end by then.", "TIME"),
    Option("-H --hold", "held", None, "Wait until it is released."),
    Option("--priority", "priority", _priority, "Higher goes first, if the policy uses it.", "N"),
    Option("-A --account --project", "project", text, "Project of the job. Without a command, --project FILE queues "
           "all jobs of a project file, or none.", "NAME"),
    Option("--notify", "notify", text, "Run this command once the job has ended, with BACKFILL_STATE and others.",
           "COMMAND"),
    Option("--retry", "retry", parse_count, "Run again if it fails, at most N times.", "N"),
    Option("--requeue", "requeue", None, "Run again if the machine goes down meanwhile. A job may then run twice."),
    Option("--signal", "warn", _signal, "Signal before the walltime ends: USR1@300; B:USR1@300 for "
           "the first process alone.", "NAME@S"),
    Option("--grace", "grace", parse_time, "Time between TERM and KILL at the walltime. [default: 30s]", "TIME"),
    Option("-o --output", "output", text, "File for its output; %j is its number, %x its name.", "FILE"),
    Option("-e --error", "error", text, "File for its errors. [default: with the output]", "FILE"),
    Option("-i --input", "input", text, "File for its input. [default: none]", "FILE"),
    Option("--open-mode", "mode", text, "append or truncate. [default: append]", "MODE"),
    Option("-D --chdir", "cwd", text, "Working folder. [default: the current folder]", "DIR"),
    Option("--export", "export", text, "Its environment: ALL, NONE, or NAMES and NAME=VALUE. [default: ALL]", "LIST"),
    Option("--keep-descendants", "keep_descendants", None, "Processes that it leaves behind keep running."),
    Option("--wrap", "wrap", text, "A command for /bin/sh -c, instead of a command after --.", "TEXT"),
    Option("--from", "source", text, "Queue the jobs of a workload file (SWF, CSV, Parquet) on a fake pool.", "FILE"),
    Option("--test-only", "test", None, "Show when it would start; queue nothing."),
    Option("--parsable", "parsable", None, "Print only the job number."),
    Option("-W --wait", "wait", None, "Wait for its end and return its exit code."),
    Option("--json", "json", None, "Print one JSON object."),
    Option("-q --quiet", "quiet", None, "Print errors only."),
)  # fmt: skip
COUNTED = ("--mem", "-G", "--gres", "-L")  # options of `slots`
CHANGED = ("-c", *COUNTED, "-C", "-p", "--qos")  # options of `edit`
JSON = Option("--json", "json", None, "Print one JSON object.")
ALL = Option("--all", "all", None, "All jobs that have not ended.")
OF_PROJECT = Option("--project", "of_project", text, "All jobs of this project that have not ended.", "NAME")
FORCE = Option("--force", "force", None, "Even if running jobs are ended by it.")
NAMED = Option("--name", "name", text, "All jobs of this name that have not ended.", "NAME")


class Verb:
    """A verb of the queue: its help, usage, options and examples."""

    def __init__(self, help: str, usage: str, options: Sequence[Option], examples: Sequence[str]) -> None:
        self.help, self.usage, self.options, self.examples = help, usage, options, examples


SOME = (ALL, NAMED, OF_PROJECT)
WHAT = "[OPTIONS] -- COMMAND... | [OPTIONS] SCRIPT [ARGUMENTS...] | --from FILE | --project FILE"
VERBS = {
    "submit": Verb("Queue a job.", WHAT, SUBMIT, (
        "backfill submit --time 2h --cpus 4 -- make -j4", "backfill submit run.sh",
        "backfill submit --project climate.toml")),
    "queue": Verb("Show the queue.", "", (
        Option("--ended", "ended", parse_count, "Also the last N jobs that have ended.", "N"),
        Option("-t --state", "states", _states, "Jobs in these states: PENDING, RUNNING, ...", "STATE,..."),
        Option("-u --user", "users", parse_names, "Jobs of these users.", "NAME,..."),
        Option("--name", "names", parse_names, "Jobs with these names.", "NAME,..."),
        Option("--project", "projects", parse_names, "Jobs of these projects.", "NAME,..."),
        Option("-n --lines", "most", parse_count, "At most N lines; with --json, N jobs.", "N"), JSON), (
        "backfill queue", "backfill queue --user ana --state PENDING", "backfill queue --ended 10")),
    "show": Verb("Show all details of jobs, or of a project.", "ID... | --project NAME", (
        NAMED, Option("--project", "of_project", text, "A project: its jobs, the departures that it was promised, and "
                      "how these were kept.", "NAME"), JSON), (
        "backfill show 118", "backfill show --project climate")),
    "cancel": Verb("End jobs, or take them out of the queue.", "ID...", (
        *SOME, Option("-s --signal", "signal", parse_signal, "Send this signal, USR1 for instance, in place of "
                      "ending them.", "NAME"), JSON), ("backfill cancel 118", "backfill cancel --project climate")),
    "hold": Verb("Keep pending jobs from starting.", "ID...", (*SOME, JSON), (
        "backfill hold 118 120-125", "backfill hold --name sweep")),
    "release": Verb("Release held jobs.", "ID...", (*SOME, JSON), ("backfill release 118", "backfill release --all")),
    "edit": Verb("Change pending jobs.", "[OPTIONS] ID...", (
        Option("-t --time", "walltime", parse_time, "New walltime.", "TIME"),
        Option("--priority", "priority", _priority, "New priority.", "N"),
        *(option for option in SUBMIT if option.names.split()[0] in CHANGED),
        Option("-J --job-name", "new_name", text, "New name.", "NAME"),
        Option("-d --dependency", "dependency", _new_dependency, "As in submit; none.", "LIST"),
        Option("-b --begin", "begin", text, "Earliest start, as in submit; now.", "TIME"),
        Option("--deadline", "deadline", text, "As in submit; none.", "TIME"),
        Option("--reservation", "reservation", text, "As in submit; none.", "NAME"), JSON), (
        "backfill edit 118 --time 2h", "backfill edit 118 --cpus 2 --mem 8G", "backfill edit 118 --dependency none")),
    "requeue": Verb("End running jobs, and queue them again.", "ID...", (*SOME, JSON), (
        "backfill requeue 118", "backfill requeue --name sweep")),
    "suspend": Verb("Suspend running jobs; they keep their cpus and their limits.", "ID...", (*SOME, JSON), (
        "backfill suspend 118",)),
    "reserve": Verb("Make an advance reservation, or list them.", "[NAME]", (
        Option("-N --nodes", "reserved", _nodes_reserved, "Whole nodes: their names, which may be patterns such as n*, "
               "or how many.", "NAME,...|N"),
        Option("--amount", "amount", _amounts, "An amount of resources, on these nodes or wherever it is free: "
               "cpus:4,memory:8G.", "RESOURCE:N,..."),
        Option("--from", "begin", text, "When it begins, as --begin of submit. [default: now]", "TIME"),
        Option("--until", "until", text, "When it ends.", "TIME"),
        Option("--for", "span", parse_time, "How long it lasts, instead of --until.", "TIME"),
        Option("--user", "user", text, "Whose jobs may use it.", "NAME"),
        Option("--group", "group", text, "The jobs of this group may use it.", "NAME"),
        Option("--project", "project", text, "The jobs of this project may use it.", "NAME"),
        FORCE, JSON), (
        "backfill reserve course --nodes 2 --from 14:00 --for 2h --group students",
        "backfill reserve demo --amount cpus:2 --for 30m --user ana", "backfill reserve")),
    "unreserve": Verb("End an advance reservation now, and its running jobs.", "NAME", (FORCE, JSON), (
        "backfill unreserve course",)),
    "pause": Verb("Start no more jobs; running jobs continue. resume ends it.", "", (JSON,), ("backfill pause",)),
    "resume": Verb("Let the queue start jobs again; with ID, resume suspended jobs.", "[ID...]", (
        *SOME, JSON), ("backfill resume", "backfill resume 118")),
    "wait": Verb("Wait until jobs have ended; return the exit code of the job.", "ID...", (
        *SOME, Option("--timeout", "timeout", parse_time, "Stop waiting after this time.", "TIME"), JSON), (
        "backfill wait 118 && echo done", "backfill wait --name sweep --timeout 2h")),
    "log": Verb("Print the output of a job.", "[OPTIONS] ID", (
        Option("-f --follow", "follow", None, "Follow the output until the job has ended."),
        Option("--err", "err", None, "Print standard error, if it has its own file."),
        Option("--json", "json", None, "Print one JSON object, with all that was printed so far.")), (
        "backfill log 118", "backfill log 118 --follow")),
    "eta": Verb("Estimate when pending jobs start, and when a project departs.", "[ID...] | --project NAME", (
        NAMED, Option("--project", "of_project", text, "Jobs of this project, and the end of the last one.", "NAME"),
        Option("--accuracy", "accuracy", None, "Show how accurate earlier estimates were."), JSON), (
        "backfill eta", "backfill eta 118", "backfill eta --project climate", "backfill eta --accuracy")),
    "explain": Verb("Explain why a job does not run yet, which jobs went first, and what would help.", "ID", (JSON,), (
        "backfill explain 118", "backfill explain 12_3 --json")),
    "slots": Verb("Show what fits now: how many cpus for how long.", "[OPTIONS]", (
        Option("-t --time", "walltime", parse_time, "For at least this time.", "TIME"),
        *(option for option in SUBMIT if option.names.split()[0] in COUNTED), JSON), (
        "backfill slots", "backfill slots --time 2h --mem 16G")),
    "plan": Verb("Draw the plan: jobs that ran, run and wait, on nodes and licences over time.", "[OPTIONS]", (
        Option("--since", "since", text, "Where it begins: 30m and 7d are that long ago; 16:00, 2030-01-31T08:00. "
               "[default: 2h]", "TIME"),
        Option("--until", "until", text, "Where it ends: 4h is that long from now; 16:00. [default: the last end]",
               "TIME"),
        Option("-u --user", "users", parse_names, "Jobs of these users.", "NAME,..."),
        Option("-w --nodes", "nodes", parse_names, "These nodes, and jobs that run there or may.", "NAME,..."),
        Option("-n --lines", "most", parse_count, "At most N lines of jobs. [default: 40]", "N"),
        Option("--report", "report", text, "Write it as one page that needs no network.", "FILE"),
        JSON), (
        "backfill plan", "backfill plan --report plan.html",
        "backfill plan --since 1d --until 12h", "backfill plan --nodes n1,n2 --user ana")),
    "top": Verb("Watch the queue; q or Ctrl-C ends it.", "", (
        Option("--every", "every", parse_time, "Time between updates. [default: 2s]", "TIME"),
        Option("--once", "once", None, "Print it once, as without a terminal."), JSON), (
        "backfill top", "backfill top --every 10s")),
    "doctor": Verb("Check what this machine offers to the queue, and what is wrong.", "", (
        Option("--deep", "deep", None, "Also check the whole log: its file, its tables, each job at each instant."),
        JSON), (
        "backfill doctor", "backfill doctor --deep")),
    "serve": Verb("Run the daemon in the foreground, or stop it. It starts by itself at the first submit.", "", (
        Option("--stop", "stop", None, "Stop the daemon; running jobs continue."),
        Option("--backup", "backup", text, "Copy the store, as it is now, to this file.", "FILE"),
        Option("--restore", "restore", text, "Continue from a copy of the store; jobs begun since do not run again.",
               "FILE"),
        Option("--detach", "detach", None, "Run it in the background."),
        Option("--install", "install", None, "Have it started at boot, by a systemd user unit or by crontab."),
        Option("--uninstall", "uninstall", None, "Undo --install."),
        Option("--pool", "pool", text, "For a new queue, where jobs run. local: on this machine; fake:SPEED: on a "
               "simulated cluster, SPEED times faster than real time; slurm, htcondor: a batch system, whose jobs the "
               "queue starts, or watches with --shadow.", "POOL"),
        Option("--shadow", "shadow", None, "Only watch a batch system, and show what the policy would have done."),
        Option("--adopt", "adopt", None, "Take over jobs that wait in the batch system as they come, and start them by "
               "the policy (experimental)."),
        Option("--platform", "platform", text, "For a new queue, its nodes, partitions, limits and licences.", "FILE"),
        Option("--predict", "predict", text, "For a new queue, plan by predicted run times, as simulate does.",
               "RULE"),
        Option("--metrics-file", "metrics_file", text, "Write metrics for Prometheus to this file, every 15 s, also by "
               "later daemons.", "FILE"),
        Option("--policy", "policy", text, "Let another policy take over while jobs run and wait.", "NAME"),
        Option("--dry-run", "dry", None, "Only show what would change."),
        Option("--drop-promises", "drop", None, "Let it take over even if promised starts come later."),
        Option("--web", "web", None, "Serve the page of the queue, REST and metrics, in a process of its own."),
        Option("--listen", "listen", text, "Where --web listens. [default: 127.0.0.1:8765]", "HOST:PORT|unix:PATH"),
        Option("--read-only", "read_only", None, "With --web: nothing can be changed; it has a token of its own."),
        Option("--new-token", "new_token", None, "With --web: make a new token, which ends all sessions."),
        Option("--host", "hosts", parse_names, "With --web: further names by which browsers reach it.", "NAME,..."),
        Option("--tls-cert", "tls_cert", text, "With --web: serve HTTPS with this certificate.", "FILE"),
        Option("--tls-key", "tls_key", text, "The key of the certificate.", "FILE"),
        Option("--insecure", "insecure", None, "Serve other machines without TLS."),
        Option("--json", "json", None, "With --policy: print one JSON object.")), (
        "backfill serve --stop", "backfill serve --web",
        "backfill serve --pool fake:60 --platform cluster.toml --detach",
        "backfill serve --pool slurm --shadow --detach",
        "backfill serve --policy easy --dry-run",
        "backfill serve --policy easy-sjf --drop-promises")),
}  # fmt: skip


def parse(verb: str, words: Sequence[str], more: Sequence[Option] = ()) -> tuple[dict[str, Any], list[str], bool]:
    """Return options by key, the remaining words, and whether `--` preceded them.

    Options of `submit` end at the first other word. more: further options, which take precedence over those of the
    verb. Raises Unreadable.
    """
    table = {name: option for option in (*VERBS[verb].options, *more) for name in option.each}
    options: dict[str, Any] = {}
    left: list[str] = []
    todo = [*words]
    while todo:
        word = todo.pop(0)
        if word == "--":
            return options, left + todo, True
        if not word.startswith("-") or word == "-":
            left.append(word)
            if verb == "submit":
                return options, left + todo, False
            continue
        name, equals, value = _split(word)
        option = table.get(name) or _begun(name, table)
        if option is None:
            raise Unreadable(unknown_option(name, table, f"backfill {verb}"))
        if option.read is None:
            if equals and not option.value:
                raise Unreadable(f"{option.shown} takes no value")
            options[option.key] = True
            continue
        if not equals:
            if not todo:
                raise Unreadable(f"{option.shown} needs a value")
            value = todo.pop(0)
        try:
            options[option.key] = option.read(value)
        except Unreadable as error:
            raise Unreadable(f"{option.shown}: {error}") from None
    return options, left, False


def unknown_option(name: str, known: Iterable[str], command: str) -> str:
    """Return the message about an option that a command does not have."""
    near = nearest(name, [each for each in known if each.startswith("--")]) if name.startswith("--") else ""
    return f"unknown option {name}; {help_hint(near, command)}"


def has(names: Sequence[str], verb: str, words: Sequence[str]) -> bool:
    """Return whether one of these is among the options; after the command of `submit` it belongs to that command."""
    table = {name: option for option in VERBS[verb].options for name in option.each}
    todo = [*words]
    while todo and todo[0] != "--" and not (verb == "submit" and not todo[0].startswith("-")):
        word = todo.pop(0)
        name, equals, _ = _split(word)
        option = table.get(name) or _begun(name, table)
        if name in names or (option is not None and option.each[-1] in names):
            return True
        if option is not None and option.read is not None and not equals:
            todo = todo[1:]  # its value
    return False


def _split(word: str) -> tuple[str, str, str]:
    """Return an option's name, a non-empty text if a value is attached, and that value."""
    return word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])


def _begun(name: str, table: dict[str, Option]) -> Option | None:
    """Return the option abbreviated by a name; None if there is none or more than one."""
    matches = {id(option): option for full, option in table.items() if name.startswith("--") and full.startswith(name)}
    return next(iter(matches.values())) if len(matches) == 1 else None


def help_text(verb: str) -> str:
    """Return the output of `backfill VERB --help`."""
    about = VERBS[verb]
    lines = [f"Usage: backfill {verb} {about.usage}".rstrip(), "", f"  {about.help}", ""]
    if about.options:
        lines.append("Options:")
        for option in about.options:
            head = f"  {', '.join(option.each)}{' ' + option.value if option.value else ''}"
            lines += [head, f"      {option.help}"] if len(head) > 28 else [f"{head:<30}{option.help}"]
    lines += ["", "Examples:", *(f"  {line}" for line in about.examples)]
    return "\n".join(lines) + "\n"


def ids_of(options: dict[str, Any], left: Sequence[str]) -> list[Any]:
    """Return the jobs that a command line names, as a request has them. Raises Unreadable if there are none."""
    ids: list[Any] = [parse_id(part) for word in left for part in word.split(",")]
    if options.get("all"):
        ids.append("all")
    if "name" in options:
        ids.append({"name": options["name"]})
    if "of_project" in options:
        ids.append({"project": options["of_project"]})
    if not ids:
        raise Unreadable("no job; expected its number")
    return ids
