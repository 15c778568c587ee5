"""Predictors, plain and in full view: a prediction at the submit, and what follows when a job outlives it."""

from dataclasses import dataclass, field

from backfill.model.units import SECOND

from .words import Job, Time

MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)  # by so much corrections raise the first prediction


@dataclass
class Average2:
    """The mean run time of the user's last two jobs; the walltime where fewer have ended."""

    correct: str = "incremental"
    ended: dict[int, list[Time]] = field(default_factory=dict)  # run times of each user
    first: dict[int, Time] = field(default_factory=dict)  # prediction of each job at its submit
    corrections: dict[int, int] = field(default_factory=dict)

    def learn(self, job: Job, ran: Time) -> None:
        if job.user is not None:
            self.ended.setdefault(job.user, []).append(ran)

    def predict(self, job: Job) -> Time:
        known = self.ended.get(job.user, [])
        guess = sum(known[-2:]) // 2 if len(known) >= 2 else job.estimate
        self.first[job.row] = min(max(guess // SECOND * SECOND, SECOND), job.estimate)
        self.corrections[job.row] = 0
        return self.first[job.row]

    def again(self, job: Job) -> Time:
        """The next prediction of a job that runs on at the end of this one."""
        n = self.corrections[job.row]
        self.corrections[job.row] += 1
        if self.correct == "doubling":
            return 2 * job.estimate
        if self.correct == "incremental" and n < len(MINUTES):
            return min(self.first[job.row] + MINUTES[n] * 60 * SECOND, job.walltime)
        return job.walltime
