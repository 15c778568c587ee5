"""The page that turns the token into a session of the browser."""

from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from backfill.web.forms import form_of
from backfill.web.problems import Refusal
from backfill.web.safety import Safety

FORM_MOST = 10_000  # bytes: who has no token yet may not send much
router = APIRouter(include_in_schema=False)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Log in - backfill</title></head>
<body><main><h1>backfill</h1>
{problem}<form method="post" action="/login">
<input type="hidden" name="next" value="{next}">
<p><label>Token <input name="token" type="password" autocomplete="current-password" required autofocus></label></p>
<p><button>Log in</button></p>
<p>The token is in the file <code>{file}</code> in the folder of the queue.</p>
</form></main></body></html>
"""


@router.get("/login")
async def ask(request: Request) -> Response:
    """Ask for the token."""
    return _page(request, request.query_params.get("next", "/"))


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session, if the token is right."""
    safety: Safety = request.app.state.safety
    form = await form_of(request, FORM_MOST)
    then = _own(form.get("next", "/"))
    if not safety.token.accepts(form.get("token", "").strip()):
        try:
            safety.refuse(request.scope)
        except Refusal as refusal:
            return _page(request, then, refusal)
    response = RedirectResponse(then, 303)
    safety.session(request.scope, response)
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    safety: Safety = request.app.state.safety
    response = RedirectResponse("/login", 303)
    response.delete_cookie(safety.cookie, path="/", httponly=True, samesite="strict")
    return response


def _own(path: str) -> str:
    """Return a path of this server; another address becomes the first page."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if inside and path.isascii() else "/"


def _page(request: Request, then: str, refusal: Refusal | None = None) -> Response:
    safety: Safety = request.app.state.safety
    problem = f'<p role="alert">{escape(str(refusal))}</p>\n' if refusal else ""
    text = PAGE.format(problem=problem, next=escape(_own(then)), file=escape(safety.token.path.name))
    return HTMLResponse(text, refusal.status if refusal else 200, refusal.headers if refusal else None)
