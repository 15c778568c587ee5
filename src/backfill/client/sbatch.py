"""Scripts of Slurm: the options of their #SBATCH lines.

An option that changes what a job needs is translated, or refused by name; other options are ignored, and `submit` lists
them. Options that this queue has under the same name are in options.py.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from itertools import pairwise

from backfill.client.options import Option, parse, text
from backfill.queue.parts import SAME, tasks_of
from backfill.queue.words import Unreadable, parse_count, parse_memory
from backfill.system.home import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Callable
    from typing import Any

    Facts = dict[str, Any]

MAILS = ("END", "FAIL", "ALL")
IGNORED, REFUSED = "ignored:", "refused:"  # prefixes of the keys of such options
MAYBE = "[=VALUE]"  # for a flag that may have a value
ONE = "the queue does not choose among sockets, cores or clusters; remove the option"
REFUSALS = {
    "--ntasks-per-gpu": "expected --ntasks", "--tres-per-task": "expected --cpus-per-task and --gpus",
    "--batch": ONE, "--cluster-constraint": ONE, "-M --clusters": ONE, "-F --nodefile": ONE,
    "-B --extra-node-info": ONE, "--sockets-per-node": ONE, "--cores-per-socket": ONE, "--threads-per-core": ONE,
    "--gpus-per-socket": ONE, "-S --core-spec": ONE, "--thread-spec": ONE,
    "--tmp": "the queue does not count disk space; remove the option",
    "--bb": "the queue has no burst buffers", "--bbf": "the queue has no burst buffers",
    "--container": "the queue starts no containers; start it in the script",
    "--container-id": "the queue starts no containers; start it in the script",
    "--export-file": "expected --export",
    "--uid": "jobs run as the user who submits them", "--gid": "jobs run as the user who submits them",
}  # fmt: skip
REFUSED_FLAGS = {
    "--reboot": "the queue does not restart the machine; remove the option",
}
HARMLESS = (
    "--time-min", "--comment", "--wckey",
    "--mcs-label", "--network", "--cpu-freq", "--gpu-freq", "--gpu-bind", "--gres-flags", "--hint", "-m --distribution",
    "--ntasks-per-core", "--ntasks-per-socket", "--mem-bind", "--tres-bind", "--profile", "--acctg-freq", "--power",
    "--prefer", "--switches", "--wait-all-nodes", "--delay-boot", "--extra", "--segment",
)  # fmt: skip
HARMLESS_FLAGS = (
    "--nice", "--get-user-env", "--propagate", "--contiguous", "-s --oversubscribe", "-O --overcommit", "--spread-job",
    "--use-min-nodes", "-k --no-kill", "-v --verbose", "-Q", "--ignore-pbs", "--stepmgr", "--resv-ports",
)  # fmt: skip


def _refusal(why: str) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        raise Unreadable(why)

    return read


def _is_here(name: str) -> bool:
    here = os.uname().nodename
    return name in (here, here.partition(".")[0], "localhost")


def _nodelist(value: str) -> str:
    if not _is_here(value):
        raise Unreadable(f"{value} is not this machine, {os.uname().nodename}; remove the option")
    return value


def _exclude(value: str) -> str:
    if any(map(_is_here, value.split(","))):
        raise Unreadable(f"{value}: the queue has this machine alone; remove the option")
    return value


def _on_invalid(value: str) -> str:
    if value.lower() != "yes":
        raise Unreadable(f"{value!r}: the queue cancels a job that can never start; expected yes")
    return value


OPTIONS = (
    Option("-q --qos", "qos", text, ""),
    Option("--mincpus", "cpus_least", parse_count, ""),
    Option("--cpus-per-gpu", "cpus_per_gpu", parse_count, ""),
    Option("--mem-per-gpu", "memory_per_gpu", parse_memory, ""),
    Option("--mail-type", "mail_type", text, ""),
    Option("--mail-user", "mail_user", text, ""),
    Option("--no-requeue", "no_requeue", None, ""),
    Option("--kill-on-invalid-dep", "on_invalid", _on_invalid, ""),
    Option("-w --nodelist", "nodelist", _nodelist, ""),
    Option("-x --exclude", f"{IGNORED}--exclude", _exclude, ""),
    *(Option(names, REFUSED, _refusal(why), "") for names, why in REFUSALS.items()),
    *(Option(names, f"{REFUSED}{names}", None, "", MAYBE) for names in REFUSED_FLAGS),
    *(Option(names, f"{IGNORED}{names.split()[-1]}", text, "") for names in HARMLESS),
    *(Option(names, f"{IGNORED}{names.split()[-1]}", None, "", MAYBE) for names in HARMLESS_FLAGS),
)


def check(options: Facts) -> None:
    """Raise Unreadable if a refused flag is among the options of a line."""
    for names, why in REFUSED_FLAGS.items():
        if f"{REFUSED}{names}" in options:
            raise Unreadable(f"{names}: {why}")


def settled(in_script: Facts, options: Facts) -> tuple[Facts, list[str]]:
    """Merge the options of a script and of the command line, which takes precedence, into options of this queue.

    Also returns the names of ignored options.
    """
    types, to = in_script.pop("mail_type", ""), in_script.pop("mail_user", None)
    if types:
        in_script = {"notify": mail(types, to)} | in_script
    if in_script.pop("no_requeue", False):
        in_script.pop("requeue", None)
    ignored = [key.removeprefix(IGNORED) for key in in_script if key.startswith(IGNORED)]
    kept = {key: value for key, value in in_script.items() if not key.startswith(IGNORED)}
    for key in ("on_invalid", "nodelist"):
        kept.pop(key, None)
    return overridden(kept, options), ignored


def mail(types: str, to: str | None) -> str:
    """Return a command for --notify that does what --mail-type requests; empty for NONE. Raises Unreadable."""
    import shlex
    import shutil

    kinds = [one.strip().upper() for one in types.split(",") if one.strip()]
    if kinds == ["NONE"]:
        return ""
    for one in kinds:
        if one not in MAILS:
            raise Unreadable(f"--mail-type: the queue sends no mail for {one}; expected {', '.join(MAILS)} or NONE")
    if not shutil.which("mail"):
        raise Unreadable("--mail-type: there is no program mail here; remove the line, or use --notify COMMAND")
    failed = "" if {"END", "ALL"} & {*kinds} else '[ "$BACKFILL_STATE" = COMPLETED ] || '
    subject = '"backfill: job $BACKFILL_JOB, $BACKFILL_JOB_NAME: $BACKFILL_STATE"'
    return f"{failed}mail -s {subject} {shlex.quote(to or user_name(os.getuid()))} < /dev/null"


def overridden(in_script: Facts, options: Facts) -> Facts:
    """Return the options of a script, overridden by those of the command line."""
    for keys in SAME:
        if any(key in options for key in keys):
            in_script = {key: value for key, value in in_script.items() if key not in keys}
    return {**in_script, **options}


def submitted(options: Facts, cwd: str) -> Facts:
    """Return facts about a script's submit that its Slurm variables need later. cwd: where it will run."""
    facts: Facts = {"tasks": tasks_of(options), "host": os.uname().nodename, "dir": cwd}
    with suppress(FileNotFoundError):
        facts["dir"] = os.getcwd()
    if "memory_per_cpu" in options:
        facts["per_cpu"] = options["memory_per_cpu"]
    if "array" in options:
        indexes = sorted(options["array"][0])
        steps = {later - before for before, later in pairwise(indexes)}
        facts["array"] = [len(indexes), indexes[0], indexes[-1], steps.pop() if len(steps) == 1 else 1]
    return facts


def of_script(script: str) -> tuple[dict[str, Any], bool]:
    """Return the options in the first comments of a script, and whether it has lines for Slurm.

    They are in lines that begin with #SBATCH or #BACKFILL; #SBATCH lines may also have the options above. As in Slurm,
    empty lines and other comments, which may be indented, may stand between them. Raises Unreadable.
    """
    options: dict[str, Any] = {}
    is_slurm = False
    for line in script[: 32 << 10].splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            break
        match = re.match(r"#(SBATCH|BACKFILL)\s+(.*)", line)
        if not match:
            continue
        try:
            words = shlex.split(match[2], comments=True)
            if match[1] == "SBATCH":
                is_slurm = True
                parsed, left, _ = parse("submit", words, OPTIONS)
                check(parsed)
            else:
                parsed, left, _ = parse("submit", words)
        except ValueError as error:  # Unreadable is a ValueError
            raise Unreadable(f"{line.strip()}: {error}") from None
        if left:
            raise Unreadable(f"{line.strip()}: {left[0]!r} is not an option")
        options |= parsed
    return options, is_slurm
