"""Options in the notation of Slurm's users, and what a job asks for as text. Times and sizes: model/units.py."""

from __future__ import annotations

import re
import time

from backfill.model.units import MIB, SECOND, SLURM, parse_size, parse_span, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from typing import Any

TASKS_MAX = 1_000_000  # of a job
DAY = 86_400 * SECOND
AHEAD_MAX, INSTANT_MAX = 10**11 * SECOND, 2**62  # of an instant ahead of now, and since 1970
AFTER = ("after", "afterok", "afternotok", "afterany", "aftercorr")  # kinds of dependencies on jobs
WHOLE = "-array"  # suffix of the kind of a dependency on all tasks of an array


class Unreadable(ValueError):
    """A text that does not have the expected form."""


def parse_time(text: str) -> int:
    """Return a time limit in microseconds, as in Slurm: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S; or 90s, 1.5h, 2d."""
    try:
        span = parse_span(text, SLURM)
    except ValueError:
        raise Unreadable(f"{text!r} is not a time; expected {SLURM.expected}") from None
    if not 0 < span <= 10**10 * SECOND:
        raise Unreadable(f"{text!r} is not a time that a job could take")
    return span


def parse_instant(text: str, now: int) -> int:
    """Return an instant in microseconds since 1970: now+1h, 16:00, 2030-01-31T08:00, or seconds since 1970."""
    clean = text.strip()
    if clean == "now":
        return now
    if clean.startswith("now+"):
        rest = clean[4:]
        words = re.fullmatch(r"(\d{1,18})(seconds?|minutes?|hours?|days?|weeks?)?", rest)
        if not words:
            return now + parse_time(rest)
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[(words[2] or "s")[0]]
        ahead = int(words[1]) * unit * SECOND
        if ahead > AHEAD_MAX:
            raise Unreadable(f"{text!r} is too far ahead; expected at most now+{AHEAD_MAX // DAY}days")
        return now + ahead
    if re.fullmatch(r"\d{9,18}", clean):
        if int(clean) * SECOND > INSTANT_MAX:
            raise Unreadable(f"{text!r} is too late; expected at most {INSTANT_MAX // SECOND} seconds since 1970")
        return int(clean) * SECOND
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"):
        try:
            parts = list(time.strptime(clean, form))
        except ValueError:
            continue
        if "%Y" not in form:
            today = time.localtime(now / SECOND)
            parts[:3] = today[:3]
        parts[8] = -1
        instant = round(time.mktime(tuple(parts)) * SECOND)  # type: ignore[arg-type]
        return instant + 86_400 * SECOND if "%Y" not in form and instant <= now else instant
    raise Unreadable(f"{text!r} is not a time; expected for instance now+2h, 16:00 or 2030-01-31T08:00")


def is_span(text: str) -> bool:
    """Return whether a text is meant as a span, such as 7d, and not as an instant."""
    return text[:1].isdigit() and text[-1] in "smhdw"


def parse_past(text: str, now: int) -> int:
    """Return an instant; a span such as 7d means that long ago, a time of day the most recent one."""
    if is_span(text):
        return now - parse_time(text)
    then = parse_instant(text, now)
    return then - 86_400 * SECOND if then > now and ":" in text and "-" not in text else then


def parse_memory(text: str) -> int:
    """Return a size in bytes: 16G, 512M; without a unit MiB, as in Slurm."""
    try:
        return parse_size(text, MIB)
    except ValueError:
        raise Unreadable(f"{text!r} is not a size; expected for instance 512M or 16G") from None


def parse_count(text: str) -> int:
    """Return a whole number of 0 or more."""
    if not re.fullmatch(r"\d{1,12}", text.strip()):
        raise Unreadable(f"{text!r} is not a whole number")
    return int(text)


def parse_nodes(text: str) -> tuple[int, int]:
    """Return the fewest and the most nodes: 2, 2-4."""
    low, dash, high = text.partition("-")
    least = parse_count(low)
    most = parse_count(high) if dash else least
    if not 1 <= least <= most <= TASKS_MAX:
        raise Unreadable(f"{text!r} is not a number of nodes; expected for instance 2 or 2-4")
    return least, most


