"""Entries of a log, written as the store has them."""

from backfill.queue.events import Entry, decoded

START = {"attempt": 1, "start": 0, "why": "head", "cpu_ids": [], "gpu_ids": []}


def entry(kind, job=0, data=None, t=0):
    """An event of this kind at an instant; a start needs only what is not as in START."""
    return Entry(decoded(kind, job, {**(START if kind == "start" else {}), **(data or {})}), t)


def of_kind(log, kind):
    """The events of a kind, in their order."""
    return [entry.event for entry in log if entry.event.kind == kind]
