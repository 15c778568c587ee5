"""A run on a real batch system, judged by what its jobs themselves have written down."""

from collections import Counter
from statistics import median


class Judged:
    """What the jobs have written down, against what the queue says of them.

    log: lines `B JOB NODE SECONDS` and `E ...` of begins and ends. some: the jobs that were submitted. over: what the
    queue knows of those that are over, by their names. cpus: of each node. twice: ended twice, or begun while it ran.
    again: HTCondor has put them back, so that they began anew.
    """

    def __init__(self, log, some, over, cpus):
        runs, self.twice, self.again = {}, [], []
        busy, self.overbooked = Counter(), []
        for kind, job, node, t in (line.split() for line in log.read_text().splitlines()):
            mine = runs.setdefault(job, [])
            if kind == "B":
                mine.append([node, float(t), None])
                self.again += [job] * (len(mine) > 1)
            else:
                self.twice += [job] * (mine[-1][2] is not None or mine[-1][0] != node)
                mine[-1][2] = float(t)
        ended = [(job, *run) for job, mine in runs.items() for run in mine if run[2] is not None]
        self.twice += [job for job, mine in runs.items() if sum(end is not None for *_, end in mine) > 1]
        changes = [(begin, over[job]["cpus"], node) for job, node, begin, _ in ended]
        changes += [(end, -over[job]["cpus"], node) for job, node, _, end in ended]
        for t, change, where in sorted(changes):
            busy[where] += change
            self.overbooked += [(where, t)] * (busy[where] > cpus)
        self.lost = [job for job in some if job not in {job for job, *_ in ended}]
        self.lost += [job for job in some if over.get(job, {}).get("state") != "COMPLETED"]
        self.elsewhere = [job for job, node, *_ in ended if [one for one, *_ in over[job]["nodes"]] != [node]]
        self.latency = sorted(b - over[job]["start_s"] for job, _, b, _ in ended if over[job]["why"] != "foreign-start")
        self.foreign = [job for job in some if over[job]["why"] == "foreign-start"]

    def __str__(self):
        counts = {
            name: len(getattr(self, name)) for name in ("lost", "twice", "elsewhere", "overbooked", "again", "foreign")
        }
        worst = self.latency[-1] if self.latency else 0
        return f"{counts}, decision to running median {median(self.latency):.2f} s, at most {worst:.2f} s"
