"""The lock that makes a process the daemon of a folder, and its sockets; others may remove both."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from backfill.system.home import HINTS, LOCK, SOCKET, alone, near

BACKLOG = 1024  # clients that may connect in the same moment
AT_ONCE = 100  # hints that are read, and clients that are accepted, at once


class Door:
    """The lock, held by this process, and its sockets. client: creates a connection; hint: receives each hint."""

    def __init__(
        self, folder: Path, lock: int, client: Callable[[], asyncio.Protocol], hint: Callable[[str], None]
    ) -> None:
        self.folder, self._lock, self._client, self._hint = folder, lock, client, hint
        self._server: asyncio.Server | None = None
        self._hints: socket.socket | None = None
        self._made: dict[str, tuple[int, int]] = {}  # the file of each socket

    async def keep(self) -> bool:
        """Restore what was removed; return False if another process has taken over."""
        try:
            ours = os.path.samestat(os.fstat(self._lock), (self.folder / LOCK).stat())
        except FileNotFoundError:
            ours = False
        if not ours:
            lock = alone(self.folder)
            if lock < 0:
                return False
            os.close(self._lock)
            self._lock = lock
        if self._hints is not None and not self._is_there(HINTS):
            self.take_hints()
        if self._server is not None and not self._is_there(SOCKET):
            await self.open()
        return True

    async def open(self) -> None:
        """Accept clients."""
        before, sock = self._server, socket.socket(socket.AF_UNIX)
        sock.bind(near(self._free(SOCKET)))
        # asyncio would accept a whole backlog at once; others are to be served in between.
        self._server = await asyncio.get_running_loop().create_unix_server(self._client, sock=sock, backlog=AT_ONCE)
        sock.listen(BACKLOG)
        self._note(SOCKET)
        if before is not None:
            before.close()

    def take_hints(self) -> None:
        """Receive hints that something about an attempt has changed."""
        if self._hints is not None:
            asyncio.get_running_loop().remove_reader(self._hints)
            self._hints.close()
        self._hints = hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        hints.bind(near(self._free(HINTS)))
        hints.setblocking(False)
        self._note(HINTS)

        def hear() -> None:
            with suppress(BlockingIOError):
                for _ in range(AT_ONCE):
                    self._hint(hints.recv(256).decode(errors="replace"))

        asyncio.get_running_loop().add_reader(hints, hear)

    def close(self) -> None:
        """Accept no more clients; connected ones stay."""
        if self._server is not None:
            self._server.close()

    def remove(self) -> None:
        """Remove the socket, unless it belongs to another process."""
        if self._is_there(SOCKET):
            (self.folder / SOCKET).unlink(missing_ok=True)

    def _free(self, name: str) -> str:
        """Return the path of a socket and remove what is left there: under the lock, no other process listens there."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        return str(path)

    def _note(self, name: str) -> None:
        (self.folder / name).chmod(0o600)
        stat = (self.folder / name).stat()
        self._made[name] = stat.st_dev, stat.st_ino

    def _is_there(self, name: str) -> bool:
        """Return whether a socket that this process created is still there."""
        try:
            stat = (self.folder / name).stat()
        except FileNotFoundError:
            return False
        return self._made.get(name) == (stat.st_dev, stat.st_ino)
