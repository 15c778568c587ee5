"""How often jobs start by the 90 % bound of `eta` in a queue in which few jobs have ended.

    python benchmarks/live/bounds_held.py LOG.swf.gz [--policy easy ...] [--queues 24] [--jobs 60] [--load 10]

Each of the queues begins empty, with the jobs of another part of the log, which come LOAD times as fast as they did,
so that jobs wait before the first one has ended. When 1, 3, 10 and 30 jobs have ended, every waiting job is
estimated; afterwards the queue goes on, with the run times of the log, and the estimates are compared with the starts.

Printed for each number of ended jobs: the estimates; the share of jobs that started by their bound; and the medians of
the error of the likely start, of the wait until the bound, and of the real wait. The jobs of one queue are alike, so
the number of queues says how exact a share is.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.queue.test_eta import ask
from tests.queue.virtual import Virtual

from backfill.model.units import SECOND
from backfill.traces.read import read

BUCKETS = ((1, 2), (3, 5), (10, 14), (30, 40))  # numbers of ended jobs, from and to

Seen = tuple[float, float, float]  # waits from the estimate on, in seconds: likely, bound, real


def lives(jobs, first: int, count: int, load: float, policy: str, cpus: int) -> dict[int, list[Seen]]:
    """Return what was estimated in a queue with these jobs of a log, by the number of jobs that had ended."""
    told: dict[int, dict[int, tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="backfill-") as folder:
        queue = Virtual(Path(folder), policy, cpus=cpus)
        begin = int(jobs.submit[first])
        for row in range(first, min(first + count, len(jobs.submit))):
            queue.until((int(jobs.submit[row]) - begin) / SECOND / load)
            over = queue.engine.book.last_job - len(queue.engine.book.jobs)
            bucket = next((low for low, high in BUCKETS if low <= over <= high and low not in told), None)
            if bucket is not None and any(job.start is None for job in queue.engine.book.jobs.values()):
                rows = [one for one in ask(queue, "eta")["jobs"] if one["p90_s"] is not None]
                told[bucket] = {one["id"]: (queue.t / 1e6, one["median_s"], one["p90_s"]) for one in rows}
            walltime = max(int(jobs.walltime[row]) // SECOND, 1)
            runtime = max(min(int(jobs.runtime[row]) / SECOND, walltime), 1)
            queue.submit(int(jobs.tasks[row]), walltime, runtime, jobs.user[row] or "u", "job")
        queue.drain()
        found = {
            bucket: [
                (likely - now, bound - now, queue.job(number).start / 1e6 - now)
                for number, (now, likely, bound) in some.items()
            ]
            for bucket, some in told.items()
        }
        queue.store.close()
    return found


def main() -> None:
    """Print the table of each policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--policy", nargs="+", default=["easy"])
    parser.add_argument("--queues", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--load", type=float, default=10.0)
    asked = parser.parse_args()
    log = read(asked.log)
    jobs = log.jobs
    cpus = int(jobs.tasks.max())
    step = (len(jobs.submit) - asked.jobs) // asked.queues
    for policy in asked.policy:
        found: dict[int, list[list[Seen]]] = defaultdict(list)
        for number in range(asked.queues):
            for bucket, some in lives(jobs, number * step, asked.jobs, asked.load, policy, cpus).items():
                found[bucket].append(some)
        print(
            f"{policy}: {'ended':>6} {'queues':>7} {'estimates':>9} {'held':>6} {'error':>9} {'bound':>9} {'wait':>9}"
        )
        for bucket, queues in sorted(found.items()):
            some = [one for each in queues for one in each]
            if some:
                held = sum(start <= bound + 1 for _, bound, start in some) / len(some)
                each = [median(abs(start - likely) for likely, _, start in some)]
                each += [median(bound for _, bound, _ in some), median(start for *_, start in some)]
                print(f"{policy}: {bucket:>6} {len(queues):>7} {len(some):>9} {held:>6.1%} "
                      + " ".join(f"{span / 60:>7.1f}mi" for span in each))  # fmt: skip


if __name__ == "__main__":
    main()
