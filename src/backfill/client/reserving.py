"""The verbs of advance reservations: `backfill reserve` and `backfill unreserve`."""

from __future__ import annotations

import json

from backfill.client.asking import question
from backfill.client.calling import persistent, token
from backfill.client.options import parse
from backfill.client.printing import reservation_lines
from backfill.client.requests import instant_of
from backfill.queue.words import Unreadable
from backfill.system.home import home

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from collections.abc import Sequence
    from typing import Any

    Facts = dict[str, Any]

OWNERS = ("user", "group", "project")


def reserve(words: Sequence[str]) -> int:
    """Make an advance reservation, or list them."""
    given, left, _ = parse("reserve", words)
    if not left and not given.keys() - {"json"}:
        return _list(given)
    found = question("reserve", token=token(), **_request(given, _name(left)))
    if given.get("json"):
        print(json.dumps({"schema": 1, **found}))
    else:
        (line,) = reservation_lines([found["reservation"]], found["now_s"])
        print(f"{line}\nnext: backfill submit --reservation {found['reservation']['reservation']} -- COMMAND")
    return 0


def unreserve(words: Sequence[str]) -> int:
    """End an advance reservation now."""
    given, left, _ = parse("unreserve", words)
    found = question("unreserve", reservation=_name(left), force=bool(given.get("force")))
    if given.get("json"):
        print(json.dumps({"schema": 1, **found}))
    else:
        print(f"reservation {found['reservation']} is over")
    return 0


def _list(given: Facts) -> int:
    found = persistent("queue", home(), limit=0)
    if given.get("json"):
        print(json.dumps({"schema": 1, "now_s": found["now_s"], "reservations": found["reservations"]}))
        return 0
    for line in reservation_lines(found["reservations"], found["now_s"]):
        print(line)
    if not found["reservations"]:
        print("no reservations; next: backfill reserve --help")
    return 0


def _name(left: Sequence[str]) -> str:
    if len(left) != 1:
        raise Unreadable("expected the name of one reservation")
    return left[0]


def _request(given: Facts, name: str) -> Facts:
    """Return the request for these options."""
    request: Facts = {"reservation": name, "force": bool(given.get("force"))}
    request |= {key: given[key] for key in ("amount", "span", *OWNERS) if key in given}
    if "reserved" in given:
        request["count" if isinstance(given["reserved"], int) else "nodes"] = given["reserved"]
    for key, text in (("begin", given.get("begin", "now")), ("until", given.get("until"))):
        if text is not None:
            request |= instant_of(key, text)
    return request
