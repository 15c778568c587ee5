"""A folder that keeps the finished runs of a comparison or a sweep, so that they survive the process that ran them.

`question.json`: the question that the runs answer, and the command that asks it. `inputs.zip`: the workload, the
platform, and policies with their options. `run-1.zip`, `run-2.zip` ...: the runs that have finished, numbered by kind
of estimates, replication and policy, the last of which varies fastest. Each file appears whole or not at all, so
several processes may share a folder.
"""

import hashlib
import json
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from backfill import __version__
from backfill.analysis.bounds import Bound
from backfill.analysis.metrics import Trim
from backfill.loading import source_digest
from backfill.model.clock import Clock
from backfill.model.errors import BadArgument, InputError, UsageError, at, check_path
from backfill.model.events import Events
from backfill.model.partitions import Limit, Partition, Rules, Target
from backfill.model.platform import Platform
from backfill.model.promises import Promises
from backfill.model.schedule import Runs, Schedule
from backfill.model.units import counted
from backfill.model.workload import Counted, Jobs, Labels, Ragged, Workload
from backfill.report.saved import QUESTION
from backfill.runs import Done, RunKey
from backfill.spec import RunSpec
from backfill.traces.files import make_folder, written_text
from backfill.traces.packed import PackedError, digest, read_packed, write_packed
from backfill.worlds.estimates import Estimates
from backfill.worlds.options import Options
from backfill.worlds.prediction import OWN, Prediction
from backfill.worlds.simulated import Simulation

SCHEMA = 1  # of question.json
INPUTS = "inputs.zip"
SHORT = 20  # characters of a part of a question that a message shows
NAMES = {  # of the parts of a question, in messages
    "backfill": "version of backfill",
    "workload": "workload",
    "platform": "platform",
    "drawn": "source of replications",
    "replications": "number of replications",
    "policies": "policies",
    "files": "files of policies",
    "kinds": "kinds of estimates",
    "options": "options",
    "seed": "seed",
}


def check_shard(shard: object) -> tuple[int, int]:
    """Return a shard given as a pair, or as a text such as `3/20`. Raises UsageError."""
    given: Any = shard
    if isinstance(shard, str):
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard, re.ASCII)
        given = match and (int(match[1]), int(match[2]))
    match given:
        case (int(number), int(count)) if 1 <= number <= count:
            return number, count
    expected = "I/N with 1 <= I <= N, for instance 3/20" if isinstance(shard, str) else "a pair such as (3, 20)"
    raise BadArgument("shard", shard, expected)


