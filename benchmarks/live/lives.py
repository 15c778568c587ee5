"""A planner through which a million jobs pass: how long passes take at the beginning and at the end, and its memory.

    python benchmarks/live/lives.py [--jobs 1000000] [--policy easy ...] [--times 1] [--longest 3]

Jobs of 1 to 16 of 256 cpus come and end, so that 100 to 5,000 of them are open, in waves. Each pass is told what ended
and what came, as a daemon tells it. Times are processor time of this thread, since other work on the machine must not
count; with --times 2 everything is done twice, and of each pass the shorter time counts.

Printed for each policy: what passes take, in the first and the last tenth and in all; how many are longer than three
times the median and 5 ms, and the longest ones; what the planner does between two passes; and at pass 5,000 and at the
end its memory, and how long a planner takes that is made anew from `planner.kept` and what came since.
"""

import argparse
import heapq
import os
import random
import time
from typing import Any

from asked import SECOND, Life, Steps, shortest, spans

CPUS = 256
LEAST, MOST = 100, 5_000
WAVE = 40_000  # jobs that come from one low tide to the next
TICK = 30 * SECOND  # between two passes, if something happened
WALLTIMES = (60, 300, 900, 3_600)


def tide(number: int) -> int:
    """How many jobs are to be open when so many have come."""
    part = number % WAVE / WAVE
    return round(LEAST * (MOST / LEAST) ** (2 * min(part, 1 - part)))


def messages(jobs: int) -> Steps:
    """Yield instants and what the planner is told then; send it the jobs that were started, and its next wish."""
    chance = random.Random(1)
    now, number, open_, ends = 1_000 * SECOND, 0, 0, list[tuple[int, int]]()
    length: dict[int, int] = {}
    wake = None
    while number < jobs:
        now += TICK
        if wake is not None and wake < now:
            now = wake
        told: list[Any] = []
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            told += [["gone", job, "COMPLETED"], ["over", job]]
            open_ -= 1
        for _ in range(min(max(tide(number) - open_, 0), chance.choice((0, 1, 2, 8, 32)))):
            number, open_ = number + 1, open_ + 1
            walltime = chance.choice(WALLTIMES) * SECOND
            length[number] = max(round(walltime * chance.random() ** 2), SECOND)
            need = {"cpus": chance.choice([1, 1, 2, 4, 8, 16])}
            told += [["submit", number, {"need": need, "walltime": walltime, "user": chance.choice("abcdefgh")}]]
            told += [["wait", number]]
        if not told and now != wake:
            continue
        starts, wake = yield now, told, open_
        for job in starts:
            heapq.heappush(ends, (now + length.pop(job), job))


def report(title: str, lives: list[Life], longest: int) -> None:
    """Print what there is to say about lives that were all the same."""
    passes, rests, life = shortest(lives, "passes"), shortest(lives, "rests"), lives[0]
    tenth = len(passes) // 10
    begun = tenth // 10
    print(f"{title}, {len(passes):,} passes, {min(life.open)} to {max(life.open):,} open")
    spans("first tenth", passes[begun:tenth])
    spans("last tenth", passes[-tenth:])
    spans("all but the first hundredth", passes[begun:])
    bound = 3 * sorted(passes[begun:])[len(passes[begun:]) // 2] + 0.005
    over = sum(each > bound for each in passes[begun:])
    print(f"    longer than three times the median + 5 ms = {bound * 1e3:.2f} ms: {over}; the longest:")
    for i in sorted(range(begun, len(passes)), key=passes.__getitem__)[: -longest - 1 : -1]:
        print(f"        pass {i:,}, {life.open[i]:,} open: {passes[i] * 1e3:.2f} ms")
    spans("between two passes", rests[begun:])
    print(f"        put on the disk {len(life.saves)} times, in {max(life.saves, default=0) * 1e3:.1f} ms at most")
    for note in life.notes:
        print(f"    {note}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--policy", nargs="+", default=["easy", "conservative", "easy-sjf", "2tsb"])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--longest", type=int, default=3)
    asked = parser.parse_args()
    for policy in asked.policy:
        epoch = {"resources": {"cpus": CPUS}, "base": [], "now": 0, "policy": policy}
        lives, begun = [], time.perf_counter()
        for _ in range(asked.times):
            lives.append(Life(epoch))
            lives[-1].live(messages(asked.jobs))
        took = f"{time.perf_counter() - begun:.0f} s at load {os.getloadavg()[0]:.1f}"
        report(f"{policy}: {asked.jobs:,} jobs in {took}", lives, asked.longest)


if __name__ == "__main__":
    main()
