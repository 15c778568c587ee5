"""The form for a new job: its fields as options of `submit`, so that both read and refuse the same."""

import os
from typing import Any

from backfill.client.options import VERBS, parse
from backfill.client.requests import request_of as request_from
from backfill.queue.words import Unreadable
from backfill.web.problems import Refusal

Facts = dict[str, Any]
DEFAULTS = {"command": "", "name": "", "time": "1:00:00", "cpus": "1", "mem": "", "licenses": "", "array": "",
            "begin": "", "folder": ""}  # fmt: skip
OPTIONS = {"name": "--job-name", "time": "--time", "cpus": "--cpus-per-task", "mem": "--mem", "licenses": "--licenses",
           "array": "--array", "begin": "--begin", "folder": "--chdir"}  # fmt: skip
FIELDS = {"walltime": "time", "cpus": "cpus", "memory": "mem", "cwd": "folder", "need": "cpus"}  # of refusals


def request_of(fields: dict[str, str]) -> Facts:
    """Return the `submit` request of a form. Raises Unreadable."""
    if not fields["command"].strip():
        raise Unreadable("command: there is none; expected what a shell runs")
    words = [f"{option}={value}" for name, option in OPTIONS.items() if (value := fields[name].strip())]
    if not fields["folder"].strip():
        words.append(f"--chdir={os.path.expanduser('~')}")
    if not fields["name"].strip():
        words.append(f"--job-name={os.path.basename(fields['command'].split()[0])[:64]}")
    options, _, _ = parse("submit", words)
    return request_from(options, ["/bin/sh", "-c", fields["command"]])


def field_of(error: Exception) -> str:
    """Return the field of the form that a refusal is about; empty if it is not about one."""
    if isinstance(error, Refusal):
        name = error.field.rpartition(".")[2]
        return FIELDS.get(name, name if name in DEFAULTS else "")
    text = str(error)
    if text.startswith("command:"):
        return "command"
    return next((name for name, option in OPTIONS.items() if text.startswith(_names(option))), "")


def _names(option: str) -> tuple[str, ...]:
    """Return the names of an option, as messages begin with them."""
    return tuple(f"{name}:" for each in VERBS["submit"].options if option in each.each for name in each.each)
