"""Find a policy by its text: a name of the table or of a package, or `file.py:name`, followed by `:key=value,...`."""

import ast
import builtins
import dis
import hashlib
import importlib
import linecache
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
from numba.core import event

from backfill.compiler import jit
from backfill.core.policy import ANSWERS, MULTIFACTOR, Policy
from backfill.model.errors import BackfillError, BadArgument, PolicyError, UsageError, at
from backfill.model.names import did_you_mean
from backfill.packaged import resolved
from backfill.policies import get
from backfill.walls import check_policy

_TEXT = re.compile(r"(?P<file>.*\.py)?(?(file):?)(?P<name>[^:=]*)(?::(?P<params>.*))?", re.DOTALL)


def load(text: str, settings: Sequence[str] = ()) -> tuple[Policy, dict[str, float | str]]:
    """Return the policy that `name[:key=value,...]` or `file.py:name[:key=value,...]` denotes, and its parameters.

    `order` and `tried` are keys too, with the name of an order, if the policy allows them.

    settings: further parameters, `key=value` each. A file with one policy needs no name; it is compiled, a named policy
    is not. Raises UsageError for what is unknown, PolicyError for a mistake in a file.
    """
    match = _TEXT.fullmatch(resolved(text))
    if match is None:
        raise UsageError(f"policy {text!r}; expected NAME[:KEY=VALUE,...] or FILE.py:NAME[:KEY=VALUE,...]")
    pairs = [(pair, "policy") for pair in (match["params"] or "").split(",") if pair]
    pairs += [(pair, "set") for pair in settings]
    if match["file"]:
        return _from_file(match["file"], match["name"], pairs)
    return _with_params(get(match["name"]), pairs)


class _NotKept(Exception):
    """Raised if something would have to be compiled."""


class _Unwanted(event.Listener):  # type: ignore[misc]
    """Prevents all compilation."""

    def on_start(self, event: Any) -> None:
        """Raise when the compiler is about to begin."""
        raise _NotKept

    def on_end(self, event: Any) -> None:
        """Do nothing: the compiler never began."""


def is_kept(text: str) -> bool:
    """Return whether the compiled pass of a policy is in the disk cache, so that it need not be compiled first.

    A file is inspected, not imported. Raises UsageError for an unknown policy.
    """
    match = _TEXT.fullmatch(resolved(text))
    if match is None or (jit.FOLDER is None and jit.SHIPPED is None):
        return False
    if not match["file"]:
        try:
            with event.install_listener("numba:compile", _Unwanted()):
                _ = get(match["name"]).entry
        except _NotKept:
            return False
        return True
    try:
        sources = _sources(Path(match["file"]).resolve(), Path(match["file"]).read_bytes())
    except OSError as error:
        raise UsageError(at(match["file"], None, f"cannot be read: {error.strerror}")) from None
    return jit.FOLDER is not None and any(_own_folder(jit.FOLDER, _digest(sources)).rglob("*.nbc"))


def source_digest(text: str) -> str:
    """Return the SHA-256 of the source files of a policy or predictor named by its text; empty if backfill has it.

    Raises UsageError if its file cannot be read.
    """
    match = _TEXT.fullmatch(resolved(text))
    if match is None or not match["file"]:
        return ""
    try:
        return _digest(_sources(Path(match["file"]).resolve(), Path(match["file"]).read_bytes()))
    except OSError as error:
        raise UsageError(at(match["file"], None, f"cannot be read: {error.strerror}")) from None


def _with_params(policy: Policy, pairs: Sequence[tuple[str, str]]) -> tuple[Policy, dict[str, float | str]]:
    """Return the policy with its settings, and its parameters; pairs: `key=value`, and the argument with it."""
    policy, params = choose(policy, dict(_param(policy, *pair) for pair in pairs))
    policy.values(params)
    return policy, params


def choose(policy: Policy, given: Mapping[str, float | str]) -> tuple[Policy, dict[str, float | str]]:
    """Return the policy with the settings among these values, and the other parameters; compiled parts stay valid."""
    if given.get("order") == MULTIFACTOR:
        from backfill.policies.slurm.order import multifactor

        policy, given = multifactor(policy), {name: value for name, value in given.items() if name != "order"}
    chosen, params = policy.choose(given)
    if chosen is not policy and "entry" in vars(policy):
        vars(chosen)["entry"] = policy.entry  # a setting does not change the pass
    return chosen, params


