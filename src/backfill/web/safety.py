"""Decide which requests to answer: the right token, a known host name, no foreign origin.

A token is 32 random bytes in a file that only the owner of the queue may read. Programs send it as `Authorization:
Bearer TOKEN`; the page turns it into a cookie, which holds no token but proof that its holder had it. A new token ends
all sessions of the old one.
"""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backfill.queue.words import Unreadable
from backfill.system.home import LINE
from backfill.web.problems import Refusal, document

BYTES = 32
SESSION_S = 30 * 86400
FAILURES, PER_S, CLIENTS = (
    10,
    0.2,
    1000,
)  # wrong tokens of one client at once, and a second; clients that are remembered
BODY_S = 30.0  # how long a part of a request may take to arrive
OPEN = ("/login", "/static/")  # answered without a token: what the login page needs
HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?"  # name or address, and port
LOCAL = ("localhost", "127.0.0.1", "[::1]")
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = "; ".join(
    ["default-src 'none'", *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "font", "manifest")),
     "img-src 'self' data:", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"]
)  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer a browser would send `Origin: null` with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


ADDED = [(name.encode(), value.encode()) for name, value in {**HEADERS, "cache-control": "no-store"}.items()]


class Token:
    """The token of a queue, in a file; read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._text = self._hashed = b""

    def make(self) -> None:
        """Write a new token; it replaces the present one. Raises OSError."""
        half = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        half.unlink(missing_ok=True)
        file = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, secrets.token_hex(BYTES).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(half, self.path)

    @property
    def text(self) -> bytes:
        """The present token. Raises Unreadable if there is none that only its owner may read."""
        self._look()
        return self._text

    def _look(self) -> None:
        """Read the file if it has changed. Raises Unreadable."""
        try:
            there = os.stat(self.path)
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror}; next: backfill serve --web --new-token") from None
        seen = there.st_mtime_ns, there.st_ino, there.st_size
        if seen != self._seen:
            if stat.S_IMODE(there.st_mode) & 0o077:
                mode = f"{stat.S_IMODE(there.st_mode):o}"
                raise Unreadable(f"{self.path} has mode {mode}; expected 600, since others could read the token")
            text = self.path.read_bytes().strip()
            if len(text) < BYTES:
                raise Unreadable(f"{self.path}: no token; next: backfill serve --web --new-token")
            self._seen, self._text, self._hashed = seen, text, _digest(text)

    def accepts(self, given: str) -> bool:
        """Return whether this is the token; the time that this takes does not depend on it."""
        self._look()
        return hmac.compare_digest(_digest(given.encode(errors="surrogateescape")), self._hashed)

    def session(self, now: float) -> str:
        """Return proof that its holder had the token, valid for SESSION_S."""
        until = f"{int(now) + SESSION_S}"
        return f"{until}.{self._signed(until)}"

    def proves(self, session: str, now: float) -> bool:
        """Return whether a session was begun with the present token, and is not over."""
        until, _, proof = session.partition(".")
        good = hmac.compare_digest(
            _digest(proof.encode(errors="surrogateescape")), _digest(self._signed(until).encode())
        )
        return good and until.isascii() and until.isdigit() and int(until) > now

    def _signed(self, until: str) -> str:
        return hmac.new(self.text, f"session {until}".encode(errors="surrogateescape"), hashlib.sha256).hexdigest()


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


class Failures:
    """Wrong tokens by client: so many at once, and so many a second, are answered as such."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by client: attempts left, and when

    def too_many(self, client: str) -> int:
        """Count a wrong token; return after how many seconds another one may follow, 0 for now."""
        now = self._clock()
        left, then = self._left.pop(client, (float(FAILURES), now))
        left = min(left + (now - then) * PER_S, FAILURES) - 1
        self._left[client] = max(left, 0.0), now
        while len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return 0 if left >= 0 else max(1, round(-left / PER_S))


