"""Build submit requests from parsed options and from the properties that a process started here would inherit."""

from __future__ import annotations

import os
import time
from shlex import quote

from backfill.client.calling import FAILED, Problem, token
from backfill.model.names import printable
from backfill.queue.words import Unreadable, parse_instant
from backfill.system.home import group_name, home, kept_trouble, user_name

AS_GIVEN = (  # fields of a request that are copied from the option with this key
    *("walltime", "grace", "priority", "project", "held", "requeue", "retry", "notify"),
    *("constraint", "partition", "qos", "exclusive", "reservation"),
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from typing import Any

    Facts = dict[str, Any]


def request_of(options: Facts, argv: list[str], script: str | None = None) -> Facts:
    """Return a submit request from parsed options."""
    from backfill.queue.parts import parts_of

    job = {**parts_of(options), "name": options.get("name") or printable(os.path.basename(argv[0]))[:64] or "job"}
    job |= {name: options[name] for name in AS_GIVEN if name in options}
    for name in ("begin", "deadline"):
        if name in options:
            job |= instant_of(name, options[name])
    if "array" in options:
        job["array"], job["throttle"] = options["array"]
    job |= options.get("dependency", {})
    cwd = absolute(options.get("cwd", ""))
    mode = options.get("mode", "append")
    if mode not in ("append", "truncate"):
        raise Unreadable(f"--open-mode: {mode!r}; expected append or truncate")
    spec: Facts = {"argv": argv, "cwd": cwd, "env": environment(options.get("export", "ALL")), "umask": _umask()}
    spec |= _place() | {
        name: options[name] for name in ("output", "error", "input", "warn", "keep_descendants") if name in options
    }
    for name in ("output", "error"):
        if name in options and (wrong := kept_trouble(home(), os.path.join(cwd, options[name]))):
            raise Unreadable(f"--{name}: {wrong}")
    if mode == "truncate":
        spec["truncate"] = True
    if script is not None:
        spec["script"] = script
    return {"token": token(), **submitter(), "job": job, "spec": spec}


def instant_of(name: str, text: str) -> Facts:
    """Return an instant as a request has it; now+2h is by the clock of the queue, which may run faster than ours."""
    ahead = text.strip().startswith("now")
    try:
        instant = parse_instant(text, 0 if ahead else time.time_ns() // 1000)
    except Unreadable as error:
        raise Unreadable(f"--{name}: {error}") from None
    return {f"{name}_ahead" if ahead else name: instant}


def submitter() -> Facts:
    """Return the submitting user and group, as a request has them."""
    return {"user": user_name(os.getuid()), "group": group_name(os.getgid())}


def absolute(path: str) -> str:
    """Return an absolute path, relative to the user's current folder. Raises Problem if that folder was deleted."""
    try:
        return os.path.normpath(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    except FileNotFoundError:
        raise Problem("the folder in which you are was deleted; cd to another one, or use --chdir", FAILED) from None


def environment(export: str) -> dict[str, str]:
    """Return the environment of a job: ALL, NONE, or names and NAME=VALUE, which may include ALL."""
    variables: dict[str, str] = {}
    parts = [part for part in export.split(",") if part]
    if "ALL" in parts:
        variables |= os.environ
    for part in parts:
        name, equals, value = part.partition("=")
        if equals and not name:
            raise Unreadable(f"--export: {part!r} has no name; expected NAME=VALUE")
        if equals:
            variables[name] = value
        elif part not in ("ALL", "NONE", "NIL") and part in os.environ:
            variables[part] = os.environ[part]
    if "ALL" not in parts:
        variables.setdefault("PATH", os.environ.get("PATH", os.defpath))
    # Values that are not text cannot be sent; they are rare, and useless to most programs. A variable that `env =x`
    # made has no name, and no process can be started with it.
    return {name: value for name, value in variables.items() if name and _is_text(name) and _is_text(value)}


def _is_text(word: str) -> bool:
    try:
        word.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _place() -> Facts:
    """Return what a process here inherits besides its environment: limits, nice value, and cpus, if not all of them."""
    import resource

    names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]  # an old alias
    place: Facts = {"limits": {name: [*resource.getrlimit(getattr(resource, name))] for name in names}}
    place["nice"] = os.getpriority(os.PRIO_PROCESS, 0)
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        place["affinity"] = sorted(os.sched_getaffinity(0))
    return place


def script_of(path: str) -> str | None:
    """Return the text of a script; None for another kind of file, which is a command. Raises Unreadable."""
    try:
        with open(path, "rb") as file:
            begin = file.read(2)
            if begin != b"#!":
                if not os.access(path, os.X_OK):
                    raise Unreadable(f"{path} is not a program; expected a script that begins with #!")
                return None
            text = (begin + file.read()).decode()
            if text.partition("\n")[0].endswith("\r"):  # the kernel would look for a program whose name ends in CR
                raise Unreadable(
                    f"{path} has the line ends of Windows (CR LF); mend it: sed -i 's/\\r$//' {quote(path)}"
                )
            return text
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}; put -- before a command") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path}: expected a script in UTF-8") from None
