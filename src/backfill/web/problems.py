"""Errors as problem documents (RFC 9457), with the status of each kind of refusal."""

import json

from starlette.responses import Response

from backfill.client.calling import Problem

URN = "urn:backfill:problem:"
RETRY_S = 1  # after which a client may ask again
TITLES = {
    400: "The request is wrong",
    401: "A token is needed",
    403: "Not allowed here",
    404: "Not found",
    405: "No such method here",
    406: "Not available in this form",
    408: "The request did not arrive in time",
    409: "Not possible in the present state",
    413: "The request is too large",
    415: "Expected JSON",
    416: "No such range",
    421: "Unknown host name",
    422: "Not possible in this queue",
    429: "Too many wrong tokens",
    500: "A mistake of this program",
    503: "The queue does not answer now",
}
STATUS = {  # of each kind of refusal by the daemon
    "usage": 400,
    "size": 413,
    "unknown": 404,
    "impossible": 422,
    "question": 422,
    "shadow": 409,
    "state": 409,
    "full": 409,
    "busy": 503,
    "starting": 503,
    "stopped": 503,
    "away": 503,
    "protocol": 503,
    "internal": 500,
}


class Refusal(Exception):
    """A request that this process does not carry out."""

    def __init__(self, status: int, detail: str, kind: str = "", field: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.status, self.kind, self.field = status, kind, field
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def of_problem(problem: Problem) -> Refusal:
    """Return the refusal for an error of the daemon, or of the way to it."""
    kind = problem.kind or "away"
    status = STATUS.get(kind, 400)
    more = {"Retry_After": str(RETRY_S)} if status == 503 else {}
    return Refusal(status, str(problem), kind, problem.field, **more)


def document(refusal: Refusal) -> Response:
    """Return the problem document."""
    kind = refusal.kind or str(refusal.status)
    facts = {
        "type": URN + kind,
        "title": TITLES.get(refusal.status, "Error"),
        "status": refusal.status,
        "detail": str(refusal),
        **({"field": refusal.field} if refusal.field else {}),
    }
    body = json.dumps(facts).encode()
    return Response(body, refusal.status, refusal.headers, "application/problem+json")