@dataclass
class Safety:
    """What is asked of a request. names: host names of this server beside those of loopback; cookie: its name."""

    token: Token
    names: frozenset[str] = frozenset()
    cookie: str = "backfill"
    failures: Failures = field(default_factory=Failures)

    def serves(self, host: str) -> bool:
        """Return whether a request may name this host: a page of another name must not reach this server by DNS."""
        match = re.fullmatch(HOST, host)
        return match is not None and (match[1].lower() in LOCAL or match[1].lower() in self.names)

    def admit(self, scope: Scope) -> Response | None:
        """Return None for a request that may be answered, else the answer. Raises Refusal."""
        headers = _headers(scope)
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self.serves(hosts[0]):
            problem = f"this server is not {', '.join(hosts)[:100]!r}; expected localhost or a name given by --host"
            raise Refusal(421, problem, "host")
        by_cookie = self._by_cookie(headers)
        self._check_origin(scope, headers, hosts[0], by_cookie)
        path = scope["path"]
        if any(path == each or (each.endswith("/") and path.startswith(each)) for each in OPEN):
            return None
        given = headers.get("authorization", [])
        if given:
            scheme, _, token = given[0].partition(" ")
            if scheme.lower() == "bearer" and self.token.accepts(token.strip()):
                return None
            self.refuse(scope)
        if by_cookie:
            return None
        if scope["method"] in ("GET", "HEAD") and "text/html" in ",".join(headers.get("accept", [])):
            return RedirectResponse(f"/login?next={quote(path_of(scope), safe='')}", 303)
        raise Refusal(401, "expected the header Authorization: Bearer TOKEN", "token", WWW_Authenticate="Bearer")

    def refuse(self, scope: Scope) -> None:
        """Raise Refusal for a wrong token."""
        client = scope.get("client")
        wait_s = self.failures.too_many(client[0] if client else "")
        if wait_s:
            raise Refusal(429, f"too many wrong tokens; wait {wait_s} s", "token", Retry_After=str(wait_s))
        problem = f"this is not the token, which is in {self.token.path.name} in the folder of the queue"
        raise Refusal(401, problem, "token", WWW_Authenticate="Bearer")

    def session(self, scope: Scope, response: Response) -> None:
        """Begin a session: have the browser keep the cookie, out of reach of scripts and of other sites."""
        # Behind a proxy the connection is not encrypted, but the page is.
        secure = scope["scheme"] == "https" or any(
            each.lower().startswith("https://") for each in _headers(scope).get("origin", [])
        )
        response.set_cookie(
            self.cookie, self.token.session(time.time()), max_age=SESSION_S, path="/",
            httponly=True, samesite="strict", secure=secure,
        )  # fmt: skip

    def _by_cookie(self, headers: dict[str, list[str]]) -> bool:
        for line in headers.get("cookie", []):
            try:
                found = SimpleCookie(line).get(self.cookie)
            except CookieError:
                continue
            if found is not None and self.token.proves(found.value, time.time()):
                return True
        return False

    def _check_origin(self, scope: Scope, headers: dict[str, list[str]], host: str, by_cookie: bool) -> None:
        """Raise Refusal for a request of a page of another site, and for a form of which the site is not known."""
        origins, site = headers.get("origin", []), headers.get("sec-fetch-site", [])
        for origin in origins:
            if origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
                raise Refusal(403, "this request comes from a page of another site", "origin")
        safe = scope["method"] in SAFE
        if not safe and not origins and site and site[0] not in ("same-origin", "none"):
            raise Refusal(403, "this request comes from a page of another site", "origin")
        if not safe and by_cookie and not origins and not site and "authorization" not in headers:
            raise Refusal(403, "expected the header Origin, as browsers send it", "origin")


def path_of(scope: Scope) -> str:
    """Return path and query of a request."""
    query = scope.get("query_string", b"").decode("latin-1")
    return quote(str(scope["path"])) + (f"?{query}" if query else "")


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


class Guarded:
    """The application behind a Safety: requests are checked and bounded, answers get the headers of HEADERS."""

    def __init__(self, app: ASGIApp, safety: Safety) -> None:
        self._app, self._safety = app, safety

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_missing(message.get("headers", ()))]
            await send(message)

        try:
            answer = self._safety.admit(scope)
        except Refusal as refusal:
            answer = document(refusal)
        except Unreadable as error:  # the file of the token
            answer = document(Refusal(503, str(error), "token"))
        if answer is not None:
            await answer(scope, receive, sent)
            return
        await self._app(scope, _bounded(receive), sent)


def _missing(there: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in there}
    return [each for each in ADDED if each[0] not in names]


def _bounded(receive: Receive) -> Receive:
    """Return a `receive` that refuses a body that is longer than a request may be, or does not come."""
    size, over = 0, False

    async def some() -> Message:
        nonlocal size, over
        try:
            async with asyncio.timeout(None if over else BODY_S):
                message = await receive()
        except TimeoutError:
            raise Refusal(408, f"nothing of the body has arrived for {BODY_S:.0f} s", "size") from None
        over = not message.get("more_body", False)
        size += len(message.get("body", b""))
        if size > LINE:
            raise Refusal(413, f"the request is longer than {LINE >> 20} MiB", "size")
        return message

    return some
