"""What a queue is told by its config.toml, and what it finds out about the machine."""

import hashlib
import json
import math
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.daemon.licences import Licence
from backfill.model.errors import PolicyError, UsageError
from backfill.packaged import resolved
from backfill.policies import check_name
from backfill.queue.events import Capacity
from backfill.queue.nodes import FLOATING, MACHINE
from backfill.queue.shapes import Defaults
from backfill.queue.words import Unreadable, numbers_text, parse_array, parse_memory, parse_time

if TYPE_CHECKING:  # numpy and pydantic are for those who have a platform file
    from backfill.model.platform import Platform

POLICY, PLATFORM, LOCAL, STORE = "conservative", "platform.toml", "local", "store.db"
WALLTIME, GRACE = 3_600_000_000, 30_000_000
KEYS = ("policy", "predict", "default_time", "grace", "cpus", "memory", "gpus", "licence", "platform", "pool", "shadow",
        "adopt", "publish")  # fmt: skip
OWN = ("cpus", "memory", "gpus")  # settings of a machine of one node
WATCHED = ("slurm", "htcondor")  # batch systems that a queue can watch
STARTED = ("slurm", "htcondor")  # those whose jobs it can start
FAKE = {"speed": 1.0, "failures": 0.0, "repair": 3600.0, "foreign": 0.0, "seed": 0.0}  # of a fake pool


