"""Times, sizes and lists in the notation of Slurm's users, and as people read them."""

from __future__ import annotations

import re
import time
from itertools import groupby, pairwise

from backfill.model.units import MIB, SECOND, SLURM, parse_size, parse_span

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from collections.abc import Iterable
    from typing import Any

MINUTE = 60 * SECOND
TASKS_MAX = 1_000_000  # of a job
NEAR = 10 * MINUTE  # instants this near are shown to the second
AFTER = ("after", "afterok", "afternotok", "afterany", "aftercorr")  # kinds of dependencies on jobs
FEW = 4  # names of nodes listed if they cannot be written as ranges
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
        words = re.fullmatch(r"(\d+)(seconds?|minutes?|hours?|days?|weeks?)?", rest)
        if words:
            unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[(words[2] or "s")[0]]
            return now + int(words[1]) * unit * SECOND
        return now + parse_time(rest)
    if re.fullmatch(r"\d{9,}", clean):
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


def time_text(micros: int) -> str:
    """Return a limit for people: 45 s, 5 min, 1 h 30 min, 2 d 4 h."""
    seconds = round(micros / SECOND)
    days, hours, minutes, rest = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value]
    return " ".join(shown[:2]) or "0 s"


def clock_text(micros: int) -> str:
    """Return a span for a table: 0:42, 1:02:03, 2-04:00:00."""
    seconds = max(micros, 0) // SECOND
    days, hours, minutes, rest = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bound_text(micros: int, now: int) -> str:
    """Return an instant like `instant_text`, rounded up."""
    far = abs(micros - now) >= NEAR
    return instant_text(-(-micros // MINUTE) * MINUTE if far else micros, now)


def instant_text(micros: int, now: int) -> str:
    """Return an instant in local time: 14:05 today, else with its date."""
    then, today = time.localtime(micros / SECOND), time.localtime(now / SECOND)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S" if abs(micros - now) < NEAR else "%H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def size_text(size: int) -> str:
    """Return a size for a table: 512M, 16G."""
    if not size:
        return "-"
    for unit, power in (("T", 40), ("G", 30), ("M", 20)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g}{unit}"
    return f"{size / 1024:.4g}K"


def date_text(micros: int) -> str:
    """Return an instant in local time, to the second, with its date."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(micros / SECOND))


def needs_text(need: dict[str, int]) -> str:
    """Return a need such as `4 cpus, 16G, matlab 1`."""
    parts = [f"{need['cpus']} cpu{'' if need['cpus'] == 1 else 's'}"]
    if need.get("memory"):
        parts.append(size_text(need["memory"]))
    parts += [f"{name} {count}" for name, count in need.items() if name not in ("cpus", "memory") and count]
    return ", ".join(parts)


def amount_text(name: str, amount: int) -> str:
    """Return an amount of a resource in a sentence: 4 cpus, 1.5 GiB of memory."""
    return f"{amount / 2**30:.4g} GiB of memory" if name == "memory" else f"{amount} {name}"


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


def more_text(count: int) -> str:
    """Return `1 more job`, `1,234 more jobs`."""
    return f"{count:,} more job{'' if count == 1 else 's'}"


def numbers_text(numbers: Iterable[int], most: int = 8) -> str:
    """Return numbers as ranges, as `--array` takes them: 3-400, 1,5,7-9, 1-9:2; after `most` ranges `...`."""
    ordered = sorted(set(numbers))
    steps = {later - before for before, later in pairwise(ordered)}
    if len(ordered) > 2 and len(steps) == 1 and steps != {1}:
        return f"{ordered[0]}-{ordered[-1]}:{steps.pop()}"
    found_runs = runs(ordered)
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in found_runs[:most]]
    return ",".join([*parts, *(["..."] if len(found_runs) > most else [])])


def names_text(names: Iterable[str]) -> str:
    """Return names of nodes, grouped if they differ only by a number at the end: `n[1-6], g2`."""
    texts = []
    for base, group in groupby(names, lambda name: name.rstrip("0123456789")):
        numbers = [name[len(base) :] for name in group]
        plain = [int(number) for number in numbers if number and str(int(number)) == number]
        if len(numbers) > 1 and len(plain) == len(numbers):
            texts.append(f"{base}[{numbers_text(plain)}]")
        else:
            texts += [base + number for number in (numbers if len(numbers) <= FEW else [*numbers[:FEW], "..."])]
    return ", ".join(texts)


def runs(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last of each run of successive numbers, given in ascending order."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans


def folded_labels(jobs: Iterable[tuple[int, int, int | None]]) -> list[str]:
    """Return the labels of jobs, given as (number, array, index), in order; the tasks of an array share one label."""
    arrays: dict[int, list[int]] = {}
    labels: list[int | str] = []
    for number, array, index in jobs:
        if index is None:
            labels.append(str(number))
            continue
        if array not in arrays:
            arrays[array] = []
            labels.append(array)
        arrays[array].append(index)

    def of_array(array: int) -> str:
        tasks = arrays[array]
        return f"{array}_{tasks[0]}" if len(tasks) == 1 else f"{array}_[{numbers_text(tasks)}]"

    return [one if isinstance(one, str) else of_array(one) for one in labels]


def safe(text: str) -> str:
    """Return a text without the characters that a terminal would interpret."""
    return "".join(c if c.isprintable() else "?" for c in text)
