"""Why a job did not fit: the resources that it lacked. Each function finds one kind, and all examine one `Room`.

What a job asks for in an amount of which so much is there - a resource, a licence, a place under a limit - is a `Lack`
with the amounts. To let an explanation know another kind, add a function that gives its lacks to AMOUNTS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.explain.room import Mask, Room
from backfill.model.workload import Ints

RESOURCE, LICENCE, LIMIT, SCATTERED, OUTAGE = "resource", "licence", "limit", "scattered", "outage"


@dataclass(frozen=True, eq=False, slots=True)
class Lack:
    """A resource, licence or limit that a job needs, over time, and when too little of it is free."""

    kind: str
    name: str  # of a limit: whose count it is
    needed: int  # by the whole job
    free: Ints  # shape (t,)
    there: Ints  # shape (t,)
    short: Mask  # shape (t,)
    column: int = -1  # of a resource: its place among those that the job asks for


def limits(room: Room) -> Iterator[Lack]:
    """Limits on what runs at once of which too little is left for the job."""
    yield from _counted(room, LIMIT, limit=True)


def licences(room: Room) -> Iterator[Lack]:
    """Floating licences of which too few copies are free."""
    yield from _counted(room, LICENCE, limit=False)


def _counted(room: Room, kind: str, limit: bool) -> Iterator[Lack]:
    asks = room.asks
    for place, (licence, copies) in enumerate(zip(room.licences.tolist(), room.copies.tolist(), strict=True)):
        if asks.is_limit(licence) == limit:
            free, there = room.copies_free[:, place], room.copies_there[:, place]
            yield Lack(kind, asks.platform.licences[licence], copies, free, there, free < copies)


def resources(room: Room) -> Iterator[Lack]:
    """Resources of which all nodes that the job may use have too little free together."""
    yield from _resources(room, RESOURCE)


AMOUNTS: tuple[Callable[[Room], Iterator[Lack]], ...] = (limits, licences, resources)


def scattered(room: Room) -> Iterator[Lack]:
    """Resources that are free on too many nodes, a little on each: alone they keep the job from having a place."""
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
    """The resources that a job lacks from each time of a room on."""

    lacks: Sequence[Lack]
    short: Mask  # shape (t, lacks): which are lacking; nothing is where the job fits
    away: Mask  # shape (t,): it would fit if nothing of the platform were away
    seated: Ints  # shape (t,): how many of its tasks would find a place; of one that sits on one node, all or none

    @classmethod
    def of(cls, room: Room) -> "Lacking":
        """The lacks of a room: amounts where these are short, else resources that are scattered."""
        amounts = [lack for of_kind in AMOUNTS for lack in of_kind(room)]
        seated = room.seated(room.tasks_at(room.free, room.demand))
        apart = ~np.any([seated == room.tasks, *(lack.short for lack in amounts)], axis=0)
        few = [*scattered(room)] if apart.any() else []
        alone = np.array([lack.short for lack in few], np.bool_).reshape(len(few), len(room.times))
        alone[:, ~alone.any(axis=0)] = True  # each alone would do, but not together on the same nodes
        short = np.array([*(lack.short for lack in amounts), *(alone & apart)], np.bool_).reshape(-1, len(room.times)).T
        return cls([*amounts, *few], short, short.any(axis=1) & _fits_whole(room), seated)

    @property
    def fits(self) -> Mask:
        """The times at which nothing is lacking."""
        fit: Mask = np.logical_not(self.short.any(axis=1))
        return fit


def _fits_whole(room: Room) -> Mask:
    """Whether the job would fit if there were at any time what the platform states."""
    copies = np.maximum(room.copies_there, room.asks.platform.copies[room.licences])
    if (copies == room.copies_there).all() and (room.whole == room.there).all():
        return np.zeros(len(room.times), np.bool_)
    there = room.copies_free + copies - room.copies_there >= room.copies
    fits: Mask = there.all(axis=1) & room.seats(room.tasks_at(room.whole - room.held, room.demand))
    return fits
