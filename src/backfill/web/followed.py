"""The store of a queue as readers of this process follow it."""

from pathlib import Path

from backfill.queue.store import Store


class Followed:
    """A store that is read as long as its file is there, and opened again if another one has taken its place.

    lives: how often that has happened. All of it belongs to one thread.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.lives = path, 0
        self._store: Store | None = None
        self._file = (0, 0)

    def store(self) -> Store:
        """Return the store. Raises StoreError and OSError."""
        there = self._path.stat()
        if self._store is None or self._file != (there.st_dev, there.st_ino):
            again = self._store is not None
            self.close()
            self._store, self._file = Store(self._path, readonly=True), (there.st_dev, there.st_ino)
            self.lives += again
        return self._store

    def close(self) -> None:
        """Close it; the next look opens it again."""
        if self._store is not None:
            self._store.close()
            self._store = None
