"""A policy from its text: a name of the table or `file.py:name`, either with `:key=value,...` behind it."""

import ast
import builtins
import difflib
import dis
import hashlib
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba

from backfill import jit
from backfill.core.policy import ANSWERS, Policy
from backfill.model.errors import BackfillError, BadArgument, PolicyError, UsageError, at
from backfill.policies import get

_TEXT = re.compile(r"(?P<file>.*\.py)?(?(file):?)(?P<name>[^:=]*)(?::(?P<params>.*))?", re.DOTALL)


def load(text: str, settings: Sequence[str] = ()) -> tuple[Policy, dict[str, float | str]]:
    """The policy that `name[:key=value,...]` or `file.py:name[:key=value,...]` means, and its parameters.

    `order` and `tried` are keys too, with the name of an order, where the policy lets them be given.

    settings: further parameters, `key=value` each. A file with one policy needs no name; it is compiled, a named policy
    is not. Raises UsageError for what is unknown, PolicyError for a mistake in a file.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"policy {text!r}; expected NAME[:KEY=VALUE,...] or FILE.py:NAME[:KEY=VALUE,...]")
    pairs = [(pair, "policy") for pair in (match["params"] or "").split(",") if pair]
    pairs += [(pair, "set") for pair in settings]
    if match["file"]:
        return _from_file(match["file"], match["name"], pairs)
    return _with_params(get(match["name"]), pairs)


def _with_params(policy: Policy, pairs: Sequence[tuple[str, str]]) -> tuple[Policy, dict[str, float | str]]:
    """The policy with its answers, and its parameters; pairs: `key=value`, and the argument that it was given in."""
    policy, params = policy.choose(dict(_param(policy, *pair) for pair in pairs))
    policy.values(params)
    return policy, params


def _param(policy: Policy, text: str, argument: str) -> tuple[str, float | str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    try:
        if not equals or not key:
            raise ValueError
        in_words = key in ANSWERS or (key in policy.params and policy.params[key].choices)
        return key, value if in_words else float(value)
    except ValueError:
        raise BadArgument(argument, text, "KEY=VALUE with a number, for instance k=4") from None


def _from_file(file: str, name: str, pairs: Sequence[tuple[str, str]]) -> tuple[Policy, dict[str, float | str]]:
    path = Path(file)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UsageError(at(file, None, f"cannot be read: {error.strerror}")) from None
    tree = _parsed(file, source)
    with _own_cache(_sources(path.resolve())):
        module = _imported(path, file, source)
        made = {id(value): value for value in vars(module).values() if isinstance(value, Policy)}.values()
        found = {value.name: value for value in made}
        if twice := [name for name, count in Counter(value.name for value in made).items() if count > 1]:
            raise PolicyError(at(file, None, f"two policies are called {twice[0]!r}; expected different names"))
        if not name and len(found) == 1:
            name = next(iter(found))
        policy = found.get(name) or getattr(module, name, None) if name else None
        if not isinstance(policy, Policy):
            raise PolicyError(_missing(file, name, policy, list(found), tree))
        policy, params = _with_params(policy, pairs)
        if policy.compiled:
            _check_names(policy.decide, file)
            _ = policy.entry  # compiled here, so that it is kept in the file's own folder
    return policy, params


def _check_names(decide: Any, file: str) -> None:
    """Complain about a name that a pass, or a helper that it calls, cannot find: the compiler does not say where."""
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
                near = difflib.get_close_matches(step.argval, module, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise PolicyError(at(file, line, f"unknown name {step.argval!r}{hint}"))
            if what := _not_for_compiled(step.argval, value):
                raise PolicyError(at(file, line, what))
            open_ones.append(getattr(value, "py_func", value))


def _not_for_compiled(name: str, value: Any) -> str:
    """What is wrong with a global that compiled code is to use; empty where nothing is known to be."""
    if isinstance(value, FunctionType) and value.__module__.startswith("backfill_own_"):
        return f"{name} is a plain function; expected @kernel() above it"
    if isinstance(value, list | dict | set):
        return f"{name} is a {type(value).__name__}, which compiled code cannot use; expected a tuple or a numpy array"
    if isinstance(value, ModuleType) and value.__name__ in ("time", "datetime", "random"):
        better = "state.now is the present" if value.__name__ != "random" else "pick(state, n) draws a number"
        return f"{name}: compiled code has no such module; {better}"
    return ""


def _missing(file: str, name: str, value: Any, known: list[str], tree: ast.Module) -> str:
    """Why a file has no policy of that name."""
    if not name:
        some = f"has {len(known)} policies ({', '.join(known)})" if known else "has no policy"
        return at(file, None, f"{some}; expected {file}:NAME of a function under @policy(...)")
    if value is None:
        return at(file, None, f"has no policy {name!r} (policies: {', '.join(known) or 'none'})")
    lines = [n.lineno for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    what = f"a plain {type(value).__name__}" if not lines else "a plain function"
    hint = f"expected @policy({name!r}) above it" if lines else "expected a function under @policy(...)"
    return at(file, lines[0] if lines else None, f"{name} is {what}; {hint}")


def _parsed(file: str, source: bytes) -> ast.Module:
    try:
        return ast.parse(source, file)
    except SyntaxError as error:
        raise PolicyError(at(file, error.lineno, f"is not valid Python: {error.msg}")) from None
    except ValueError as error:  # a NUL, or not UTF-8
        raise PolicyError(at(file, None, f"is not valid Python: {error}")) from None


def _imported(path: Path, file: str, source: bytes) -> Any:
    """The module, made anew from this source. Its folder can be imported from, as when Python runs a script."""
    module = ModuleType(f"backfill_own_{path.stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        kind = "" if isinstance(error, BackfillError) else f"{type(error).__name__}: "
        what = " ".join(f"{kind}{error}".split())
        raise PolicyError(at(file, lines[-1] if lines else None, what)) from error
    finally:
        sys.path.remove(folder)
    return module


def _sources(path: Path) -> list[Path]:
    """A user's file and the files beside it that it imports, by way of each other as well."""
    found: list[Path] = []
    open_ones = [path]
    while open_ones:
        file = open_ones.pop()
        if file in found or not file.is_file():
            continue
        found.append(file)
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            open_ones += [path.parent / (name.replace(".", "/") + ".py") for name in names]
    return found


@contextmanager
def _own_cache(sources: list[Path]) -> Iterator[None]:
    """Keep what is compiled here under a folder named by the content of these files: see jit.py for the reason."""
    if jit.FOLDER is None:
        yield
        return
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(jit.FOLDER / f"own-{digest.hexdigest()[:16]}")
    try:
        yield
    finally:
        config.CACHE_DIR = before
