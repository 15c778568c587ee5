"""The resources whose lack kept a job from fitting. Each function finds one kind, and all examine one `Room`.

A requested amount of limited supply (a resource, a licence, a slot of a limit) is a `Lack` with its amounts over time.
To explain another kind, add a function that yields its lacks to AMOUNTS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.explain.room import Mask, Room
from backfill.model.workload import Ints

RESOURCE, LICENCE, LIMIT, SCATTERED, OUTAGE = "resource", "licence", "limit", "scattered", "outage"


@dataclass(frozen=True, eq=False, slots=True)
class Lack:
    """A resource, licence or limit that a job needs, over time, and the times at which too little of it is free."""

    kind: str
    name: str  # for a limit: the name of its count
    needed: int  # of the whole job
    free: Ints  # shape (t,)
    there: Ints  # shape (t,)
    short: Mask  # shape (t,)
    column: int = -1  # for a resource: its index among those that the job requests


def limits(room: Room) -> Iterator[Lack]:
    """Yield the limits on running jobs that leave too little for the job."""
    yield from _counted(room, LIMIT, limit=True)


def licences(room: Room) -> Iterator[Lack]:
    """Yield the floating licences with too few free copies."""
    yield from _counted(room, LICENCE, limit=False)


def _counted(room: Room, kind: str, limit: bool) -> Iterator[Lack]:
    asks = room.asks
    for place, (licence, copies) in enumerate(zip(room.licences.tolist(), room.copies.tolist(), strict=True)):
        if asks.is_limit(licence) == limit:
            free, there = room.copies_free[:, place], room.copies_there[:, place]
            yield Lack(kind, asks.platform.licences[licence], copies, free, there, free < copies)


def resources(room: Room) -> Iterator[Lack]:
    """Yield the resources of which all nodes that the job may use together have too little free."""
    yield from _resources(room, RESOURCE)


AMOUNTS: tuple[Callable[[Room], Iterator[Lack]], ...] = (limits, licences, resources)


def scattered(room: Room) -> Iterator[Lack]:
    """Yield the resources that are free only in small parts on many nodes; each alone keeps the job from fitting."""
    free = room.free
    for k, lack in enumerate(_resources(room, SCATTERED)):
        seated = room.seats(room.tasks_at(free[:, [k]], room.demand[[k]]))
        yield Lack(lack.kind, lack.name, lack.needed, lack.free, lack.there, ~seated, k)


def _resources(room: Room, kind: str) -> Iterator[Lack]:
    names = room.asks.platform.resources
    free, there = room.free_total, room.total(room.there)
    for k, (resource, need) in enumerate(zip(room.resources.tolist(), room.need.tolist(), strict=True)):
        yield Lack(kind, names[resource], need, free[:, k], there[:, k], free[:, k] < need, k)


@dataclass(frozen=True, eq=False, slots=True)
class Lacking:
    """The resources that a job lacks from each time of a room."""

    lacks: Sequence[Lack]
    short: Mask  # shape (t, lacks): the missing ones; none if the job fits
    away: Mask  # shape (t,): it would fit if no capacity of the platform were unavailable
    seated: Ints  # shape (t,): the number of its tasks that would fit; for a job on one node, all or none

    @classmethod
    def of(cls, room: Room) -> "Lacking":
        """Find the lacks of a room: amounts if any are short, else scattered resources."""
        amounts = [lack for of_kind in AMOUNTS for lack in of_kind(room)]
        seated = room.seated(room.tasks_at(room.free, room.demand))
        apart = ~np.any([seated == room.tasks, *(lack.short for lack in amounts)], axis=0)
        few = [*scattered(room)] if apart.any() else []
        alone = np.array([lack.short for lack in few], np.bool_).reshape(len(few), len(room.times))
        alone[:, ~alone.any(axis=0)] = True  # each alone would suffice, but not together on the same nodes
        short = np.array([*(lack.short for lack in amounts), *(alone & apart)], np.bool_).reshape(-1, len(room.times)).T
        return cls([*amounts, *few], short, short.any(axis=1) & _fits_whole(room), seated)

    @property
    def fits(self) -> Mask:
        """The times at which nothing is missing."""
        fit: Mask = np.logical_not(self.short.any(axis=1))
        return fit


def _fits_whole(room: Room) -> Mask:
    """Return whether the job would fit if the capacity were always as the platform states."""
    copies = np.maximum(room.copies_there, room.asks.platform.copies[room.licences])
    if (copies == room.copies_there).all() and (room.whole == room.there).all():
        return np.zeros(len(room.times), np.bool_)
    there = room.copies_free + copies - room.copies_there >= room.copies
    fits: Mask = there.all(axis=1) & room.seats(room.tasks_at(room.whole - room.held, room.demand))
    return fits
