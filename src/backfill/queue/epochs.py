"""The basis of an epoch: policy, program, platform, the way its pool preempts, and the predictor by which it plans."""

from backfill.pools.base import Pool, preempts
from backfill.queue import reserving
from backfill.queue.book import Book
from backfill.queue.events import Capacity
from backfill.queue.job import REQUEUE
from backfill.queue.shapes import Basis


def differs(book: Book, capacity: Capacity) -> bool:
    """Return whether the capacity differs from that in the book."""
    if capacity.platform is not None or book.platform:
        return (capacity.platform or "") != book.platform
    return capacity != Capacity(book.capacity, book.cpu_ids, book.gpu_ids)


def of_pool(pool: Pool) -> Basis:
    """The kinds of preemption of the pool, for an epoch, unless it can only end jobs, which start over."""
    some = preempts(pool)
    return {} if some == [REQUEUE] else {"preempts": some}


def successor(book: Book, pool: Pool, capacity: Capacity, policy: str, program: str, predict: str) -> tuple[str, str]:
    """Return why another epoch has to begin with a new daemon, empty if the present one continues; and its policy.

    policy, predict: those of the configuration.
    """
    epoch = book.epoch
    if not epoch or epoch.get("configured", epoch["asked"]) != policy:
        return "switched" if epoch else "first", policy
    same = epoch["program"] == program and epoch.get("platform", "") == book.platform
    same = same and epoch.get("preempts", [REQUEUE]) == preempts(pool)
    same = same and epoch.get("predict", epoch.get("mistrusts", "")) == predict
    if not (same and (book.platform or epoch["resources"].keys() == capacity.resources.keys())):
        return "switched", epoch["asked"]
    if reserving.changed(epoch.get("reservations", ()), book):
        return "reserved", epoch["policy"]
    return "", epoch["policy"]


def mistrust(wanted: Basis) -> None:
    """Make an epoch plan without predictions, since these may have failed."""
    if "predict" in wanted:
        wanted["mistrusts"] = wanted.pop("predict")
        del wanted["ended"]
