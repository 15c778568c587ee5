"""backfill: a batch-job scheduler built around backfilling."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backfill.analysis.quality import quality as quality
    from backfill.analysis.replay import replay as replay
    from backfill.api import Result as Result
    from backfill.api import simulate as simulate
    from backfill.api import verify as verify
    from backfill.comparison import Comparison as Comparison
    from backfill.comparison import compare as compare
    from backfill.core.policy import Param as Param
    from backfill.core.policy import policy as policy
    from backfill.model.events import Events as Events
    from backfill.model.platform import Platform as Platform
    from backfill.model.workload import Workload as Workload
    from backfill.traces.events import read_events as read_events
    from backfill.traces.formats import import_log as import_log
    from backfill.traces.read import read as read
    from backfill.traces.write import write as write
    from backfill.workloads import generate as generate

    __version__: str

# Name -> where it lives. A name is imported when it is first used: `import backfill` costs nothing.
_HOMES = {
    "Comparison": "backfill.comparison",
    "Events": "backfill.model.events",
    "Param": "backfill.core.policy",
    "Platform": "backfill.model.platform",
    "Result": "backfill.api",
    "Workload": "backfill.model.workload",
    "compare": "backfill.comparison",
    "generate": "backfill.workloads",
    "import_log": "backfill.traces.formats",
    "policy": "backfill.core.policy",
    "quality": "backfill.analysis.quality",
    "read": "backfill.traces.read",
    "read_events": "backfill.traces.events",
    "replay": "backfill.analysis.replay",
    "simulate": "backfill.api",
    "verify": "backfill.api",
    "write": "backfill.traces.write",
}
__all__ = [
    "Comparison",
    "Events",
    "Param",
    "Platform",
    "Result",
    "Workload",
    "compare",
    "generate",
    "import_log",
    "policy",
    "quality",
    "read",
    "read_events",
    "replay",
    "simulate",
    "verify",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("backfill")
    if name not in _HOMES:
        raise AttributeError(f"module 'backfill' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__"])
