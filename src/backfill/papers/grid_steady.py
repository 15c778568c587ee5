"""A test for a steady state of the queue of gangs, by the gangs left over in runs of different lengths."""

from collections.abc import Mapping
from dataclasses import dataclass

from backfill.analysis.interval import Estimate
from backfill.papers.grid_runs import ARRIVALS, ARRIVED, LEFT
from backfill.papers.sweep import Sweep

LONGER = 4  # times as many arrivals
GROWS = 1.5  # ratio of gangs left over: a queue at its limit has twice as many, beyond it four times
FEW = 0.01  # of the gangs of a longer run: this many are under way at any instant
TESTED = (11, 12, 13)  # local jobs per second; at fewer nearly all gangs complete


@dataclass(frozen=True, eq=False, slots=True)
class Steady:
    """Runs of the usual length and longer ones, by sizes of gangs, with the same seeds.

    If gangs arrive faster than they are served, those left over at the last arrival grow with the length of the run.
    Their mean response then depends on the length of the run, and excludes gangs that never ended.
    """

    usual: Mapping[str, Sweep]
    longer: Mapping[str, Sweep]
    sizes: Mapping[str, str]  # their names
    approaches: tuple[str, ...]

    def left(self, sizes: str, local: float, policy: str) -> tuple[Estimate, Estimate]:
        """Return the gangs left over at the last arrival, in usual and in longer runs."""
        return tuple(sweeps[sizes].mean(local, policy, LEFT) for sweeps in (self.usual, self.longer))  # type: ignore[return-value]

    def __call__(self, sizes: str, local: float, policy: str) -> bool:
        """Return whether there is a steady state, as far as tested."""
        tried = self.longer[sizes].found.get(local)
        if not tried or policy not in tried[0]:
            return True
        usual, longer = self.left(sizes, local, policy)
        few = FEW * self.longer[sizes].mean(local, policy, ARRIVED).mean
        return longer.mean < GROWS * usual.mean or longer.mean < few

    def sentence(self) -> str:
        """Return a sentence on the cases without a steady state, and the number of gangs censored there."""
        without = [
            f"{100 * (left := usual.mean) / self.usual[sizes].mean(local, policy, ARRIVED).mean:.1f}% of the gangs "
            f"({left:.0f}, and {longer.mean:.0f} of {LONGER} times as many) under {policy} at {local}, {label}"
            for sizes, label in self.sizes.items()
            for local in self.longer[sizes].found
            for policy in self.approaches
            if not self(sizes, local, policy)
            for usual, longer in [self.left(sizes, local, policy)]
        ]
        if not without:
            return f"no sign that there is none, in runs of {LONGER * ARRIVALS:,} arrivals"
        return f"none, so no mean of gangs, and left over at the last arrival: {'; '.join(without)}"
