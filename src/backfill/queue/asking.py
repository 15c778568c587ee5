"""The verbs that ask what will come: `eta`, and its kin."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backfill.queue.client import FAILED, STARTING, Problem, ids_of, persistent, safe, table
from backfill.queue.home import home
from backfill.queue.options import parse
from backfill.queue.words import Unreadable, clock_text, instant_text, time_text

Facts = dict[str, Any]
PATIENCE_S = 600.0  # an answer may need a policy to be compiled
HISTORY = {
    "user and name": "{} ended jobs of the same user and name",
    "user": "{} ended jobs of the same user",
    "all": "{} ended jobs of all users",
    "none": "too few ended jobs: its run time is guessed",
}
WHY_NOT = {
    "held": "held: no estimate before it is released",
    "never": "it waits for what cannot come",
    "blocked": "it waits for jobs that are held, or for capacity that is not there",
}


def question(what: str, **more: Any) -> Facts:
    """The answer to a question; a planner that is being started is waited for."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return persistent(what, home(), timeout=PATIENCE_S, **more)
        except Problem as problem:
            if problem.code != STARTING or time.monotonic() > end:
                raise
        time.sleep(0.1)


def eta(words: Sequence[str]) -> int:
    """When pending jobs start."""
    given, left, _ = parse("eta", words)
    if given.get("accuracy"):
        if left:
            raise Unreadable(f"unexpected {left[0]!r}; --accuracy is about all jobs")
        return _accuracy(bool(given.get("json")))
    wanted = None
    if left or "name" in given:
        wanted = persistent("find", home(), ids=ids_of(given, left))["ids"]
    found = question("eta")
    rows = {row["id"]: row for row in found["jobs"]}
    if wanted is not None:
        for number in wanted:
            if number not in rows:
                (job,) = persistent("show", home(), ids=[number])["jobs"]
                raise Problem(f"job {job['label']} is {job['state']}; expected a pending one", FAILED)
        found["jobs"] = [rows[number] for number in wanted]
    if given.get("json"):
        print(json.dumps(found))
        return 0
    now = round(found["now_s"] * 1e6)
    lines = [["JOB", "NAME", "GUARANTEED", "LIKELY", "90 %", "FROM"]]
    for row in found["jobs"]:
        at = [_at(row[name], now) for name in ("guaranteed_s", "median_s", "p90_s")]
        why = WHY_NOT.get(row["why_not"]) or HISTORY[row["history"]].format(row["ended_jobs"])
        lines.append([row["label"], safe(row["name"])[:20], *at, why])
    if len(lines) > 1:
        table(lines, right=(0, 2, 3, 4))
        print(_method(found))
    else:
        print("no job is pending")
    return 0


def _method(found: Facts) -> str:
    futures = f"{found['futures']} futures of policy {found['policy']} with the jobs that are there now"
    promise = "" if found["binds"] else f"; {found['policy']} promises no starts"
    return f"from {futures}, {time_text(round(found['age_s'] * 1e6))} old{promise}"


def _at(seconds: float | None, now: int) -> str:
    return "-" if seconds is None else instant_text(round(seconds * 1e6), now)


def _accuracy(as_json: bool) -> int:
    from backfill.queue.estimates import accuracy, kept
    from backfill.queue.store import Store, StoreError

    path = Path(home()) / "store.db"
    if not path.exists():
        raise Problem(f"{path}: no queue is recorded there", FAILED)
    try:
        store = Store(path, readonly=True)
        shown, promises = kept(store.events())
        store.close()
    except StoreError as error:
        raise Problem(str(error), FAILED) from None
    groups = accuracy(shown)
    if as_json:
        print(json.dumps({"schema": 1, "promises": promises, "leads": groups}))
        return 0
    slips = ", ".join(f"{count} {safe(cause)}" for cause, count in promises["slips"].items())
    total = promises["kept"] + sum(promises["slips"].values())
    print(f"{promises['kept']} of {total} promised starts kept" + (f"; later: {slips}" if slips else ""))
    if not groups:
        print("no job that `backfill eta` told of has started yet")
        return 0
    lines = [["TOLD BEFORE", "ESTIMATES", "WITHIN 90 %", "MEDIAN ERROR", "EARLY", "LATE"]]
    for group in groups:
        shares = [f"{group[name]:.0%}" for name in ("within_90", "early", "late")]
        error_text = clock_text(round(group["median_error_s"] * 1e6))
        lines.append([group["lead"], str(group["estimates"]), shares[0], error_text, *shares[1:]])
    table(lines, right=range(1, 6))
    return 0
