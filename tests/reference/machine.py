"""What there is of each resource, now and by what is known of the future."""

from dataclasses import replace

from .placement import licence_slot, node_slots, whole
from .words import Event, Job, Platform, Room, Time

PLENTY = 2**40


def with_presence(jobs: list[Job], platform: Platform) -> tuple[list[Job], Platform]:
    """Jobs that ask for nothing of a node ask for its presence, of which there is plenty while it is not closed."""
    if all(any(job.demand) for job in jobs):
        return jobs, platform
    nodes = tuple(replace(node, capacity=(*node.capacity, PLENTY)) for node in platform.nodes)
    return [replace(job, demand=(*job.demand, int(not any(job.demand)))) for job in jobs], replace(
        platform, nodes=nodes
    )


class Machine:
    def __init__(self, platform: Platform):
        self.platform = platform
        self.base = whole(platform)  # the platform's amounts, or those of the last `capacity`
        self.down: set[int] = set()
        self.windows: list[Event] = []  # known and not over, in the order in which they became known

    def room(self, t: Time) -> Room:
        """Return the capacity at this instant, as far as is known now."""
        active = [window for window in self.windows if window.value <= t < window.until]
        less = [sum(w.amount for w in active if slot in self.slots(w)) for slot in range(len(self.base))]
        gone = self.down | {node for window in active if window.whole_nodes for node in window.nodes}
        lost = {slot for node in gone for slot in node_slots(self.platform, node)}
        return [0 if slot in lost else max(0, self.base[slot] - less[slot]) for slot in range(len(self.base))]

    def steps(self, now: Time) -> list[tuple[Time, Room]]:
        """Return the capacity from now on, and from each instant at which a known window begins or ends."""
        instants = {t for window in self.windows for t in (window.value, window.until) if t > now}
        return [(t, self.room(t)) for t in (now, *sorted(instants))]

    def slots(self, event: Event) -> list[int]:
        """Return where a room keeps the resource that the event is about; none for events of whole nodes."""
        if event.licence is not None:
            return [licence_slot(self.platform, event.licence)]
        if event.resource is None:
            return []
        return [node_slots(self.platform, node)[event.resource] for node in event.nodes]
