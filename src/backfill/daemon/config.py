"""The settings of a queue in its config.toml, and the resources of the machine."""

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
from backfill.model.errors import PolicyError, UsageError, not_utf8
from backfill.model.names import did_you_mean
from backfill.model.units import numbers_text
from backfill.packaged import resolved
from backfill.policies import check_name
from backfill.queue.events import Capacity
from backfill.queue.nodes import FLOATING, MACHINE
from backfill.queue.shapes import Defaults
from backfill.queue.words import Unreadable, parse_array, parse_memory, parse_time
from backfill.system.home import kept_trouble, special_trouble

if TYPE_CHECKING:  # numpy and pydantic are needed only with a platform file
    from backfill.model.platform import Platform

POLICY, PLATFORM, LOCAL, STORE = "conservative", "platform.toml", "local", "store.db"
WALLTIME, GRACE = 3_600_000_000, 30_000_000
FILE = re.compile(r"(.*\.py)(:.*)?$")  # a policy, or predictions, of a user's file
KEYS = ("policy", "predict", "default_time", "grace", "cpus", "memory", "gpus", "licence", "platform", "pool", "shadow",
        "adopt", "publish", "metrics_file")  # fmt: skip
OWN = ("cpus", "memory", "gpus")  # settings of a machine of one node
WATCHED = ("slurm", "htcondor")  # batch systems that a queue can watch
STARTED = ("slurm", "htcondor")  # batch systems whose jobs a queue can start
FAKE = {"speed": 1.0, "failures": 0.0, "repair": 3600.0, "foreign": 0.0, "seed": 0.0}  # of a fake pool


