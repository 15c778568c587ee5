"""A figure of a few jobs: one block for each resource type, with a box for each job's holdings over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from backfill.report.plots import COLOURS


@dataclass(frozen=True, slots=True)
class Held:
    """The holdings of one job, in seconds and units."""

    job: str
    group: str  # jobs of a group share a colour
    start: float
    end: float
    demand: tuple[int, ...]  # by resource type


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """Schedules of the same jobs side by side, with the attributes that `write_figure` and the page require."""

    name: str  # of its files
    title: str
    resources: Mapping[str, int]  # resource type -> capacity
    schedules: Mapping[str, Sequence[Held]]  # maker of the schedule -> its jobs
    x: str = "job"
    y: str = "start to end, s"
    table: bool = True
    points: bool = True  # as wide as the page

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return 4.2 * len(self.schedules), 1.2 + 0.45 * sum(self.resources.values())

    @property
    def header(self) -> tuple[str, ...]:
        """The header of `rows`."""
        return ("policy", "job", "start", "end", *self.resources)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The drawn values."""
        return [
            (label, each.job, f"{each.start:g}", f"{each.end:g}", *map(str, each.demand))
            for label, jobs in self.schedules.items()
            for each in jobs
        ]

    @property
    def at(self) -> list[str]:
        """The jobs, for the table."""
        return [each.job for each in next(iter(self.schedules.values()))]

    @property
    def lines(self) -> dict[str, list[str]]:
        """The start and end of each job, for the table."""
        return {label: [f"{each.start:g} to {each.end:g}" for each in jobs] for label, jobs in self.schedules.items()}

    def text(self, cell: str) -> str:
        """Return a cell of the table."""
        return cell

    def draw(self, drawn: Any) -> None:
        """Draw on an empty figure."""
        end = max(each.end for jobs in self.schedules.values() for each in jobs)
        groups = sorted({each.group for jobs in self.schedules.values() for each in jobs})
        colours = dict(zip(groups, COLOURS[1:], strict=False))
        axes = drawn.subplots(
            len(self.resources), len(self.schedules), sharex=True, sharey="row", squeeze=False,
            height_ratios=[*self.resources.values()],
        )  # fmt: skip
        for column, (label, jobs) in enumerate(self.schedules.items()):
            axes[0][column].set_title(label, fontsize=12)
            axes[-1][column].set_xlabel("time, s")
            for row, (resource, capacity) in enumerate(self.resources.items()):
                ax = axes[row][column]
                ax.set(xlim=(0, end), ylim=(0, capacity), xticks=range(int(end) + 1), yticks=range(capacity + 1))
                ax.grid(alpha=0.3)
                ax.set_axisbelow(True)
                if column == 0:
                    ax.set_ylabel(f"{resource}, units held")
                _draw(ax, jobs, row, capacity, colours)
        drawn.suptitle(self.title, fontsize=13)


def _draw(ax: Any, jobs: Sequence[Held], resource: int, capacity: int, colours: Mapping[str, str]) -> None:
    """Draw boxes for the jobs that hold units of a resource type; each takes the lowest units free at its start."""
    free_from = [0.0] * capacity
    for each in sorted(jobs, key=lambda held: held.start):
        free = [unit for unit, since in enumerate(free_from) if since <= each.start]
        mine = free[: each.demand[resource]]
        for unit in mine:
            free_from[unit] = each.end
        boxes = [[unit for _, unit in run] for _, run in groupby(enumerate(mine), lambda pair: pair[1] - pair[0])]
        for box in boxes:
            bar = ax.barh(
                box[0], each.end - each.start, len(box), each.start, align="edge", color=colours[each.group],
                edgecolor="white", linewidth=2,
            )  # fmt: skip
            ax.bar_label(bar, [each.job], label_type="center", color="white", fontsize=9, fontweight="bold")