class Config:
    """Settings of a queue. Raises Unreadable, which names the file and the setting."""

    def __init__(self, home: Path) -> None:
        self.file = home / "config.toml"
        told: dict[str, Any] = {}
        try:
            told = tomllib.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.file}: {error}") from None
        for name in told:
            if name not in KEYS:
                raise Unreadable(f"{self.file}: unknown setting {name!r}; known: {', '.join(KEYS)}")
        try:
            self.policy = kept(home, str(told.get("policy", POLICY)))
        except Unreadable as error:
            raise Unreadable(f"{self.file}: {error}") from None
        self.predict = self._predict(home, told.get("predict", ""))
        self.defaults: Defaults = {
            "walltime": self._read(told, "default_time", parse_time, WALLTIME),
            "grace": self._read(told, "grace", parse_time, GRACE),
        }
        self.pool, self.fake = str(told.get("pool", LOCAL)), {}
        self.shadow = told.get("shadow", False)
        if (self.shadow and self.pool not in WATCHED) or (self.pool in WATCHED and self.pool not in STARTED
                                                          and self.shadow is not True):  # fmt: skip
            expected = f"shadow = true with pool = {' or '.join(WATCHED)}"
            raise Unreadable(f"{self.file}: pool is {self.pool!r} and shadow {self.shadow!r}; expected {expected}")
        self.native = self.pool in WATCHED
        self.adopt = self._adopt(told.get("adopt", False))
        self.publish = told.get("publish", False)
        if not isinstance(self.publish, bool) or (self.publish and (self.pool not in STARTED or self.shadow)):
            expected = f"true or false, in a queue that starts the jobs of {' or '.join(STARTED)}"
            raise Unreadable(f"{self.file}: publish is {self.publish!r}; expected {expected}")
        if self.native and "platform" not in told:
            raise Unreadable(f"{self.file}: no platform; backfill serve --pool {self.pool} writes one")
        if is_fake(self.pool):
            try:
                self.pool, self.fake = "fake", fake_settings(self.pool)
            except Unreadable as error:
                raise Unreadable(f"{self.file}: {error}") from None
        self.platform, self.nodes = self._platform(home, told) if "platform" in told else ("", {})
        cpus, gpus = _cpus(), _gpus()
        if self.platform and self.pool == LOCAL:  # a node of which this machine is the whole
            told |= {name: next(iter(self.nodes.values())).get(name, 0) for name in OWN}
        if isinstance(told.get("cpus"), str):  # their numbers
            cpus = self._some_of(cpus, told["cpus"])
            told["cpus"] = len(cpus)
        count = self._whole(told, "cpus", len(cpus))
        self.cpu_ids = [*cpus, *(max(cpus) + 1 + n for n in range(count - len(cpus)))][:count]
        self.gpu_ids = [*range(self._whole(told, "gpus", gpus))]
        memory = self._read(told, "memory", parse_memory, _memory() // 10 * 9)
        self.resources = {"cpus": count, "memory": memory, "gpus": len(self.gpu_ids)}
        self.synced: list[Licence] = []
        for name, facts in told.get("licence", {}).items():
            if self.platform and name not in self.nodes[FLOATING]:
                raise Unreadable(f"{self.file}: licence {name}: the platform has no such floating licence")
            if name in self.resources or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise Unreadable(f"{self.file}: {name!r} is not the name of a licence")
            if not isinstance(facts, dict) or facts.keys() - {"copies", "margin", "sync", "every", "timeout"}:
                raise Unreadable(f"{self.file}: licence {name}: expected copies, margin, sync, every and timeout")
            margin = self._whole(facts, "margin", 0)
            if self.platform:
                facts = {"copies": self.nodes[FLOATING][name], **facts}
                self.nodes[FLOATING][name] = max(self._whole(facts, "copies", 0) - margin, 0)
            else:
                self.resources[name] = max(self._whole(facts, "copies", 0) - margin, 0)
            if "sync" in facts:
                self.synced.append(self._synced(name, facts, margin))
        self.pinned = count <= len(cpus)  # else some of the cpus are only numbers

    def _predict(self, home: Path, told: Any) -> str:
        """The predictions by which the policy plans; empty for walltimes. A user's file is copied, as a policy's."""
        if told == "":
            return ""
        from backfill.worlds.prediction import EXPECTED, Prediction  # which few queues ever need

        try:
            if not isinstance(told, str):
                raise UsageError(f"predict is {told!r}; expected {EXPECTED}")
            Prediction.parse(told)
            if not (text := _copied(home, told, "predictor")):
                return told
            Prediction.parse(text).load()
        except (UsageError, PolicyError, Unreadable) as error:
            raise Unreadable(f"{self.file}: {error}") from None
        return text

    def _adopt(self, told: Any) -> dict[str, list[str]] | None:
        """Whose waiting jobs are adopted: `users` and `partitions`, all if there are none; None: nobody's."""
        if told is False:
            return None
        if self.pool not in STARTED or self.shadow:
            raise Unreadable(f"{self.file}: adopt belongs to a queue that starts the jobs of {' or '.join(STARTED)}")
        kinds = {"users", "partitions"}
        found = {} if told is True else told
        if not isinstance(found, dict) or found.keys() - kinds or not all(isinstance(v, list) for v in found.values()):
            expected = "true, or a table of users and partitions, each a list of names"
            raise Unreadable(f"{self.file}: adopt is {told!r}; expected {expected}")
        if "partitions" in found and self.pool == "htcondor":
            raise Unreadable(f"{self.file}: adopt names partitions, and HTCondor has none; expected users")
        return {name: [str(one) for one in some] for name, some in found.items()}

    def _some_of(self, cpus: list[int], given: str) -> list[int]:
        try:
            found = sorted({*parse_array(given)[0]})
        except Unreadable:
            raise Unreadable(f"{self.file}: cpus is {given!r}; expected how many, or numbers such as '0-3'") from None
        if not set(found) <= set(cpus):
            raise Unreadable(f"{self.file}: cpus is {given!r}; expected some of {numbers_text(cpus)}")
        return found

    def _synced(self, name: str, facts: dict[str, Any], margin: int) -> Licence:
        command = facts["sync"]
        if not (isinstance(command, list) and command and all(isinstance(word, str) for word in command)):
            raise Unreadable(f"{self.file}: licence {name}: sync is a list of words, a command")
        every = self._read(facts, "every", parse_time, 30_000_000)
        timeout = self._read(facts, "timeout", parse_time, 5_000_000)
        return Licence(name, command, every / 1e6, timeout / 1e6, margin, self._whole(facts, "copies", 0))

    def adopts(self, user: str, partition: str) -> bool:
        """Whether a job that waits in the batch system is to be started by the queue."""
        if self.adopt is None:
            return False
        of = {"users": user, "partitions": partition}
        return all(of[name] in some for name, some in self.adopt.items())

    @property
    def capacity(self) -> Capacity:
        """What jobs may have."""
        ids = ([], []) if self.pool != LOCAL else (self.cpu_ids, self.gpu_ids)
        nodes = self.nodes if self.platform else None
        return Capacity(self.resources, *ids, nodes, self.platform or None)

    @property
    def stated(self) -> dict[str, dict[str, int]]:
        """What each node has, as `Nodes` takes it."""
        return self.nodes or {MACHINE: self.resources}

    def _platform(self, home: Path, told: dict[str, Any]) -> tuple[str, dict[str, dict[str, int]]]:
        """The text of the platform file, and what each of its nodes has; its floating licences are at FLOATING."""
        if own := [name for name in OWN if name in told]:
            raise Unreadable(f"{self.file}: {own[0]} is set, and the platform says it; expected one of the two")
        file = home / str(told["platform"])
        platform = read_platform(file)
        if len(platform.nodes) > 1 and self.pool == LOCAL:
            many = f"{file} has {len(platform.nodes)} nodes, and this machine is one"
            raise Unreadable(f'{self.file}: {many}; expected pool = "fake:1" to simulate the cluster')
        facts = platform_facts(platform)
        return facts["platform"], facts["nodes"]

    def _whole(self, told: dict[str, Any], name: str, default: int) -> int:
        value = told.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**20:
            raise Unreadable(f"{self.file}: {name} is {value!r}; expected a whole number")
        return value

    def _read(self, told: dict[str, Any], name: str, read: Any, default: int) -> int:
        if name not in told:
            return default
        try:
            return int(read(str(told[name])))
        except ValueError as error:
            raise Unreadable(f"{self.file}: {name}: {error}") from None


def is_fake(pool: str) -> bool:
    """Whether this is to name a fake pool."""
    return pool not in (LOCAL, *WATCHED) and ".py" not in pool


def fake_settings(text: str) -> dict[str, float]:
    """The settings of a fake pool: fake:SPEED, or fake:NAME=VALUE,... Raises Unreadable."""
    kind, _, rest = text.partition(":")
    names = ", ".join(FAKE)
    watched = ", ".join(WATCHED)
    expected = f"expected local, {watched}, fake:SPEED, fake: with {names} as NAME=VALUE,..., or FILE.py:NAME"
    found = dict(FAKE)
    for part in rest.split(",") if rest else ():
        name, _, value = part.partition("=") if "=" in part else ("speed", "=", part)
        try:
            found[name] = float(value) if name in FAKE else math.nan
        except ValueError:
            found[name] = math.nan
    if kind != "fake" or not all(0 <= value <= 1e6 for value in found.values()):
        raise Unreadable(f"pool is {text!r}; {expected}")
    if not found["speed"]:
        raise Unreadable(f"pool is {text!r}; expected a speed above 0")
    if found["failures"] > 1:
        raise Unreadable(f"pool is {text!r}; expected failures from 0 to 1")
    return found


def read_platform(file: Path) -> "Platform":
    """The platform of a file. Raises Unreadable."""
    from backfill.model.errors import PlatformError  # numpy and pydantic are for those who have one
    from backfill.model.platform import Platform

    try:
        return Platform.read(file)
    except PlatformError as error:
        raise Unreadable(str(error)) from None


def begin_with(home: str, asked: Mapping[str, str | bool], platform_of: Callable[[str], str]) -> None:
    """Have a new queue begin with this `pool`, `shadow`, and `platform`, a file of which it keeps a copy; again is
    harmless. platform_of: tells the platform of a batch system that it watches, as it is now.

    Raises Unreadable; then nothing has changed.
    """
    pool, shadow = str(asked.get("pool", LOCAL)), asked.get("shadow", False)
    if shadow and pool not in WATCHED:
        raise Unreadable(f"--shadow watches a batch system; expected --pool {' or --pool '.join(WATCHED)} with it")
    if pool in WATCHED and pool not in STARTED and not shadow:
        raise Unreadable(f"--pool {pool}: a queue can only watch it; expected --shadow with it")
    if is_fake(pool):
        try:
            fake_settings(pool)
        except Unreadable as error:
            raise Unreadable(f"--{error}") from None
    if asked.get("adopt") and (shadow or pool not in STARTED):
        raise Unreadable(f"--adopt takes over jobs; expected --pool {' or --pool '.join(STARTED)} with it")
    folder, settings, copies = Path(home), dict(asked), dict[Path, str]()
    file = folder / "config.toml"
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        told = tomllib.loads(text)
        if "platform" in asked:
            read_platform(Path(str(asked["platform"])))
            copies[folder / PLATFORM] = Path(str(asked["platform"])).read_text(encoding="utf-8")
            settings["platform"] = PLATFORM
        elif pool in WATCHED:
            copies[folder / PLATFORM] = platform_of(pool)
            settings["platform"] = PLATFORM
        if ".py" in str(asked.get("predict", "")):
            settings["predict"] = os.path.abspath(str(asked["predict"]))
        for name, value in settings.items():
            if told.get(name, value) != value:
                raise Unreadable(f"{file}: {name} is {told[name]!r}, not {value!r}; change it there")
            if name == "predict" and name not in told and (folder / STORE).exists():
                raise Unreadable(f"{folder} is a queue that has begun; set predict in {file} and restart the daemon")
            if name not in told and (folder / STORE).exists():
                begun = f"{folder} is a queue that has begun without --{name} {asked[name]}"
                raise Unreadable(f"{begun}; expected a new queue for that, by another BACKFILL_HOME")
        copies[file] = "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if name not in told
        )
        copies[file] += text
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = {path: path.read_text(encoding="utf-8") if path.exists() else None for path in copies}
        if pool not in WATCHED and before.get(folder / PLATFORM) not in (None, copies.get(folder / PLATFORM)):
            raise Unreadable(f"{folder / PLATFORM} is another platform; change it there")
        _put(copies)
        try:
            Config(folder)
        except Unreadable:
            _put(before)
            raise
    except OSError as error:
        raise Unreadable(f"{error.filename}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Unreadable(f"{asked.get('platform', file)}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{file}: {error}") from None


def _put(texts: Mapping[Path, str | None]) -> None:
    """Have these texts in these files; None: no file."""
    for path, text in texts.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            new = path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(path)


def platform_facts(platform: "Platform") -> dict[str, Any]:
    """A platform as the log has it: the text of its file, and what each node has; see Nodes."""
    amounts = [dict(zip(platform.resources, row, strict=True)) for row in platform.capacity.tolist()]
    nodes = dict(zip(platform.nodes, amounts, strict=True))
    nodes[FLOATING] = dict(zip(platform.licences, platform.copies.tolist(), strict=True))
    return {"platform": platform.to_toml(), "nodes": nodes}


def kept(home: Path, policy: str) -> str:
    """A policy of a user's file, or of a package, is copied, so that a later edit does not change a running queue."""
    try:
        policy = resolved(policy)
        copied = _copied(home, policy, "policy")
        if not copied:
            check_name(policy.partition(":")[0])
    except UsageError as error:
        raise Unreadable(str(error)) from None
    return copied or policy


def _copied(home: Path, text: str, what: str) -> str:
    """A text that names a user's file, with the copy of that in its place; empty where it names none."""
    match = re.match(r"(.*\.py)(:.*)?$", text)
    if not match:
        return ""
    source = home / match[1] if not os.path.isabs(match[1]) else Path(match[1])
    if source.parent == home / "policies" and source.exists():  # it is such a copy
        return text
    try:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
        copy = home / "policies" / f"{source.stem}-{digest}.py"
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        if not copy.exists():
            shutil.copyfile(source, copy)
    except OSError as error:
        raise Unreadable(f"{what} {source}: {error.strerror}") from None
    return f"{copy}{match[2] or ''}"


def preempts_by(policy: str) -> str:
    """How a policy of the table preempts jobs; empty if it does not, or is in a file. Nothing is loaded for that."""
    name, _, params = policy.partition(":")
    given = dict(part.partition("=")[::2] for part in params.split(","))
    return {"preemptive": given.get("how", "requeue"), "round-robin": "checkpoint"}.get(name, "")


def _cpus() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def _memory() -> int:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return min(whole, int(limit)) if limit.isdecimal() else whole
    except OSError:
        return whole


def _gpus() -> int:
    try:
        return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))
    except OSError:
        return 0


def program() -> str:
    """What identifies the code that decides: with another one, old decisions need not repeat themselves."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in ("core", "policies", "worlds", "queue/feed.py"):
        found = package / part
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
