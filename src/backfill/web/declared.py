"""The one declaration of requests (`queue.schema`) as JSON Schema, and the parts of it that REST takes as bodies."""

from typing import Any

from backfill.queue import schema
from backfill.queue.schema import (
    Body,
    Choice,
    Either,
    Flag,
    Many,
    Record,
    Refused,
    Row,
    Table,
    Text,
    Type,
    Whole,
    Word,
)

Schema = dict[str, Any]
BATCH = 1000  # jobs of one batch


def _without(record: Record, *names: str) -> Record:
    kept = {name: kind for name, kind in record.fields.items() if name not in names}
    return Record(kept, tuple(name for name in record.required if name in kept))


# The token of a request is in the header Idempotency-Key.
NEW_JOB = _without(schema.SUBMIT, "token")
NEW_JOBS = Record({"jobs": Many(NEW_JOB, BATCH, 1)}, ("jobs",))
NEW_PROJECT = _without(schema.SUBMIT_PROJECT, "token")
CHANGE = schema.TO
TRIED = schema.TRIED
SOME = schema.SOME
SIGNAL = schema.REQUESTS["signal"].fields
SIGNAL_ONE = _without(SIGNAL, "ids")
RESERVE = _without(schema.RESERVE, "token")
TRIAL = schema.REQUESTS["switch"].fields
SWITCH = Record({**TRIAL.fields, "drop_promises": schema.FLAG}, TRIAL.required)


def checked(record: Record, body: Any, name: str) -> dict[str, Any]:
    """Return a body that is as declared. Raises Refused."""
    record.check(body, name)
    if not isinstance(body, dict):
        raise Refused(f"{name} is not an object")
    return body


def json_schema(kind: Type) -> Schema:
    """Return the JSON Schema of a declared type."""
    match kind:
        case Whole():
            return {"type": "integer", "minimum": kind.low, "maximum": kind.high}
        case Flag():
            return {"type": "boolean"}
        case Text():
            return {"type": "string", "minLength": kind.least, "maxLength": kind.most,
                    "description": "printable characters"}  # fmt: skip
        case Body():
            return {"type": "string", "maxLength": kind.most}
        case Word():
            begins = {"pattern": f"^{kind.begins}"} if kind.begins else {}
            least = {"minLength": kind.least} if kind.least else {}
            return {"type": "string", **least, "maxLength": kind.most, **begins}
        case Choice():
            return {"type": "string", "enum": [*kind.words]}
        case Many():
            return {"type": "array", "items": json_schema(kind.of), "minItems": kind.least, "maxItems": kind.most}
        case Row():
            each = [json_schema(one) for one in kind.of]
            return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
        case Table():
            named, values = json_schema(kind.key), json_schema(kind.value)
            return {"type": "object", "propertyNames": named, "additionalProperties": values,
                    "maxProperties": kind.most}  # fmt: skip
        case Record():
            fields = {name: json_schema(one) for name, one in kind.fields.items()}
            required = {"required": [*kind.required]} if kind.required else {}
            return {"type": "object", "properties": fields, "additionalProperties": False, **required}
        case Either():
            return {"anyOf": [json_schema(one) for one in kind.of], "description": kind.expected}
    raise TypeError(type(kind).__name__)
