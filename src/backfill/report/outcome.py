"""The outcome of runs over one workload, as plain data: the content of a page and of a saved folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backfill.analysis.metrics import NOTHING, Trim
from backfill.analysis.replay import Simulated
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Workload


class Finished(Simulated, Protocol):
    """The run of one policy over one workload; `backfill.Result` is one."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def events(self) -> Events | None: ...  # noqa: D102
    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(frozen=True, eq=False, slots=True)
class Details:
    """The jobs, and their schedules under every policy."""

    workload: Workload  # as simulated
    platform: Platform
    schedules: Sequence[Schedule]  # in the order of the names
    trims: tuple[Trim, Trim] = (NOTHING, NOTHING)  # the jobs left out of the metrics, first and last
    events: Events | None = None  # of the run, whose outages the chart shows


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """The JSON of a result, with a title, a command and names of the policies, and the details if they are known."""

    data: Mapping[str, Any]
    details: Details | None = None

    @classmethod
    def of(
        cls,
        results: Sequence[Finished],
        command: str = "",
        data: Mapping[str, Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        title: str = "",
    ) -> "Outcome":
        """Collect results over the same workload.

        data:  the `--json` output for them; by default that of each, without a comparison.
        names: the names of the results; by default their own.
        title: by default that of the first result.
        """
        first = results[0]
        head = {"title": title or first.title, "command": command, "names": list(names or [r.name for r in results])}
        data = {"results": [result.to_dict() for result in results]} if data is None else data
        schedules, trims = [r.schedule for r in results], (first.warmup, first.cooldown)
        details = Details(first.workload, first.platform, schedules, trims, first.events)
        return cls({**head, **data}, details)
