"""Passes of a planner on 1,000 nodes of 64 cpus with 10,000 jobs waiting, also with 30 nodes shut; and made anew there.

    python benchmarks/live/nodes.py [--passes 400] [--policy easy conservative] [--times 1]

Six of ten jobs sit on one node, the others are gangs of 2 to 64 tasks. At each end as many jobs come as have ended.
Times are processor time of this thread, of each pass the shortest of --times lives. A pass is told and answers in JSON.
"""

import argparse
import heapq
import os
import random
from typing import Any

from asked import SECOND, Life, Steps, shortest, spans

NODES, CPUS, WAITING, SHUT = 1_000, 64, 10_000, 30
PLATFORM = f'[[node]]\nname = "n"\ncount = {NODES}\ncpus = {CPUS}\nmemory = 256\n'
TICK = SECOND
WALLTIMES = (600, 1_800, 3_600, 14_400, 43_200)


def job_of(chance: random.Random) -> tuple[dict[str, Any], int]:
    """The facts of a job, and for how long it runs."""
    walltime = chance.choice(WALLTIMES) * SECOND
    cpus, tasks = chance.choice((1, 2, 4, 8, 16, 32, 64)), 1
    if chance.random() < 0.4:
        cpus, tasks = chance.choice((4, 16, 32, 64)), chance.choice((2, 4, 8, 16, 32, 64))
    facts = {"need": {"cpus": cpus, "memory": cpus * chance.choice((1, 2, 4))}, "walltime": walltime}
    facts |= {"tasks": tasks, "spread": "any", "user": chance.choice("abcdefgh")}
    return facts, max(round(walltime * chance.random() ** 2), SECOND)


def messages(passes: int) -> Steps:
    """Yield what the planner is told: the jobs that fill the machine and wait, some passes, nodes shut, more passes."""
    chance, number, wake = random.Random(2), 0, None
    length: dict[int, int] = {}
    ends: list[tuple[int, int]] = []
    waiting = 0
    now = 1_000 * SECOND

    def come() -> list[Any]:
        nonlocal number
        number += 1
        facts, length[number] = job_of(chance)
        return [["submit", number, facts], ["wait", number]]

    for i in range(2 * passes + 2):
        told: list[Any] = []
        if i:
            now = max(now + TICK, ends[0][0])
            if wake is not None and wake < now:
                now = wake
        while ends and ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            told += [["gone", job, "COMPLETED"], ["over", job]]
        if i == passes + 1:
            told += [["capacity", {}, f"n{node * (NODES // SHUT) + 1}"] for node in range(SHUT)]
        come_now = WAITING - waiting if i else WAITING + 600
        for _ in range(come_now):
            told += come()
        waiting += come_now
        starts, wake = yield now, told, waiting
        waiting -= len(starts)
        for job in starts:
            heapq.heappush(ends, (now + length.pop(job), job))


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--policy", nargs="+", default=["easy", "conservative"])
    parser.add_argument("--times", type=int, default=1)
    asked = parser.parse_args()
    for policy in asked.policy:
        epoch = {"platform": PLATFORM, "resources": {}, "base": [], "now": 0, "policy": policy}
        lives = []
        for _ in range(asked.times):
            lives.append(Life(epoch))
            lives[-1].live(messages(asked.passes))
        passes, shut = shortest(lives, "passes"), asked.passes + 1
        print(f"{policy}: {NODES:,} nodes, {WAITING:,} waiting, load {os.getloadavg()[0]:.1f}")
        print(f"    the first pass {passes[0] * 1e3:.0f} ms, the one in which nodes are shut {passes[shut] * 1e3:.0f}")
        spans("all nodes open", passes[1:shut])
        spans(f"{SHUT} nodes shut", passes[shut + 1 :])
        spans("between two passes", shortest(lives, "rests"))
        for note in lives[0].notes:
            print(f"    {note}")


if __name__ == "__main__":
    main()