def parse_gpus(text: str) -> tuple[int, str]:
    """Return the number of gpus and their type: 2, a100:2, gpu:2, gpu:a100:2; a type alone is one."""
    from backfill.model.constraint import is_gpu_type

    *before, last = text.removeprefix("gpu:").split(":")
    kind, count = (":".join(before), parse_count(last)) if last.isdecimal() else (text.removeprefix("gpu:"), 1)
    if kind and not is_gpu_type(kind):
        raise Unreadable(f"{text!r} is not a number of gpus; expected for instance 2 or a100:2")
    return count, kind


def parse_constraint(text: str) -> str:
    """Return a constraint, the features that nodes must have: gpu&ssd, a100|h100, !old."""
    from backfill.model.constraint import alternatives

    try:
        alternatives(text)
    except ValueError as error:
        raise Unreadable(str(error)) from None
    return text


def parse_array(text: str) -> tuple[list[int], int]:
    """Return the indexes of an array, and how many tasks may run at once: 1-10, 0-9:3, 1,5,7, 1-1000%20."""
    spec, _, throttle = text.partition("%")
    indexes: list[int] = []
    for part in spec.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part.strip())
        if not match or (match[3] is not None and int(match[3]) == 0):
            raise Unreadable(f"{text!r} is not an array; expected for instance 1-10, 0-9:3, 1,5,7 or 1-1000%20")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if (last - first) // step >= 10_000:
            raise Unreadable(f"{text!r} has more than 10,000 tasks")
        indexes += range(first, last + 1, step)
    return indexes, parse_count(throttle) if throttle else 0


def parse_licences(text: str) -> dict[str, int]:
    """Return licences with the number of copies of each: matlab:1,comsol."""
    licences: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise Unreadable(f"{text!r} is not a licence; expected NAME:COUNT,...")
        licences[name] = licences.get(name, 0) + (parse_count(count) if count else 1)
    return licences


def parse_id(text: str) -> int | list[int]:
    """Return a job: 118, or 112_3 for a task of an array, which HTCondor writes 112.3."""
    match = re.fullmatch(r"(\d{1,15})(?:[_.](\d{1,9}))?", text.strip())
    if not match:
        raise Unreadable(f"{text!r} is not a job; expected its number, or ARRAY_INDEX")
    return int(match[1]) if match[2] is None else [int(match[1]), int(match[2])]


def parse_dependency(text: str) -> dict[str, object]:
    """Return the dependencies of a job: afterok:12:13,afterany:14; with ? instead of , one is sufficient; singleton."""
    any_of = "?" in text
    if any_of and "," in text:
        raise Unreadable(f"{text!r} has both , and ?; expected one of them")
    after: list[list[object]] = []
    dependency: dict[str, object] = {"after": after, "any_of": any_of}
    for part in text.split("?" if any_of else ","):
        kind, *ids = part.strip().split(":")
        if kind == "singleton" and not ids:
            dependency["singleton"] = True
            continue
        if kind not in AFTER or not ids:
            raise Unreadable(f"{part!r} is not a dependency; expected {', '.join(AFTER)} with :ID, or singleton")
        after += [[kind, parse_id(one)] for one in ids]
    return dependency


def needs_text(need: dict[str, int]) -> str:
    """Return a need such as `4 cpus, 16G, matlab 1`."""
    parts = [f"{need['cpus']} cpu{'' if need['cpus'] == 1 else 's'}"]
    if need.get("memory"):
        parts.append(size_text(need["memory"]))
    parts += [f"{name} {count}" for name, count in need.items() if name not in ("cpus", "memory") and count]
    return ", ".join(parts)


def asks_text(job: dict[str, Any]) -> str:
    """Return the request of a job: `4 cpus, 16G`, `4 tasks of 1 cpu`, `2 nodes of 4 cpus, 16G; matlab 1, whole nodes`.

    job: `need`, and if not default `parts`, `spread` and `exclusive`.
    """
    need, parts = job["need"], job.get("parts", 1)
    text = needs_text(need)
    if parts > 1:
        own = {name: amount for name, amount in need.items() if name in ("cpus", "memory", "gpus")}
        others = [f"{name} {count}" for name, count in need.items() if name not in own and count]
        text = f"{parts:,} {'nodes' if job.get('spread') == 'distinct' else 'tasks'} of {needs_text(own)}"
        text = "; ".join([text, *others])
    return f"{text}, whole nodes" if job.get("exclusive") else text
