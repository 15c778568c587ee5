"""Write the description of the REST interface (OpenAPI 3.1): what the routes declare, with the published schemas.

python -m tools.openapi
"""

import json
import sys
from pathlib import Path
from typing import Any

from backfill.web.app import described
from backfill.web.rest import OPENAPI
from backfill.web.safety import Safety, Token
from backfill.web.service import Service

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"
ABOUT = (
    "The live queue over HTTP. Answers are those of the verbs with `--json`; within version 1 fields and resources are "
    "only added, so a client ignores what it does not know. Every request needs the token; see docs/reference/web.md."
)
PROBLEM = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}


def description() -> dict[str, Any]:
    """Return the description of the interface."""
    app = described(Service(Path("/nowhere")), Safety(Token(Path("/nowhere"))))
    app.description = ABOUT
    title, version = app.title, app.version
    found: dict[str, Any] = plain(app.openapi())
    schemas: dict[str, Any] = {"problem": PROBLEM}
    for path in found["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)  # of FastAPI's own form
            problem = {"schema": {"$ref": "#/components/schemas/problem"}}
            responses["default"] = {"description": "A problem.", "content": {"application/problem+json": problem}}
            for name in _named(responses):
                if name not in schemas:
                    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
                    schemas[name] = {key: value for key, value in schema.items() if not key.startswith("$")}
    found["components"] = {
        "schemas": schemas,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    found["info"] = {"title": title, "version": version, "description": ABOUT}
    found["security"] = [{"token": []}]
    return found


def plain(part: Any) -> Any:
    """Return a description without what versions of the libraries write differently: titles, and null for no value."""
    if isinstance(part, list):
        return [plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    either = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
    if len(either) == 1:
        part = {**{key: value for key, value in part.items() if key != "anyOf"}, **either[0]}
    return {key: plain(value) for key, value in part.items() if not (key == "title" and isinstance(value, str))}


def _named(responses: Any) -> list[str]:
    if isinstance(responses, dict):
        own = [responses["$ref"].rpartition("/")[2]] if "$ref" in responses else []
        return own + [name for each in responses.values() for name in _named(each)]
    return []


def text() -> str:
    """Return the content of the file."""
    return json.dumps(description(), indent=1) + "\n"


if __name__ == "__main__":
    OPENAPI.write_text(text(), encoding="utf-8")
    print(f"wrote {OPENAPI}", file=sys.stderr)
