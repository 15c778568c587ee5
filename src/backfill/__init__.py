"""backfill: a batch-job scheduler built around backfilling."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from backfill.analysis.quality import quality as quality
    from backfill.analysis.replay import replay as replay
    from backfill.api import Result as Result
    from backfill.api import simulate as simulate
    from backfill.api import verify as verify
    from backfill.client.executor import QueueExecutor as QueueExecutor
    from backfill.client.handles import Job as Job
    from backfill.client.handles import Queue as Queue
    from backfill.comparison import Comparison as Comparison
    from backfill.comparison import compare as compare
    from backfill.core.policy import Param as Param
    from backfill.core.policy import policy as policy
    from backfill.estimate_sweep import EstimateSweep as EstimateSweep
    from backfill.estimate_sweep import sweep_estimates as sweep_estimates
    from backfill.merging import merge_shards as merge_shards
    from backfill.model.errors import BackfillError as BackfillError
    from backfill.model.errors import BadArgument as BadArgument
    from backfill.model.errors import EventsError as EventsError
    from backfill.model.errors import InputError as InputError
    from backfill.model.errors import MissingExtra as MissingExtra
    from backfill.model.errors import NotLawful as NotLawful
    from backfill.model.errors import PlatformError as PlatformError
    from backfill.model.errors import PolicyError as PolicyError
    from backfill.model.errors import QueueError as QueueError
    from backfill.model.errors import ScheduleError as ScheduleError
    from backfill.model.errors import UsageError as UsageError
    from backfill.model.errors import WorkloadError as WorkloadError
    from backfill.model.events import Events as Events
    from backfill.model.platform import Platform as Platform
    from backfill.model.workload import Workload as Workload
    from backfill.optima import Optimum as Optimum
    from backfill.optima import optimum as optimum
    from backfill.policies import names as policies
    from backfill.shards import Shard as Shard
    from backfill.streams import Streamed as Streamed
    from backfill.streams import stream as stream
    from backfill.traces.events import read_events as read_events
    from backfill.traces.formats import import_log as import_log
    from backfill.traces.inventory import read_platform as read_platform
    from backfill.traces.read import read as read
    from backfill.traces.write import write as write
    from backfill.workloads import generate as generate

    __version__: str

# Name -> its module. A name is imported when it is first used: `import backfill` costs nothing.
_HOMES = {
    **dict.fromkeys(
        (
            *("BackfillError", "BadArgument", "EventsError", "InputError", "MissingExtra", "NotLawful"),
            *("PlatformError", "PolicyError", "QueueError", "ScheduleError", "UsageError", "WorkloadError"),
        ),
        "backfill.model.errors",
    ),
    "Comparison": "backfill.comparison",
    "EstimateSweep": "backfill.estimate_sweep",
    "Events": "backfill.model.events",
    "Job": "backfill.client.handles",
    "Optimum": "backfill.optima",
    "Param": "backfill.core.policy",
    "Platform": "backfill.model.platform",
    "Queue": "backfill.client.handles",
    "QueueExecutor": "backfill.client.executor",
    "Result": "backfill.api",
    "Shard": "backfill.shards",
    "Streamed": "backfill.streams",
    "Workload": "backfill.model.workload",
    "compare": "backfill.comparison",
    "generate": "backfill.workloads",
    "import_log": "backfill.traces.formats",
    "merge_shards": "backfill.merging",
    "optimum": "backfill.optima",
    "policies": "backfill.policies",
    "policy": "backfill.core.policy",
    "quality": "backfill.analysis.quality",
    "read": "backfill.traces.read",
    "read_events": "backfill.traces.events",
    "read_platform": "backfill.traces.inventory",
    "sweep_estimates": "backfill.estimate_sweep",
    "replay": "backfill.analysis.replay",
    "simulate": "backfill.api",
    "stream": "backfill.streams",
    "verify": "backfill.api",
    "write": "backfill.traces.write",
}
__all__ = [
    "BackfillError",
    "BadArgument",
    "Comparison",
    "EstimateSweep",
    "Events",
    "EventsError",
    "InputError",
    "Job",
    "MissingExtra",
    "NotLawful",
    "Optimum",
    "Param",
    "Platform",
    "PlatformError",
    "PolicyError",
    "Queue",
    "QueueError",
    "QueueExecutor",
    "Result",
    "ScheduleError",
    "Shard",
    "Streamed",
    "UsageError",
    "Workload",
    "WorkloadError",
    "compare",
    "generate",
    "import_log",
    "merge_shards",
    "optimum",
    "policies",
    "policy",
    "quality",
    "read",
    "read_events",
    "read_platform",
    "replay",
    "simulate",
    "stream",
    "sweep_estimates",
    "verify",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("backfill")
    if name not in _HOMES:
        raise AttributeError(f"module 'backfill' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(_HOMES[name])
    value = getattr(home, name, home)  # `policies` is the folder itself
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
