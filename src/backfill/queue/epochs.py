"""What an epoch is founded on: policy, program, platform, how its pool preempts, and by which predictions it plans."""

from backfill.pools.base import Pool, preempts
from backfill.queue import reserving
from backfill.queue.book import Book
from backfill.queue.events import Capacity
from backfill.queue.job import REQUEUE
from backfill.queue.shapes import Basis


def differs(book: Book, capacity: Capacity) -> bool:
    """Whether the machine has something else than in the book."""
    if capacity.platform is not None or book.platform:
        return (capacity.platform or "") != book.platform
    return capacity != Capacity(book.capacity, book.cpu_ids, book.gpu_ids)


def of_pool(pool: Pool) -> Basis:
    """What an epoch says of how the pool preempts, unless it just ends a job, which runs anew."""
    some = preempts(pool)
    return {} if some == [REQUEUE] else {"preempts": some}


def successor(book: Book, pool: Pool, capacity: Capacity, policy: str, program: str, predict: str) -> tuple[str, str]:
    """Why another epoch has to begin when a daemon does, empty if the present one goes on; and by which policy.

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
    """Let an epoch do without predictions: they may be what failed."""
    if "predict" in wanted:
        wanted["mistrusts"] = wanted.pop("predict")
        del wanted["ended"]
