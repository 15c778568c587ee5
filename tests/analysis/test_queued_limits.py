"""How many jobs a limit counts when another one comes: found by a sweep, here counted one by one."""

from dataclasses import replace

import pytest

import backfill as bf
from backfill.model.partitions import Limit
from backfill.model.workload import Labels


@pytest.mark.parametrize("per", ["all", "user"])
def test_jobs_that_ran_although_their_queue_was_full_are_found(per):
    log = bf.generate("lublin?jobs=400&cpus=32&load=1.3&seed=3")
    log = log.with_jobs(log.jobs.replace(user=Labels.of([f"u{row % 3}" for row in range(400)])))
    done = bf.simulate(log, policy="easy")
    submit, start, end = log.jobs.submit.tolist(), done.schedule.start.tolist(), done.schedule.end.tolist()
    for most in (1, 5, 40):
        full = []
        for row in range(400):
            rivals = [x for x in range(row) if per == "all" or x % 3 == row % 3]
            queued = [x for x in rivals if end[x] > submit[row] or start[x] == end[x] == submit[row]]
            full += [str(log.jobs.job[row])] * (len(queued) >= most)
        pool = replace(done.platform, limits=(Limit(name="few", per=per, queued_jobs=most),))
        found = bf.verify(replace(done, platform=pool))
        told = [each.job for each in found if each.rule == "queued" and each.job]
        assert told == full[:20]
        more = [each.text for each in found if each.rule == "queued" and not each.job]
        assert len(full) <= 20 or str(len(full) - 20) in more[0]
