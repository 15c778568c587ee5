"""The published schemas of what `--json` prints: docs/reference/schemas/NAME.json.

BACKFILL_SCHEMAS=write adds to them what is printed and not yet described: run the tests so after an addition, and look
at the difference. A field that is described and no longer printed, or of another type, fails either way.
"""

import json
import os
from typing import Any

from tests.docs.examples import ROOT

FOLDER = ROOT / "docs" / "reference" / "schemas"
WRITE = os.environ.get("BACKFILL_SCHEMAS") == "write"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
MAPS = {"assumed", "capacity", "decisions", "difference_s", "dropped", "found", "free", "held",
        "left_out", "licences", "missing", "need", "node_hours", "nodes", "not_carried", "of_the_queue",
        "others_mean_start_error_s", "papers", "parameters", "params", "partitions", "parts",
        "per_task", "qos", "questions", "queues", "slips", "states", "status", "synonyms",
        "unchanged", "why", "within_s"}  # objects whose keys are names  # fmt: skip
Schema = dict[str, Any]


def inferred(value: Any, key: str = "") -> Schema:
    """Return the schema of one value, that of the field `key`."""
    if isinstance(value, dict):
        if key in MAPS:
            return {"type": "object", "additionalProperties": united([inferred(one) for one in value.values()])}
        properties = {name: inferred(one, name) for name, one in value.items()}
        return {"type": "object", "properties": properties, "required": sorted(properties)}
    if isinstance(value, list):
        return {"type": "array", "items": united([inferred(one, key) for one in value])}
    return {"type": TYPES[type(value)]}


def united(schemas: list[Schema]) -> Schema:
    """Return the schema of all values that one of these describes; {} describes nothing yet."""
    some: Schema = {}
    for each in schemas:
        some = _both(some, each)
    return some


def _both(one: Schema, other: Schema) -> Schema:
    if not one or not other:
        return one or other
    types = {*_types(one), *_types(other)}
    if "number" in types:
        types.discard("integer")
    found: Schema = {"type": types.pop() if len(types) == 1 else sorted(types)}
    for key in ("items", "additionalProperties"):
        if key in one or key in other:
            found[key] = _both(one.get(key, {}), other.get(key, {}))
    if "properties" in one or "properties" in other:
        left, right = (each.get("properties", {}) for each in (one, other))
        found["properties"] = {name: _both(left.get(name, {}), right.get(name, {})) for name in {**left, **right}}
        required = [{*each["required"]} for each in (one, other) if "required" in each]
        found["required"] = sorted(set.intersection(*required))
    return found


def _types(schema: Schema) -> list[str]:
    types = schema["type"]
    return types if isinstance(types, list) else [types]


def closed(schema: Any) -> Any:
    """Return a schema that allows no further field: what is printed must be described."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    return inner | {"additionalProperties": False} if "properties" in schema and "type" in schema else inner


def check(name: str, text: str) -> Any:
    """Check what a command printed against its published schema, and return it."""
    from jsonschema import Draft202012Validator as Validator

    document, file = json.loads(text), FOLDER / f"{name}.json"
    if WRITE:
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        web = name.startswith("web-")  # what only the REST interface has
        title = f"REST: {name.removeprefix('web-')}" if web else f"backfill {name.replace('-', ' ')} --json"
        head = {"$schema": DRAFT, "title": title}
        FOLDER.mkdir(exist_ok=True)
        schema = head | _both({key: one for key, one in known.items() if key not in head}, inferred(document))
        file.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    problems = [*Validator(closed(json.loads(file.read_text(encoding="utf-8")))).iter_errors(document)]
    assert not problems, f"{file.name}: {problems[0].json_path}: {problems[0].message:.300}"
    return document
