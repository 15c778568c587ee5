"""Generators with published distributions, and the table of their names."""

import inspect
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, get_args
from urllib.parse import parse_qsl

from backfill.model.errors import UsageError, wrong_type
from backfill.model.names import did_you_mean
from backfill.model.workload import Workload

# Name -> module:function, imported on use. A model is a function of plain arguments that returns a Workload;
# its keyword arguments are the keys of the `model:NAME?key=value` form.
MODELS: dict[str, str] = {
    "farm": "backfill.workloads.farm:farm",
    "grid": "backfill.workloads.grid:grid",
    "lublin": "backfill.workloads.lublin:lublin",
    "threads": "backfill.workloads.threads:threads",
    "two-tier": "backfill.workloads.twotier:two_tier",
}
# The same of models that can be drawn part by part: a generator of workloads with one more argument, `part`.
PARTS = {"lublin": "backfill.workloads.lublin:lublin_parts"}


def model(name: str) -> Callable[..., Workload]:
    """Return the generator of that name. Raises UsageError, which gives the nearest name or lists all."""
    if name not in MODELS:
        raise UsageError(f"unknown workload model {name!r}; {did_you_mean(name, sorted(MODELS))}")
    return _function(MODELS[name])


def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def generate(text: str, more_seed: int = 0) -> Workload:
    """Generate the workload that `NAME?key=value&...` describes; a leading `model:` is allowed.

    more_seed: added to the seed in the text, 0 by default, for replications of one model.
    Raises UsageError for an unknown model, key or value, and names the known ones.

    >>> import backfill as bf
    >>> bf.generate("lublin?jobs=100&cpus=64&seed=1")
    <Workload lublin: 100 jobs in 19.4 h, 64 cpus>
    """
    name, arguments = _read(text)
    if more_seed:
        arguments["seed"] = arguments.get("seed", 0) + more_seed
    return model(name)(**arguments)


def in_parts(text: str, part: int) -> tuple[Iterator[Workload], int] | None:
    """Return the workload of `generate` in parts, and the number of its jobs; None if the model has no such form.

    Each part has `part` jobs or a few more, by submit, and no two parts have jobs of one instant. Only one part is in
    memory. Raises UsageError as `generate`; for a value, when the first part is asked for.
    """
    name, arguments = _read(text)
    if name not in PARTS:
        return None
    return _function(PARTS[name])(**arguments, part=part), arguments["jobs"]


def _read(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of the model that a text describes, and its arguments."""
    if not isinstance(text, str):
        raise wrong_type("text", text, "a model such as 'lublin?jobs=1000'")
    name, _, query = text.removeprefix("model:").partition("?")
    known = inspect.signature(model(name), eval_str=True).parameters
    arguments: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise UsageError(f"model {name}: {query!r} is not of the form key=value&key=value") from None
    for key, value in pairs:
        if key not in known:
            raise UsageError(f"model {name}: unknown key {key!r}; {did_you_mean(key, known)}")
        if key in arguments:
            raise UsageError(f"model {name}: {key} is given twice")
        arguments[key] = _parsed(name, key, value, known[key].annotation)
    if missing := [k for k, p in known.items() if p.default is p.empty and k not in arguments]:
        raise UsageError(f"model {name} needs {', '.join(missing)}, for instance {name}?{missing[0]}=1000")
    return name, arguments


def _parsed(name: str, key: str, text: str, annotation: Any) -> Any:
    """Convert `text` to the widest of str, float and int that the argument's annotation allows."""
    allowed = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if str in allowed:
        return text
    kind, expected = (float, "a number") if float in allowed else (int, "a whole number")
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"model {name}: {key} is {text!r}; expected {expected}") from None
