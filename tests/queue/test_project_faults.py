"""Projects in random histories with crashes at every point: each is queued as a whole or not at all, and departs."""

import os

import pytest

from tests.queue.world import SECOND, World

RUNS = int(os.environ.get("BACKFILL_FAULT_RUNS", "24"))


class Projects(World):
    """Every third submit is a project, and some jobs are submitted with the name of one later."""

    def new_job(self):
        token, request = super().new_job()
        chance = self.random.random()
        if chance < 0.33:
            return token, {"do": "submit_project", "user": "ana", "project": token, "jobs": self.new_jobs()}
        if chance < 0.5 and self.engine.book.projects:
            request["job"]["project"] = self.random.choice(sorted(self.engine.book.projects))
        return token, request

    def new_jobs(self):
        found = []
        for place in range(self.random.randint(1, 6)):
            after = self.random.sample(range(place), min(place, self.random.randint(0, 2)))
            kind = self.random.choice(["afterok", "afterany", "afternotok", "after"])
            job = {"name": f"j{place}", "need": {"cpus": self.random.randint(1, 4)}, "walltime": 50 * SECOND}
            found.append({"job": job, "spec": {"argv": ["true"]}, "after": [[kind, on] for on in after]})
        return found

    def flush(self):
        self.engine.departures.promised = True  # by this planner: to what runs
        super().flush()

    def check(self):
        super().check()
        for event, _, _ in self.store.events(kinds=["project"]):
            there = self.store.jobs("id BETWEEN ? AND ?", [event.first, event.first + event.count - 1])
            assert len(there) == event.count, "a part of a project is queued"
            assert {job.project for job in there} == {event.project}


@pytest.mark.parametrize("seed", range(RUNS // 2))
def test_a_project_is_there_as_a_whole_and_departs_whatever_dies(seed):
    world = Projects(seed)
    world.run(200)
    assert not world.engine.book.projects
    some = [event.project for event, _, _ in world.store.events(kinds=["project"])]
    for name in some:
        project = world.store.project(name)
        ends = [job.end for job in world.store.jobs_of(name)]
        assert project.end is not None
        assert project.end <= max(ends)  # some may have been submitted later with its name
        if not world.preempts:  # no policy that promises departures does
            assert all(one.cause != "bug" for one in project.promises), project.promises
            assert project.slip != "bug"
