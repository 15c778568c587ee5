"""backfill serve --web: the process that serves the page of a queue, and nothing else.

The queue does not depend on it: it asks the daemon as every client does, so it may be stopped, killed or overrun with
requests at any time.
"""

import asyncio
import logging
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from backfill.client.calling import FAILED, UNREACHABLE, USAGE, Problem, persistent
from backfill.model.errors import MissingExtra
from backfill.queue.words import Unreadable
from backfill.system.home import near, owner, trouble, user_name

if TYPE_CHECKING:  # the extra may be missing
    from backfill.web.safety import Token

NEEDED = ("fastapi", "starlette", "uvicorn", "httptools")  # of the extra
LISTEN = "127.0.0.1:8765"
TOKEN, TOKEN_READ_ONLY = "web.token", "web-read-only.token"
REQUESTS = 1000  # connections and requests at once; more get status 503
KEEP_ALIVE_S, SHUTDOWN_S = 30, 2
NICE, OOM = 5, 500  # the queue goes first, and this process if memory runs out
BACKLOG = 1024


def serve(folder: Path, given: dict[str, Any]) -> int:
    """Serve the page of a queue until SIGINT or SIGTERM. given: options of the command line. Raises Problem."""
    try:
        import uvicorn

        from backfill.web.app import application
        from backfill.web.safety import Safety
        from backfill.web.service import Service
        from backfill.web.wire import Bounded
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        raise Problem(str(MissingExtra("serve --web", "web")), USAGE) from None

    if wrong := trouble(str(folder)):
        raise Problem(wrong, UNREACHABLE)
    if owner(str(folder)) != os.getuid():
        name = user_name(owner(str(folder)))
        raise Problem(f"{folder} belongs to {name}, who alone can serve its page", UNREACHABLE)
    listen = given.get("listen", LISTEN)
    tls = _tls(given)
    host, _ = _place(listen)
    if not (is_local(host) or tls or given.get("insecure")):
        raise Unreadable(
            f"--listen {listen} can be reached from other machines: expected --tls-cert and --tls-key, or --insecure "
            "if the network between is trusted"
        )
    persistent("ping", str(folder))
    token = made_token(folder, bool(given.get("read_only")), bool(given.get("new_token")))
    sock = bound(listen)
    names = {name.lower() for name in given.get("hosts", ())} | ({host} if not is_local(host) else set())
    names |= {socket.gethostname().lower(), socket.getfqdn().lower()} if not is_local(host) else set()
    port = sock.getsockname()[1] if host else 0
    safety = Safety(token, frozenset(names), f"backfill-{port}" if port else "backfill")
    service = Service(folder, bool(given.get("read_only")))
    app = application(service, safety)

    class Server(uvicorn.Server):
        """Ends the streams of events when it is told to end: they would last for ever."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            service.feed.ending = True
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, limit_concurrency=REQUESTS, ws="none",
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=SHUTDOWN_S,
        http=Bounded, proxy_headers=False,  # any local program can send them
        ssl_certfile=given.get("tls_cert"), ssl_keyfile=given.get("tls_key"),
    )  # fmt: skip
    where = f"{'https' if tls else 'http'}://{f'{_shown(host)}:{port}' if host else f'{listen}'}"
    print(f"serving {where}; the token is in {token.path}", flush=True)
    if host:
        print(f"next: open {where}/", flush=True)
    else:
        path = listen.removeprefix("unix:")
        print(f"next: curl --unix-socket {path} -H \"Authorization: Bearer $(cat {token.path})\" http://localhost/v1/health",
              flush=True)  # fmt: skip
    _note_mistakes()
    _step_back()
    Server(config).run([sock])
    return 0


def _step_back() -> None:
    """Let the queue and its jobs go first."""
    os.nice(NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM))


def _note_mistakes() -> None:
    """Write mistakes of this program to standard error, and nothing about clients that come and go."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("backfill: %(message)s"))
    handler.addFilter(_is_mistake)
    logger = logging.getLogger("uvicorn")
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False


def _is_mistake(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is not None and not issubclass(kind, ConnectionError | asyncio.CancelledError)


def made_token(folder: Path, read_only: bool, anew: bool) -> "Token":
    """Return the token of a queue, made if there is none. A page that is read-only has one of its own."""
    from backfill.web.safety import Token

    token = Token(folder / (TOKEN_READ_ONLY if read_only else TOKEN))
    if anew or not token.path.exists():
        token.make()
    _ = token.text  # refuses a file that others may read
    return token


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address; empty for a Unix socket."""
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _place(listen: str) -> tuple[str, int]:
    """Return host and port; an empty host for a Unix socket. Raises Unreadable."""
    if listen.startswith("unix:"):
        return "", 0
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Unreadable(f"--listen: {listen!r} is no address; expected HOST:PORT or unix:PATH")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def bound(listen: str) -> socket.socket:
    """Return a socket that listens there. Raises Problem."""
    host, port = _place(listen)
    path = os.path.abspath(listen.removeprefix("unix:"))
    try:
        if not host:
            return _unix(path)
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        return sock
    except OSError as error:
        hint = "; expected an address that no other program uses" if "in use" in str(error) else ""
        raise Problem(f"--listen {listen}: {error.strerror}{hint}", FAILED) from None


def _unix(path: str) -> socket.socket:
    """Return a Unix socket that only this user may connect to; it replaces one that nobody serves any more."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(near(path))
        except ConnectionRefusedError:
            os.unlink(path)
        except FileNotFoundError:
            pass
    before = os.umask(0o177)
    try:
        sock.bind(near(path))
    finally:
        os.umask(before)
    sock.listen(BACKLOG)
    return sock


def _tls(given: dict[str, Any]) -> bool:
    """Return whether the files of a certificate are given. Raises Problem if they cannot be used."""
    cert, key = given.get("tls_cert"), given.get("tls_key")
    if not cert and not key:
        return False
    if not (cert and key):
        raise Unreadable("--tls-cert and --tls-key belong together")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise Problem(f"{cert}, {key}: {error.strerror or error}", FAILED) from None
    return True