def share(count: int, shard: tuple[int, int]) -> range:
    """Return the runs of a shard among `count` runs, from 0: consecutive ones, as many in each shard or one more."""
    number, of = shard
    return range((number - 1) * count // of, number * count // of)


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """The workload of the first replication, the platform, and policies with their options."""

    log: Workload
    platform: Platform | None  # None: that of the workload
    specs: Sequence[RunSpec]


CLASSES = (Bound, Clock, Counted, Done, Estimates, Events, Inputs, Jobs, Labels, Limit, Options, Partition, Platform,
           Prediction, Promises, Ragged, Rules, Runs, RunSpec, Schedule, Simulation, Target, Trim,
           Workload)  # fmt: skip  # that the files may contain


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """The question that the runs of a folder answer: equal questions have equal runs."""

    parts: Mapping[str, Any]  # as JSON, by the names in NAMES
    command: Sequence[str] = ()  # words of a command line without those that do not belong to the question
    shards: int | None = None  # number of shards that the first run in this folder had; only for messages

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        kinds: Sequence[str],
        replications: int,
        drawn: object,
        command: Sequence[str] = (),
        shards: int | None = None,
    ) -> "Question":
        """Return the question of a comparison, or with kinds of estimates of a sweep.

        drawn: the model or function from which replications are drawn. Raises UsageError for a policy without a text.
        """
        specs = inputs.specs
        for spec in specs:
            if not isinstance(spec.named, str):
                raise UsageError(
                    f"policy {spec.policy.name} is a function; runs are saved of policies with a name, or FILE.py:NAME"
                )
        options = specs[0].options
        predictors = [*kinds, *([str(options.predict)] if options.predict is not None else [])]
        files = {each: source_digest(each.partition(":correct=")[0]) for each in predictors if OWN in each}
        files |= {str(spec.named): found for spec in specs if (found := source_digest(str(spec.named)))}
        parts = {
            "backfill": __version__,
            "workload": {"name": inputs.log.name, "jobs": len(inputs.log), "sha256": digest(inputs.log)},
            "platform": None if inputs.platform is None else digest(inputs.platform),
            "drawn": _source_text(drawn) if replications > 1 else None,
            "replications": replications,
            "policies": [{"policy": spec.named, "given": dict(spec.given)} for spec in specs],
            "files": files,
            "kinds": list(kinds),
            "options": {**options.to_dict(), "warmup": str(specs[0].warmup), "cooldown": str(specs[0].cooldown)},
            "seed": options.seed,
        }
        return cls(parts=json.loads(json.dumps(parts)), command=list(command), shards=shards)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the question."""
        return hashlib.sha256(json.dumps(self.parts, sort_keys=True).encode()).hexdigest()

    @property
    def kinds(self) -> list[str]:
        """The kinds of estimates of a sweep; empty for a comparison."""
        return list(self.parts["kinds"])

    @property
    def replications(self) -> int:
        """The number of replications."""
        return int(self.parts["replications"])

    @property
    def count(self) -> int:
        """The number of its runs."""
        return max(len(self.kinds), 1) * self.replications * len(self.parts["policies"])

    def differs(self, other: "Question") -> str:
        """Return how another question, that of a folder, differs; empty if it does not."""
        for name, text in NAMES.items():
            here, there = self.parts.get(name), other.parts.get(name)
            if here != there:
                short = all(isinstance(each, int | str) and len(str(each)) <= SHORT for each in (here, there))
                return f"the {text} there is {there}, here {here}" if short else f"not the same {text}"
        return ""

    def write(self, folder: Path) -> None:
        """Write `question.json`."""
        document = {"schema": SCHEMA, **self.parts, "command": list(self.command), "shards": self.shards}
        with written_text(folder / QUESTION) as out:
            json.dump(document, out, indent=2, ensure_ascii=False)
            out.write("\n")

    @classmethod
    def read(cls, folder: Path) -> "Question":
        """Read `question.json`. Raises InputError."""
        file = folder / QUESTION
        try:
            document = json.loads(file.read_bytes())
            parts = {name: document[name] for name in NAMES}
            command, shards = [str(word) for word in document["command"]], document["shards"]
            found = cls(parts=parts, command=command, shards=None if shards is None else int(shards))
            whole = found.count > 0 and document["schema"] == SCHEMA
        except OSError as problem:
            raise InputError(at(str(file), None, f"cannot be read: {problem.strerror}")) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise InputError(
                at(str(file), None, "is damaged, or from another version of backfill; expected what --save writes")
            )
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedRuns:
    """The finished runs of a question in one or several folders. New ones are written into the first."""

    folders: Sequence[Path]
    question: Question
    kind: int = 0  # index of the kind of estimates of the runs that are found and kept
    whole: bool = False  # True: every run must be there and undamaged

    @classmethod
    def open(cls, folder: str | Path, inputs: Inputs, question: Question) -> "SavedRuns":
        """Return the folder for the runs of this question; it is made unless it exists.

        Raises UsageError if the folder has the runs of another question, BackfillError if it cannot be written.
        """
        check_path("save", folder)
        make_folder(folder)
        path = Path(folder)
        if not (path / QUESTION).exists():
            write_packed(path / INPUTS, inputs)
            question.write(path)
        _check_same(path, question, Question.read(path))
        return cls(folders=[path], question=question)

    @classmethod
    def read(cls, *folders: str | Path) -> "SavedRuns":
        """Return the runs in these folders, which must answer the same question. Raises InputError and UsageError."""
        if not folders:
            raise UsageError("there are no folders to merge; expected one or more")
        for folder in folders:
            check_path("folder", folder)
        paths = list(dict.fromkeys(map(Path, folders)))
        question = Question.read(paths[0])
        for path in paths[1:]:
            _check_same(path, question, Question.read(path))
        return cls(folders=paths, question=question, whole=True)

    def inputs(self) -> Inputs:
        """Return the inputs of the runs. Raises InputError if their file is damaged or belongs to another question."""
        file = self.folders[0] / INPUTS
        inputs = read_packed(file, CLASSES)
        if not isinstance(inputs, Inputs) or digest(inputs.log) != self.question.parts["workload"]["sha256"]:
            raise InputError(at(str(file), None, f"has other inputs than those of {QUESTION} beside it"))
        return inputs

    def check_whole(self) -> None:
        """Raise InputError if runs are missing: it names their shards, and the command that runs them."""
        missing = [number for number in range(self.question.count) if self._file(number) is None]
        if missing:
            raise InputError(at(str(self.folders[0]), None, self._lack(missing)))

    def there(self, runs: Sequence[int]) -> int:
        """Return how many of these runs, numbered from 0 over all kinds of estimates, have finished."""
        return sum(self._file(number) is not None for number in runs)

    def found(self, run: RunKey) -> Done | None:
        """Return a finished run; None if it has to be run.

        A damaged file raises InputError if all runs must be there; otherwise it counts as absent, with a warning.
        """
        number = self._number(run)
        file = self._file(number)
        if file is None:
            return None
        try:
            return self._read(file, number)
        except PackedError as problem:
            if self.whole:
                again = self._command([n for n in self._shards() if number in share(self.question.count, n)])
                raise InputError(f"{problem}; run {again}, which repeats its run") from None
            warnings.warn(f"{problem}; its run is repeated", stacklevel=2)
            return None

    def keep(self, run: RunKey, done: Done) -> None:
        """Write a finished run, whole or not at all. Raises BackfillError."""
        number = self._number(run)
        held = {"question": self.question.digest, "number": number, "run": done}
        write_packed(self.folders[0] / _name(number), held)

    def of_kind(self, kind: int) -> "SavedRuns":
        """Return the same folders, for the runs under another kind of estimates."""
        return SavedRuns(folders=self.folders, question=self.question, kind=kind, whole=self.whole)

    def key(self, number: int) -> tuple[int, RunKey]:
        """Return the index of the kind of estimates, and the key, of a run numbered from 0."""
        policies = len(self.question.parts["policies"])
        kind, rest = divmod(number, self.question.replications * policies)
        return kind, RunKey(rest % policies, rest // policies)

    def _number(self, run: RunKey) -> int:
        policies = len(self.question.parts["policies"])
        return (self.kind * self.question.replications + run.replication) * policies + run.policy

    def _file(self, number: int) -> Path | None:
        name = _name(number)
        return next((folder / name for folder in self.folders if (folder / name).exists()), None)

    def _read(self, file: Path, number: int) -> Done:
        held = read_packed(file, CLASSES)
        if not isinstance(held, dict) or not isinstance(held.get("run"), Done):
            raise PackedError(at(str(file), None, "is damaged: it has no run"))
        if held.get("question") != self.question.digest or held.get("number") != number:
            raise PackedError(at(str(file), None, f"is not run {number + 1} of the question in {QUESTION} beside it"))
        done: Done = held["run"]
        return done

    def _lack(self, missing: Sequence[int]) -> str:
        """Phrase what is missing, and the command that runs it."""
        runs = f"{len(missing)} of {counted(self.question.count, 'run')}"
        verb = "is" if len(missing) == 1 else "are"
        lacking = [n for n in self._shards() if not {*missing}.isdisjoint(share(self.question.count, n))]
        of_shards, others = "", ""
        if lacking:
            word = "shard" if len(lacking) == 1 else "shards"
            of_shards = f" ({word} {_ranges([number for number, _ in lacking])} of {self.question.shards})"
        if len(lacking) > 1:
            others = f", and likewise for the other {'shard' if len(lacking) == 2 else 'shards'}"
        return f"{runs} {verb} missing{of_shards}; run {self._command(lacking[:1])}{others}"

    def _shards(self) -> list[tuple[int, int]]:
        of = self.question.shards or 0
        return [(number, of) for number in range(1, of + 1)]

    def _command(self, shards: Sequence[tuple[int, int]]) -> str:
        """Return the command, or the call, that runs these shards; without any, all runs."""
        folder = str(self.folders[0])
        if self.question.command:
            options = [f"--shard={number}/{of}" for number, of in shards]
            verb, *words = self.question.command  # `--` may be among the words
            return shlex.join(["backfill", verb, *options, f"--save={folder}", *words])
        function = "sweep_estimates" if self.question.kinds else "compare"
        arguments = [f"shard={shard}" for shard in shards]
        return f"{function}(..., {', '.join([*arguments, f'save={folder!r}'])})"


def _name(number: int) -> str:
    return f"run-{number + 1}.zip"


def _check_same(folder: Path, question: Question, held: Question) -> None:
    """Raise UsageError if a folder has the runs of another question."""
    if differs := question.differs(held):
        raise UsageError(f"{folder} has the runs of another question ({differs}); expected another folder")


def _source_text(drawn: object) -> str:
    """Describe the source of replications: a model, or a function by its name, or by its fields if it has any."""
    if isinstance(drawn, partial):
        return f"{_source_text(drawn.func)} {drawn.args} {drawn.keywords}"
    name = getattr(drawn, "__qualname__", None)
    return str(drawn) if name is None else f"{getattr(drawn, '__module__', '')}.{name}"


def _ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers, as Slurm's --array takes them: `2-5,9`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)
