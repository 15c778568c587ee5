"""Find jobs of HTCondor that do not accept every node with enough free resources, by evaluating their requirements."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import classad2
import htcondor2

from backfill.pools import htcondor_pin as pins

FRESH_S = 60.0  # seconds for which the attributes of slots are cached
SIZES = ("Cpus", "Memory", "Disk", "GPUs")
FITS = classad2.ExprTree(
    "TARGET.Cpus >= (RequestCpus ?: 1) && TARGET.Memory >= (RequestMemory ?: 0)"
    " && (TARGET.GPUs ?: 0) >= (RequestGPUs ?: 0)"
)
ANYWHERE = classad2.ExprTree("true")
WAITS = (1, 5)  # JobStatus of idle and held jobs


class Places:
    """Evaluates the requirements of jobs against the ads of slots, as if the slots were empty."""

    def __init__(self) -> None:
        self._names: set[str] = set()  # attributes of slots that requirements refer to
        self._slots: list[Any] = []  # one of each kind
        self._at = 0.0  # when the slots were last queried
        self._known: dict[tuple[str, ...], bool] = {}

    def judge(self, collector: Any, ads: Sequence[Any]) -> None:
        """Set PICKY in the ad of each waiting job: whether it rejects a node that has enough resources for it."""
        waiting = [ad for ad in ads if ad.get("JobStatus") in WAITS]
        wanted = {one for ad in waiting for one in _of_slots(ad)} - self._names
        if waiting and (wanted or time.monotonic() - self._at > FRESH_S):
            self._names |= wanted
            self._slots, self._known = [*_kinds(collector, self._names)], {}
            self._at = time.monotonic()
        for ad in waiting:
            requirements = _required(ad)
            key = (str(requirements), *(str(ad.get(one)) for one in sorted(ad.internalRefs(requirements))))
            if key not in self._known:
                self._known[key] = self._is_picky(ad, requirements)
            ad[pins.PICKY] = self._known[key]

    def _is_picky(self, ad: Any, requirements: Any) -> bool:
        fitting = (slot for slot in self._slots if FITS.eval(scope=ad, target=slot) is True)
        return any(requirements.eval(scope=ad, target=slot) is not True for slot in fitting)


def _required(ad: Any) -> Any:
    """Return the requirements that the user of a job gave."""
    before = ad.lookup(pins.BEFORE) if pins.BEFORE in ad else None
    if before is not None and str(before) != "undefined":
        return before
    return ad.lookup("Requirements") if "Requirements" in ad else ANYWHERE


def _of_slots(ad: Any) -> Iterator[str]:
    for name in ad.externalRefs(_required(ad)):
        scope, _, attribute = name.rpartition(".")
        if scope.upper() in ("", "TARGET"):
            yield attribute


def _kinds(collector: Any, names: Iterable[str]) -> Iterator[Any]:
    """Return slots in their empty state, one for each distinct set of attributes."""
    sizes = [f"TotalSlot{name}" for name in SIZES]
    found = collector.query(
        htcondor2.AdType.Startd, "DynamicSlot =!= true", [*sizes, *SIZES, "PartitionableSlot", *names]
    )
    kinds = {}
    for ad in found:
        for name, size in zip(SIZES, sizes, strict=True):
            if ad.get("PartitionableSlot") and size in ad:
                ad[name] = ad[size]
        for name in ("ServerTime", "MyAddress", "AddressV1", "Name", "Machine", *sizes):
            if name in ad and name not in names:
                del ad[name]
        kinds[str(ad)] = ad
    return iter(kinds.values())
