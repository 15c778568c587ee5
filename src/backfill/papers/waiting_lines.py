"""Queueing theory for sites without gangs: a simulation independent of the scheduler, and formulas."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # splitmix64


def join_shortest_queue(
    submit: Sequence[int],
    service: Sequence[int],
    site: Sequence[int],
    servers: Sequence[int],
    draw: Callable[[int], int],
) -> list[int]:
    """Return the wait of each customer, who goes to an idle server of its site, or else to the shortest queue.

    submit: ascending. servers: number at each site. draw(n): a number below n, for a choice among n equal servers.
    """
    queues: list[list[deque[int]]] = [[deque() for _ in range(many)] for many in servers]
    idle = [[True] * many for many in servers]
    ends: list[tuple[int, int, int, int]] = []  # heap of (time, customer, site, server)
    waits = [0] * len(submit)
    for customer, now in enumerate([*submit, None]):
        while ends and (now is None or ends[0][0] <= now):
            then, _, here, server = heapq.heappop(ends)
            queue = queues[here][server]
            idle[here][server] = not queue
            if queue:
                following = queue.popleft()
                waits[following] = then - submit[following]
                heapq.heappush(ends, (then + service[following], following, here, server))
        if now is None:
            break
        here = site[customer]
        free = [server for server, each in enumerate(idle[here]) if each]
        if free:
            server = free[draw(len(free))] if len(free) > 1 else free[0]
            idle[here][server] = False
            heapq.heappush(ends, (now + service[customer], customer, here, server))
            continue
        lengths = [len(queue) for queue in queues[here]]
        shortest = min(lengths)
        equal = [server for server, length in enumerate(lengths) if length == shortest]
        queues[here][equal[draw(len(equal))] if len(equal) > 1 else equal[0]].append(customer)
    return waits


def draws(seed: int, most: int) -> Callable[[int], int]:
    """Return a function draw(n), below n, that yields at most `most` of a policy's random numbers with this seed."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, most + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    words = iter(((z ^ (z >> np.uint64(31))) >> np.uint64(32)).tolist())
    return lambda n: next(words) * n >> 32


def mean_wait(rate: float, service: float, servers: int) -> float:
    """Return the mean wait of M/M/c: one queue for all servers (Erlang's C); rate x service < servers."""
    load, blocked = rate * service, 1.0
    for server in range(1, servers + 1):  # Erlang's B by its recurrence
        blocked = load * blocked / (server + load * blocked)
    waits = blocked / (1 - load / servers * (1 - blocked))
    return waits * service / (servers - load)