class Config:
    """Settings of a queue. Raises Unreadable, which names the file and the setting."""

    def __init__(self, home: Path) -> None:
        self.file = home / "config.toml"
        settings: dict[str, Any] = {}
        try:
            settings = tomllib.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except UnicodeDecodeError as error:
            raise Unreadable(not_utf8(str(self.file), error)) from None
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.file}: {error}") from None
        for name in settings:
            if name not in KEYS:
                raise Unreadable(f"{self.file}: unknown setting {name!r}; {did_you_mean(name, KEYS)}")
        try:
            self.policy = kept(home, str(settings.get("policy", POLICY)))
        except Unreadable as error:
            raise Unreadable(f"{self.file}: {error}") from None
        self.predict = self._predict(home, settings.get("predict", ""))
        self.defaults: Defaults = {
            "walltime": self._read(settings, "default_time", parse_time, WALLTIME),
            "grace": self._read(settings, "grace", parse_time, GRACE),
        }
        self.pool, self.fake = str(settings.get("pool", LOCAL)), {}
        self.shadow = settings.get("shadow", False)
        if (self.shadow and self.pool not in WATCHED) or (self.pool in WATCHED and self.pool not in STARTED
                                                          and self.shadow is not True):  # fmt: skip
            expected = f"shadow = true with pool = {' or '.join(WATCHED)}"
            raise Unreadable(f"{self.file}: pool is {self.pool!r} and shadow {self.shadow!r}; expected {expected}")
        self.native = self.pool in WATCHED
        self.adopt = self._adopt(settings.get("adopt", False))
        self.publish = settings.get("publish", False)
        if not isinstance(self.publish, bool) or (self.publish and (self.pool not in STARTED or self.shadow)):
            expected = f"true or false, in a queue that starts the jobs of {' or '.join(STARTED)}"
            raise Unreadable(f"{self.file}: publish is {self.publish!r}; expected {expected}")
        metrics = settings.get("metrics_file")
        if not isinstance(metrics, str | None) or metrics == "":
            raise Unreadable(f"{self.file}: metrics_file is {metrics!r}; expected the path of a file")
        self.metrics_file = None if metrics is None else home / metrics
        if self.metrics_file and (wrong := _metrics_trouble(str(home), str(self.metrics_file))):
            raise Unreadable(f"{self.file}: metrics_file: {wrong}")
        if self.native and "platform" not in settings:
            raise Unreadable(f"{self.file}: no platform; backfill serve --pool {self.pool} writes one")
        if is_fake(self.pool):
            try:
                self.pool, self.fake = "fake", fake_settings(self.pool)
            except Unreadable as error:
                raise Unreadable(f"{self.file}: {error}") from None
        self.platform, self.nodes = self._platform(home, settings) if "platform" in settings else ("", {})
        cpus, gpus = _cpus(), _gpus()
        if self.platform and self.pool == LOCAL:  # a single node, which is this machine
            settings |= {name: next(iter(self.nodes.values())).get(name, 0) for name in OWN}
        if isinstance(settings.get("cpus"), str):  # numbers of cpus
            cpus = self._some_of(cpus, settings["cpus"])
            settings["cpus"] = len(cpus)
        count = self._whole(settings, "cpus", len(cpus))
        self.cpu_ids = [*cpus, *(max(cpus) + 1 + n for n in range(count - len(cpus)))][:count]
        self.gpu_ids = [*range(self._whole(settings, "gpus", gpus))]
        memory = self._read(settings, "memory", parse_memory, _memory() // 10 * 9)
        self.resources = {"cpus": count, "memory": memory, "gpus": len(self.gpu_ids)}
        self.synced: list[Licence] = []
        for name, facts in settings.get("licence", {}).items():
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
        self.pinned = count <= len(cpus)  # otherwise some of the cpus do not exist

    def _predict(self, home: Path, value: Any) -> str:
        """Return the predictions that the policy plans by; empty for walltimes.

        A user's file is copied, like a policy's.
        """
        if value == "":
            return ""
        from backfill.worlds.prediction import EXPECTED, Prediction  # few queues ever need it

        try:
            if not isinstance(value, str):
                raise UsageError(f"predict is {value!r}; expected {EXPECTED}")
            Prediction.parse(value)
            if not (text := _copied(home, value, "predictor")):
                return value
            Prediction.parse(text).load()
        except (UsageError, PolicyError, Unreadable) as error:
            raise Unreadable(f"{self.file}: {error}") from None
        return text

    def _adopt(self, value: Any) -> dict[str, list[str]] | None:
        """Return which waiting jobs are adopted: `users` and `partitions`, all if there are none; None: no jobs."""
        if value is False:
            return None
        if self.pool not in STARTED or self.shadow:
            raise Unreadable(f"{self.file}: adopt requires a queue that starts the jobs of {' or '.join(STARTED)}")
        kinds = {"users", "partitions"}
        adopted = {} if value is True else value
        if (
            not isinstance(adopted, dict)
            or adopted.keys() - kinds
            or not all(isinstance(v, list) for v in adopted.values())
        ):
            expected = "true, or a table of users and partitions, each a list of names"
            raise Unreadable(f"{self.file}: adopt is {value!r}; expected {expected}")
        if "partitions" in adopted and self.pool == "htcondor":
            raise Unreadable(f"{self.file}: adopt names partitions, and HTCondor has none; expected users")
        return {name: [str(one) for one in values] for name, values in adopted.items()}

    def _some_of(self, cpus: list[int], text: str) -> list[int]:
        try:
            numbers = sorted({*parse_array(text)[0]})
        except Unreadable:
            raise Unreadable(f"{self.file}: cpus is {text!r}; expected how many, or numbers such as '0-3'") from None
        if not set(numbers) <= set(cpus):
            raise Unreadable(f"{self.file}: cpus is {text!r}; expected some of {numbers_text(cpus)}")
        return numbers

    def _synced(self, name: str, facts: dict[str, Any], margin: int) -> Licence:
        command = facts["sync"]
        if not (isinstance(command, list) and command and all(isinstance(word, str) for word in command)):
            raise Unreadable(f"{self.file}: licence {name}: sync is a list of words, a command")
        every = self._read(facts, "every", parse_time, 30_000_000)
        timeout = self._read(facts, "timeout", parse_time, 5_000_000)
        return Licence(name, command, every / 1e6, timeout / 1e6, margin, self._whole(facts, "copies", 0))

    def adopts(self, user: str, partition: str) -> bool:
        """Return whether the queue starts a job that waits in the batch system."""
        if self.adopt is None:
            return False
        of = {"users": user, "partitions": partition}
        return all(of[name] in values for name, values in self.adopt.items())

    @property
    def capacity(self) -> Capacity:
        """The resources for jobs."""
        ids = ([], []) if self.pool != LOCAL else (self.cpu_ids, self.gpu_ids)
        nodes = self.nodes if self.platform else None
        return Capacity(self.resources, *ids, nodes, self.platform or None)

    @property
    def stated(self) -> dict[str, dict[str, int]]:
        """The capacity of each node, for `Nodes`."""
        return self.nodes or {MACHINE: self.resources}

    def _platform(self, home: Path, settings: dict[str, Any]) -> tuple[str, dict[str, dict[str, int]]]:
        """Return the text of the platform file and the capacity of each node; floating licences are at FLOATING."""
        if own := [name for name in OWN if name in settings]:
            raise Unreadable(f"{self.file}: {own[0]} is set, and the platform sets it too; expected one of the two")
        file = home / str(settings["platform"])
        platform = read_platform(file)
        if len(platform.nodes) > 1 and self.pool == LOCAL:
            many = f"{file} has {len(platform.nodes)} nodes, and this machine is one"
            raise Unreadable(f'{self.file}: {many}; expected pool = "fake:1" to simulate the cluster')
        facts = platform_facts(platform)
        return facts["platform"], facts["nodes"]

    def _whole(self, settings: dict[str, Any], name: str, default: int) -> int:
        value = settings.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**20:
            raise Unreadable(f"{self.file}: {name} is {value!r}; expected a whole number")
        return value

    def _read(self, settings: dict[str, Any], name: str, read: Any, default: int) -> int:
        if name not in settings:
            return default
        try:
            return int(read(str(settings[name])))
        except ValueError as error:
            raise Unreadable(f"{self.file}: {name}: {error}") from None


def is_fake(pool: str) -> bool:
    """Return whether this is meant to name a fake pool."""
    return pool not in (LOCAL, *WATCHED) and ".py" not in pool


def fake_settings(text: str) -> dict[str, float]:
    """Return the settings of a fake pool: fake:SPEED, or fake:NAME=VALUE,... Raises Unreadable."""
    kind, _, rest = text.partition(":")
    names = ", ".join(FAKE)
    watched = ", ".join(WATCHED)
    expected = f"expected local, {watched}, fake:SPEED, fake: with {names} as NAME=VALUE,..., or FILE.py:NAME"
    settings = dict(FAKE)
    for part in rest.split(",") if rest else ():
        name, _, value = part.partition("=") if "=" in part else ("speed", "=", part)
        try:
            settings[name] = float(value) if name in FAKE else math.nan
        except ValueError:
            settings[name] = math.nan
    if kind != "fake" or not all(0 <= value <= 1e6 for value in settings.values()):
        raise Unreadable(f"pool is {text!r}; {expected}")
    if not settings["speed"]:
        raise Unreadable(f"pool is {text!r}; expected a speed above 0")
    if settings["failures"] > 1:
        raise Unreadable(f"pool is {text!r}; expected failures from 0 to 1")
    return settings


def read_platform(file: Path) -> "Platform":
    """Return the platform of a file. Raises Unreadable."""
    from backfill.model.errors import PlatformError  # numpy and pydantic are needed only with a platform file
    from backfill.model.platform import Platform

    try:
        return Platform.read(file)
    except PlatformError as error:
        raise Unreadable(str(error)) from None


def begin_with(home: str, asked: Mapping[str, str | bool], platform_of: Callable[[str], str]) -> None:
    """Set `pool`, `shadow` and `platform` of a new queue, which copies the platform file; repeating this is harmless.

    platform_of: returns the present platform of a watched batch system. Raises Unreadable; then nothing has changed.
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
        table = tomllib.loads(text)
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
            if table.get(name, value) != value:
                raise Unreadable(f"{file}: {name} is {table[name]!r}, not {value!r}; change it there")
            if name == "predict" and name not in table and (folder / STORE).exists():
                raise Unreadable(f"{folder} is a queue that has begun; set predict in {file} and restart the daemon")
            if name not in table and (folder / STORE).exists():
                begun = f"{folder} is a queue that has begun without --{name} {asked[name]}"
                raise Unreadable(f"{begun}; expected a new queue for that, by another BACKFILL_HOME")
        copies[file] = "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if name not in table
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
        raise Unreadable(not_utf8(str(file), error)) from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{file}: {error}") from None


def set_metrics_file(home: str, path: str) -> bool:
    """Let the next daemon write the metrics of the queue to a file; return whether that is a change. Raises Unreadable.

    path: may be relative to the present folder.
    """
    target, folder = os.path.abspath(path), Path(home)
    there = os.path.dirname(target)
    if wrong := _metrics_trouble(home, target):
        raise Unreadable(f"--metrics-file: {wrong}")
    if not os.path.isdir(there):
        raise Unreadable(f"--metrics-file {path}: expected a file in a folder that exists")
    if not os.access(there, os.W_OK | os.X_OK):
        raise Unreadable(f"--metrics-file {path}: expected a file in a folder that can be written to")
    file = folder / "config.toml"
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        known = tomllib.loads(text).get("metrics_file")
        if known is None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _put({file: f"metrics_file = {json.dumps(target)}\n{text}"})
    except OSError as error:
        raise Unreadable(f"{error.filename}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Unreadable(not_utf8(str(file), error)) from None
    except ValueError as error:
        raise Unreadable(f"{file}: {error}") from None
    if known is not None and folder / str(known) != Path(target):
        raise Unreadable(f"{file}: metrics_file is {known!r}, not {target!r}; change it there")
    return known is None


def _metrics_trouble(home: str, path: str) -> str:
    return kept_trouble(home, path) or special_trouble(path)


def _put(texts: Mapping[Path, str | None]) -> None:
    """Write these texts to these files; None removes a file."""
    for path, text in texts.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            new = path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(path)


def platform_facts(platform: "Platform") -> dict[str, Any]:
    """Return a platform as recorded in the log: the text of its file, and the capacity of each node; see Nodes."""
    amounts = [dict(zip(platform.resources, row, strict=True)) for row in platform.capacity.tolist()]
    nodes = dict(zip(platform.nodes, amounts, strict=True))
    nodes[FLOATING] = dict(zip(platform.licences, platform.copies.tolist(), strict=True))
    return {"platform": platform.to_toml(), "nodes": nodes}


def kept(home: Path, policy: str) -> str:
    """Return a policy with a copy of its file, so that a later edit does not change a running queue."""
    policy = named(policy)
    return _copied(home, policy, "policy") or policy


def file_of(policy: str) -> str:
    """Return the path of the user's file that holds a policy; empty for a policy of the table."""
    match = FILE.match(policy)
    return match[1] if match else ""


def named(policy: str) -> str:
    """Return the text of a policy, see `resolved`. Raises Unreadable if it names no file, and no policy that exists."""
    try:
        policy = resolved(policy)
        if not FILE.match(policy):
            check_name(policy.partition(":")[0])
    except UsageError as error:
        raise Unreadable(str(error)) from None
    return policy


def _copied(home: Path, text: str, what: str) -> str:
    """Return a text with the user's file in it replaced by a copy; empty if it names no file."""
    match = FILE.match(text)
    if not match:
        return ""
    source = home / match[1] if not os.path.isabs(match[1]) else Path(match[1])
    if source.parent == home / "policies" and source.exists():  # it already is such a copy
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
    """Return how a policy of the table preempts jobs; empty if it does not, or is in a file. Nothing is loaded."""
    name, _, params = policy.partition(":")
    pairs = dict(part.partition("=")[::2] for part in params.split(","))
    return {"preemptive": pairs.get("how", "requeue"), "round-robin": "checkpoint"}.get(name, "")


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
    """Return an identifier of the code that decides: if it changes, repeated decisions may differ."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in ("core", "policies", "worlds", "queue/feed.py"):
        file = package / part
        for path in sorted(file.rglob("*.py")) if file.is_dir() else [file]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
