"""The actions of a queue that starts the jobs of an HTCondor, by the Python bindings; see htcondor_pin."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from backfill.pools.htcondor import Client, HTCondorReader
from backfill.pools.marks import mark_of
from backfill.pools.seen import JobNow

if TYPE_CHECKING:
    from backfill.pools.htcondor_acts import Gang

CHUNK = 500  # most jobs changed by one request
COMMAND = (sys.executable, "-P", "-m", "backfill.pools.htcondor_acts")


class Settings(TypedDict):
    """Settings of a site. settings: of schedd and negotiator, by name. starts: START of each slot. who: our user name
    there."""

    settings: dict[str, str]
    starts: list[str]
    who: str


class HTCondorHands:
    """See seen.Hands. home: the folder of the queue. reader: knows the slots of nodes, and is notified of edits."""

    forgets = False  # the schedd logs each start before the job begins

    def __init__(self, home: Path, reader: HTCondorReader, client: Client | None = None) -> None:
        self._mark, self._reader, self._client = mark_of(home), reader, client or Client(COMMAND)

    def instance(self) -> str:
        """Return the start time of the schedd, which identifies its run. Raises Down."""
        return str(self._client.ask(self._reader.at("instance"))["instance"])

    def settings(self) -> Settings:
        """Return the site's settings, for `backfill doctor`. Raises Down."""
        settings: Settings = self._client.ask(self._reader.at("settings"))
        return settings

    def version(self) -> str:
        """Return the version of HTCondor. Raises Down."""
        return str(self._client.ask(self._reader.at("instance"))["version"]).split()[1]

    def submit(self, gangs: "Sequence[Gang]") -> list[list[str]]:
        """Submit gangs as pinned jobs, one per node. Returns the job numbers. Raises Down."""
        act = self._reader.at("submit")
        found: list[list[str]] = self._client.ask({**act, "mark": self._mark, "gangs": [*gangs]})["jobs"]
        return found

    def adopt(self, some: Sequence[JobNow]) -> None:
        """See Hands."""
        self._do("adopt", [job.native for job in some])

    def start(self, some: Sequence[tuple[str, Sequence[str]]]) -> None:
        """See Hands. A job of HTCondor runs on a single node."""
        starts = {native: self._reader.where(native, nodes[0]) for native, nodes in some}
        self._do("start", [native for native, where in starts.items() if where], [*filter(None, starts.values())])

    def undo(self, some: Sequence[str]) -> None:
        """See Hands."""
        self._do("undo", some)

    def stop(self, some: Sequence[tuple[str, bool]]) -> None:
        """See Hands."""
        self._do("vacate", [native for native, again in some if again])
        self._do("remove", [native for native, again in some if not again])

    def comment(self, some: Sequence[tuple[str, str]]) -> None:
        """See Hands: in an attribute, as `condor_q -af:j BFComment` shows it."""
        self._do("comment", [native for native, _ in some], [text for _, text in some])

    def release(self, some: Sequence[JobNow]) -> None:
        """See Hands."""
        self._do("release", [job.native for job in some])

    def close(self) -> None:
        """End the client process."""
        self._client.close()

    def _do(self, what: str, jobs: Sequence[str], texts: Sequence[str] = ()) -> None:
        for first in range(0, len(jobs), CHUNK):
            part = slice(first, first + CHUNK)
            self._reader.edited(jobs[part])
            act = self._reader.at(what)
            self._client.ask({**act, "mark": self._mark, "jobs": [*jobs[part]], "texts": [*texts[part]]})
