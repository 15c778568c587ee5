"""What queueing theory says of a site without gangs: a simulation that knows nothing of the scheduler, and formulas."""

import heapq
from collections import deque
from collections.abc import Sequence
from random import Random


def join_shortest_queue(submit: Sequence[int], service: Sequence[int], servers: int, seed: int) -> list[int]:
    """The wait of each customer, of which each goes to an idle server or, without one, to the shortest queue.

    Ties are broken at random. submit: ascending.
    """
    random = Random(seed)
    queues: list[deque[int]] = [deque() for _ in range(servers)]
    idle = [True] * servers
    ends: list[tuple[int, int]] = []  # heap of (time, server)
    waits = [0] * len(submit)
    for customer, now in enumerate([*submit, None]):
        while ends and (now is None or ends[0][0] <= now):
            then, server = heapq.heappop(ends)
            idle[server] = not queues[server]
            if queues[server]:
                following = queues[server].popleft()
                waits[following] = then - submit[following]
                heapq.heappush(ends, (then + service[following], server))
        if now is None:
            break
        free = [server for server in range(servers) if idle[server]]
        if free:
            server = random.choice(free)
            idle[server] = False
            heapq.heappush(ends, (now + service[customer], server))
        else:
            shortest = min(map(len, queues))
            queues[random.choice([s for s in range(servers) if len(queues[s]) == shortest])].append(customer)
    return waits


def mean_wait(rate: float, service: float, servers: int) -> float:
    """The mean wait of M/M/c: one queue for all servers (Erlang's C); rate x service < servers."""
    load, blocked = rate * service, 1.0
    for server in range(1, servers + 1):  # Erlang's B by its recurrence
        blocked = load * blocked / (server + load * blocked)
    waits = blocked / (1 - load / servers * (1 - blocked))
    return waits * service / (servers - load)
