"""Answers that were paid for once: a store on disk, and a chat that looks there first.

The store is one SQLite file in write-ahead mode, so that several processes may use it at a time.
It holds conversations' answers, never keys. Losing it loses money, not results: whatever is wrong
with it becomes a warning, and the planner is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from ...errors import UsageError
from ...folders import cache_directory
from .base import Answer, Chat, Messages, digest
from .extract import extract_program

__all__ = ["AnswerStore", "CachedChat", "Holdings"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Holdings:
    """What a store holds.

    Attributes:
        path: its file.
        entries: answers in it.
        bytes: size of its files.
        models: answers by model.
    """

    path: str
    entries: int
    bytes: int
    models: dict[str, int]


class AnswerStore:
    """Answers by the key of the call that gave them.

    Args:
        directory: where the file is; :func:`cache_directory` where it is None.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(directory or cache_directory()) / "answers.sqlite3"

    def get(self, key: str) -> Answer | None:
        """The answer of a call, or None."""
        with self._usable(), self._opened() as database:
            row = database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is not None:
                with suppress(ValueError):  # of another version: as good as not there
                    return Answer.from_dict(json.loads(row[0]), origin="cache")
        return None

    def put(self, key: str, model: str, answer: Answer) -> None:
        """Keep an answer."""
        data = json.dumps(answer.to_dict())
        for _ in range(2):  # a file that is damaged is moved aside, and the next one takes it
            with self._usable(), self._opened() as database:
                database.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                    (key, model, time.time(), data),
                )
                return

    def holdings(self) -> Holdings:
        """What there is."""
        models: dict[str, int] = {}
        if self.path.exists():
            with self._usable(), self._opened() as database:
                query = "SELECT model, COUNT(*) FROM answers GROUP BY model ORDER BY model"
                models = dict(database.execute(query).fetchall())
        size = sum(path.stat().st_size for path in self._files() if path.exists())
        return Holdings(str(self.path), sum(models.values()), size, models)

    def clear(self, *, older_than: float | None = None) -> int:
        """Forget answers.

        Args:
            older_than: only those older than so many days.

        Returns:
            How many there were.

        Raises:
            UsageError: the days are no number of days.
        """
        if older_than is not None and not older_than >= 0:
            raise UsageError(f"--older-than takes a number of days, not {older_than:g}")
        if not self.path.exists():
            return 0
        until = time.time() - 86_400 * (older_than or 0.0)
        with self._usable(), self._opened() as database:
            gone = database.execute("DELETE FROM answers WHERE created <= ?", (until,)).rowcount
            database.commit()
            # Outside of the transaction, hence the commit before it; only now the file gets
            # smaller.
            database.execute("VACUUM")
            return gone
        return 0

    def _files(self) -> list[Path]:
        return [self.path, *(Path(f"{self.path}{end}") for end in ("-wal", "-shm"))]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # tasks may be private; SQLite itself keeps to the umask
            self.path.touch(mode=0o600, exist_ok=False)
        # A connection for each use: SQLite's belong to one thread, and loops come and go.
        database = sqlite3.connect(self.path, timeout=2.0)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(_SCHEMA)
            with database:
                yield database
        finally:
            database.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Turn what is wrong with the file into a warning."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:  # locked, read-only, no space
            # First, for it is a DatabaseError too: a file that is locked must not be taken for a
            # damaged one.
            warnings.warn(
                f"the cache of answers {self.path} cannot be used ({error}); the planner is asked",
                RuntimeWarning,
                stacklevel=5,
            )
        except sqlite3.DatabaseError as error:
            aside = f"{self.path}.damaged-{time.time_ns()}"
            for path in self._files():
                with suppress(OSError):  # another process may have been faster
                    path.rename(aside + path.name.removeprefix(self.path.name))
            warnings.warn(
                f"the cache of answers {self.path} is damaged ({error}); it was moved to {aside}, "
                "and a new one begins",
                RuntimeWarning,
                stacklevel=5,
            )


class CachedChat:
    """Gives the answer that a store has, else asks, and keeps what is worth keeping.

    Only whole answers with a program in them are kept: no refusals, none that were cut off, and
    nothing that one would want to ask again.
    """

    def __init__(self, inner: Chat, store: AnswerStore) -> None:
        self.name = inner.name
        self.model = inner.model
        # In the key, so that another endpoint or temperature gets an answer of its own.
        self.identity: Mapping[str, Any] = inner.identity
        self._inner = inner
        self._store = store
        # Runs side by side that ask one question: the first pays, the others wait for it.
        self._asking: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def limited(self, tokens: int) -> CachedChat:
        """The other chat with a limit, in front of the same store."""
        return CachedChat(self._inner.limited(tokens), self._store)

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """Nothing for an answer that is there."""
        if self._store.get(digest(messages, retry, self.identity)) is not None:
            return 0.0
        return self._inner.quote(messages, retry=retry)

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """The stored answer, or a new one.

        Raises:
            PlannerError: there is none, and none to be had.
        """
        key = digest(messages, retry, self.identity)
        # With the loop, because a lock belongs to one, and the synchronous API starts a new one
        # each time.
        place = (id(asyncio.get_running_loop()), key)
        lock = self._asking.setdefault(place, asyncio.Lock())
        async with lock:
            # Inside the lock: whoever waited finds the answer that the first one paid for.
            known = self._store.get(key)
            if known is not None:
                return known
            answer = await self._inner.ask(messages, retry=retry)
            if answer.whole and extract_program(answer.text) is not None:
                self._store.put(key, self.model, answer)
            return answer