def _param(policy: Policy, text: str, argument: str) -> tuple[str, float | str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    try:
        if not equals or not key:
            raise ValueError
        in_words = key in ANSWERS or key in policy.synonyms or (key in policy.params and policy.params[key].choices)
        return key, value if in_words else float(value)
    except ValueError:
        raise BadArgument(argument, text, "KEY=VALUE with a number, for instance k=4") from None


@dataclass(frozen=True, eq=False, slots=True)
class _File:
    """A user's file after its import."""

    digest: str  # of its content and that of the adjacent files that it imports
    tree: ast.Module
    names: Mapping[str, Any]
    policies: Mapping[str, Policy]  # by their own names
    checked: set[str] = field(default_factory=set)  # those that passed the check of their names

    @classmethod
    def of(cls, file: str, sources: Mapping[Path, bytes], digest: str) -> "_File":
        """Import it. file: its name in messages; sources: its own first."""
        path, *beside = sources
        tree = _parsed(file, sources[path])
        names = vars(_imported(path, file, tree, beside))
        made = {id(value): value for value in names.values() if isinstance(value, Policy)}.values()
        if twice := [name for name, count in Counter(value.name for value in made).items() if count > 1]:
            raise PolicyError(at(file, None, f"two policies are called {twice[0]!r}; expected different names"))
        return cls(digest, tree, names, {value.name: value for value in made})

    def policy(self, file: str, name: str) -> Policy:
        """Return the policy of this name, or the only one without a name. Raises PolicyError."""
        if not name and len(self.policies) == 1:
            name = next(iter(self.policies))
        chosen = self.policies.get(name) or self.names.get(name) if name else None
        if not isinstance(chosen, Policy):
            raise PolicyError(_missing(file, name, chosen, list(self.policies), self.tree))
        return chosen


_FILES: dict[tuple[str, Path], _File] = {}  # by message name and path: the last import


def _from_file(file: str, name: str, pairs: Sequence[tuple[str, str]]) -> tuple[Policy, dict[str, float | str]]:
    """Return a policy of a file, which is imported and compiled once per content in this process."""
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(at(file, None, f"cannot be read: {error.strerror}")) from None
    path = Path(file).resolve()
    sources = _sources(path, source)
    digest = _digest(sources)
    with _own_cache(digest):
        kept = _FILES.get((file, path))
        if kept is None or kept.digest != digest:
            kept = _FILES[file, path] = _File.of(file, sources, digest)
        bare = kept.policy(file, name)
        _with_params(bare, pairs)  # checked before compilation
        if bare.name not in kept.checked:
            if bare.compiled:
                _check_names(bare.decide, file)
            check_policy(bare, {file: kept.tree})
            kept.checked.add(bare.name)
        if bare.compiled and "entry" not in vars(bare):
            _ = bare.entry  # compiled here, so that it is cached in the file's own folder
    return _with_params(bare, pairs)


def _check_names(decide: Any, file: str) -> None:
    """Report a name that a pass, or a helper that it calls, cannot resolve: the compiler does not tell where."""
    seen: set[Any] = set()
    open_ones = [decide]
    while open_ones:
        function = open_ones.pop()
        if not isinstance(function, FunctionType) or function in seen or function.__code__.co_filename != file:
            continue
        seen.add(function)
        module, line = function.__globals__, function.__code__.co_firstlineno
        for step in dis.get_instructions(function.__code__):
            line = step.starts_line or line
            if step.opname != "LOAD_GLOBAL" or hasattr(builtins, step.argval):
                continue
            value = module.get(step.argval, step)
            if value is step:
                hint = did_you_mean(step.argval, module, "expected a name that the file defines or imports")
                raise PolicyError(at(file, line, f"unknown name {step.argval!r}; {hint}"))
            if mistake := _not_for_compiled(step.argval, value):
                raise PolicyError(at(file, line, mistake))
            open_ones.append(getattr(value, "py_func", value))


def _not_for_compiled(name: str, value: Any) -> str:
    """Return the problem with a global used by compiled code; empty if none is known."""
    if isinstance(value, FunctionType) and value.__module__.startswith("backfill_own_") and not jit.PLAIN:
        return f"{name} is a plain function; expected @kernel() above it"
    if isinstance(value, list | dict | set):
        return f"{name} is a {type(value).__name__}, which compiled code cannot use; expected a tuple or a numpy array"
    if isinstance(value, ModuleType) and value.__name__ in ("time", "datetime", "random"):
        better = "state.now is the present" if value.__name__ != "random" else "pick(state, n) draws a number"
        return f"{name}: compiled code has no such module; {better}"
    return ""


def _missing(file: str, name: str, value: Any, known: list[str], tree: ast.Module) -> str:
    """Return the reason why a file has no policy of that name."""
    if not name:
        policies = f"has {len(known)} policies ({', '.join(known)})" if known else "has no policy"
        return at(file, None, f"{policies}; expected {file}:NAME of a function under @policy(...)")
    if value is None:
        hint = did_you_mean(name, known, f"policies: {', '.join(known) or 'none'}")
        return at(file, None, f"has no policy {name!r}; {hint}")
    lines = [n.lineno for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    kind = f"a plain {type(value).__name__}" if not lines else "a plain function"
    hint = f"expected @policy({name!r}) above it" if lines else "expected a function under @policy(...)"
    return at(file, lines[0] if lines else None, f"{name} is {kind}; {hint}")


def _parsed(file: str, source: bytes) -> ast.Module:
    try:
        return _parse(source)
    except SyntaxError as error:
        raise PolicyError(at(file, error.lineno, f"is not valid Python: {error.msg}")) from None
    except ValueError as error:  # a NUL, or not UTF-8
        raise PolicyError(at(file, None, f"is not valid Python: {error}")) from None


_BESIDE: dict[str, ModuleType] = {}  # modules imported from a user's folder, by name


def _imported(path: Path, file: str, tree: ast.Module, beside: Sequence[Path]) -> ModuleType:
    """Return the module, freshly imported from its source, with its folder on the path, as when Python runs a script.

    beside: the files there that it imports, which are imported again if another user's file brought them in.
    """
    names = [".".join(each.relative_to(path.parent).with_suffix("").parts) for each in beside]
    for name in names:
        if name in _BESIDE and sys.modules.get(name) is _BESIDE[name]:
            del sys.modules[name]
    known, here = set(sys.modules), os.getcwd()
    module = ModuleType(f"backfill_own_{Path(file).stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    folder = str(path.parent)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    linecache.checkcache(file)  # the compiler quotes lines of it, which may have changed
    try:
        exec(compile(tree, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        kind = "" if isinstance(error, BackfillError) else f"{type(error).__name__}: "
        message = " ".join(f"{kind}{error}".split())
        raise PolicyError(at(file, lines[-1] if lines else None, message)) from error
    finally:
        os.chdir(here)
        sys.path.remove(folder)
        _BESIDE.update({name: sys.modules[name] for name in names if name in sys.modules and name not in known})
    return module


def _sources(path: Path, source: bytes) -> dict[Path, bytes]:
    """Return a user's file and the adjacent files that it imports, directly or indirectly, with their content."""
    sources = {path: source}
    open_ones = _imports(path.parent, source)
    while open_ones:
        file = open_ones.pop()
        if file in sources or not file.is_file():
            continue
        with suppress(OSError):  # Python reports it at the import
            sources[file] = file.read_bytes()
            open_ones += _imports(path.parent, sources[file])
    return sources


def _imports(folder: Path, source: bytes) -> list[Path]:
    """Return the files that a source may import from a folder, judged by their names."""
    names: list[str] = []
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(_parse(source)):
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    return [folder / (name.replace(".", "/") + ".py") for name in names]


@lru_cache(maxsize=64)
def _parse(source: bytes) -> ast.Module:
    return ast.parse(source)


def _digest(sources: Mapping[Path, bytes]) -> str:
    digest = hashlib.sha256()
    for path, source in sources.items():
        digest.update(path.name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()


def _own_folder(folder: Path, digest: str) -> Path:
    return folder / f"own-{digest[:16]}"


@contextmanager
def _own_cache(digest: str) -> Iterator[None]:
    """Cache what is compiled here in a folder named by the content of these files; see jit.py for the reason."""
    if jit.FOLDER is None:
        yield
        return
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_own_folder(jit.FOLDER, digest))
    try:
        yield
    finally:
        config.CACHE_DIR = before
