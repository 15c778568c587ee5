"""Platforms in the output formats of batch systems: `scontrol`, `sinfo`, `pbsnodes`, `condor_status`."""

import re
from pathlib import Path

from backfill.model.errors import PlatformError, at, check_path
from backfill.model.platform import Platform
from backfill.traces.classads import ads_of
from backfill.traces.files import Source
from backfill.traces.inventory.htcondor import nodes_of_ads
from backfill.traces.inventory.nodes import Inventory
from backfill.traces.inventory.pbs import nodes_of_json, nodes_of_text
from backfill.traces.inventory.slurm import nodes_of_scontrol, nodes_of_sinfo, nodes_of_slurm_json
from backfill.traces.json_values import json_text, value_at

_SCONTROL = re.compile(r"^(NodeName|PartitionName)=", re.MULTILINE)
_SINFO = re.compile(
    r"^(?=.*\b(NODELIST|HOSTNAMES|NODE)\b)(?=.*\b(CPUS|PARTITION|STATE|MEMORY)\b)[A-Z_:(/) |]+$", re.MULTILINE
)
_AD = re.compile(r"^(Machine|Name|MyType) = \"", re.MULTILINE)
_PBS = re.compile(r"^\S+\n[ \t]+\w+ = ", re.MULTILINE)
_TOML = re.compile(r"^\s*\[\[\w+\]\]", re.MULTILINE)


def read_platform(path: str | Path) -> Platform:
    r"""Read a platform file: TOML, or the nodes that `scontrol show node --oneliner`, `sinfo -N -l`, `pbsnodes -a` or
    `condor_status -long` print, or one of them as JSON; docs/reference/files.md has the rules.

    Raises PlatformError with file, line, field, value and what was expected.

    >>> import backfill as bf
    >>> from pathlib import Path
    >>> _ = Path("nodes.txt").write_text("NodeName=n1 CPUTot=64 RealMemory=256000 State=IDLE\n")
    >>> bf.read_platform("nodes.txt").cpus
    64
    """
    check_path("path", path)
    if is_toml(path):
        return Platform.read(path)
    source = Source.of(path, PlatformError)
    listed = _inventory(source, json_text(source.data))
    return listed.platform(Path(source.file).name.partition(".")[0])


def is_toml(path: str | Path) -> bool:
    """Return whether a platform file is TOML; also true if it is unreadable, which Platform.read then reports."""
    if str(path).lower().endswith(".toml") or not Path(path).is_file():
        return True
    with open(path, "rb") as stream:
        head = stream.read(1 << 16)
    if head.startswith(b"\x1f\x8b"):
        return False
    text = head.decode("utf-8", "replace")
    other = text.lstrip()[:1] in ("{", "[") and not text.lstrip().startswith("[[")
    return bool(_TOML.search(text)) or not (other or any(p.search(text) for p in (_SCONTROL, _SINFO, _AD, _PBS)))


def _inventory(source: Source, text: str) -> Inventory:
    if text.lstrip()[:1] in ("{", "["):
        return _of_json(source, text)
    if _SCONTROL.search(text):
        return nodes_of_scontrol(source.file, text)
    if _SINFO.search(text):
        return nodes_of_sinfo(source.file, text)
    if _AD.search(text):
        return nodes_of_ads(source.file, [ad for _, ad in ads_of(text)])
    return nodes_of_text(source.file, text)


def _of_json(source: Source, text: str) -> Inventory:
    try:
        text = text.strip()
        data, end = value_at(text)
        if end < len(text):
            raise ValueError(f"{text[end : end + 20]!r} after its end")
    except ValueError as problem:
        raise PlatformError(at(source.file, getattr(problem, "lineno", None), f"is not JSON: {problem}")) from None
    try:
        if isinstance(data, list):
            return nodes_of_ads(source.file, data)
        if isinstance(data.get("nodes"), dict) and "nodes" not in data["nodes"]:
            return nodes_of_json(source.file, data["nodes"])
        if "nodes" in data or "sinfo" in data or "partitions" in data:
            return nodes_of_slurm_json(source.file, data)
    except (LookupError, TypeError, AttributeError) as problem:
        message = f"a node lacks {problem}; expected the JSON of scontrol, sinfo, pbsnodes or condor_status"
        raise PlatformError(at(source.file, None, message)) from None
    message = "JSON without nodes; expected that of scontrol, sinfo, pbsnodes or condor_status"
    raise PlatformError(at(source.file, None, message))
