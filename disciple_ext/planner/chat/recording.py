"""Answers on record: written as JSON files that a person can read, and given again without a key.

A recording is named by its conversation and by how many programs were tried before, not by the
endpoint: what was said once is the answer wherever it is replayed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import PlannerError, UsageError
from ...text.shorten import one_line
from .base import Answer, Chat, Messages, digest
from .planner import ChatPlanner

__all__ = ["RecordedPlanner", "RecordingChat", "ReplayChat"]


class RecordingChat:
    """Writes every answer of another chat into a directory.

    Args:
        inner: the chat.
        directory: where the recordings go; it is made where there is none.
    """

    def __init__(self, inner: Chat, directory: str | os.PathLike[str]) -> None:
        self.name = inner.name
        self.model = inner.model
        self.identity: Mapping[str, Any] = inner.identity
        self._inner = inner
        self._directory = Path(directory)

    def limited(self, tokens: int) -> RecordingChat:
        """The other chat with a limit, recorded likewise."""
        return RecordingChat(self._inner.limited(tokens), self._directory)

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """What the other chat says."""
        return self._inner.quote(messages, retry=retry)

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """The other chat's answer, which is on record when this returns.

        Raises:
            PlannerError: there is none.
            UsageError: it cannot be written; the error carries the answer's cost.
        """
        answer = await self._inner.ask(messages, retry=retry)
        key = digest(messages, retry)
        recording = {
            "key": key,
            "retry": retry,
            "asked": dict(self.identity),
            "messages": [dict(message) for message in messages],
            "answer": answer.to_dict(),
        }
        path = self._directory / f"{_slug(self.model)}-{key[:16]}.json"
        # Written beside it and renamed: a process that is killed leaves no half of a recording.
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(recording, indent=2, ensure_ascii=False) + "\n", "utf-8")
            part.replace(path)
        except OSError as error:
            failure = UsageError(f"the planner's answer cannot be recorded in {path}: {error}")
            # The answer is lost, and was paid for all the same.
            failure.cost = answer.cost
            raise failure from error
        return answer


class ReplayChat:
    """Gives the answers of a directory of recordings. They cost nothing.

    Args:
        directory: what :class:`RecordingChat` wrote.

    Raises:
        UsageError: there is no such directory, a file in it is no recording, or two models
            answered one conversation.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.name = f"replay:{os.fspath(directory)}"
        self._directory = Path(directory)
        self._recordings: dict[str, dict[str, Any]] = {}
        for path in _paths(self._directory):
            recording = _read(path)
            known = self._recordings.setdefault(recording["key"], recording)
            # Which of the two is given would depend on the files' order.
            if known is not recording:
                both = sorted({known["asked"]["model"], recording["asked"]["model"]})
                raise UsageError(
                    f"{directory} holds two answers to one conversation, of {' and '.join(both)}; "
                    "record each model into a directory of its own"
                )
        models = sorted({r["asked"]["model"] for r in self._recordings.values()})
        self.model = ",".join(models)
        self.identity: Mapping[str, Any] = {"replay": models}

    def limited(self, tokens: int) -> ReplayChat:
        """The same: what was said is on record."""
        return self

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """Nothing."""
        return 0.0

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """The recorded answer.

        Raises:
            PlannerError: there is none; the message names its key and what there is.
        """
        key = digest(messages, retry)
        if key in self._recordings:
            return Answer.from_dict(self._recordings[key]["answer"], origin="recording")
        missing = PlannerError(
            f"no recording {key[:16]} in {self._directory}: nobody recorded an answer to this "
            f"conversation (retry {retry}: {_asked(messages)}). {self._near(messages, retry)}; "
            "record it with --record, or replay with the task, seed and version of the recording"
        )
        missing.cost = 0.0
        raise missing

    def _near(self, messages: Messages, retry: int) -> str:
        """What there is in place of a missing recording."""
        records = list(self._recordings.values())
        close = [
            r
            for r in records
            # The tutorial is the first message, and the one that changes with our version.
            if r["retry"] == retry and list(r["messages"][1:]) == [dict(m) for m in messages[1:]]
        ]
        if close:
            return f"Recording {close[0]['key'][:16]} asks the same with another tutorial"
        some = "; ".join(
            f"{r['key'][:16]} (retry {r['retry']}: {_asked(r['messages'])})" for r in records[:3]
        )
        more = f" and {len(records) - 3} more" if len(records) > 3 else ""
        return f"There are: {some}{more}"


class RecordedPlanner(ChatPlanner):
    """The planner ``replay:DIR``.

    Args:
        directory: recordings, as ``--record DIR`` makes them.

    Raises:
        UsageError: they cannot be used (see :class:`ReplayChat`).
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__(ReplayChat(directory))


def _paths(directory: Path) -> list[Path]:
    paths = sorted(directory.glob("*.json")) if directory.is_dir() else []
    if not paths:
        what = "holds no recordings" if directory.is_dir() else "is no directory"
        raise UsageError(f"{directory} {what}; make some with --record {directory}")
    return paths


def _read(path: Path) -> dict[str, Any]:
    try:
        recording: dict[str, Any] = json.loads(path.read_text("utf-8"))
        Answer.from_dict(recording["answer"], origin="recording")
        key = digest(recording["messages"], recording["retry"])
        if not isinstance(recording["asked"]["model"], str) or len(recording["messages"]) < 1:
            raise ValueError("no model or no messages")
    except OSError as error:
        raise UsageError(f"cannot read the recording {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is no recording ({type(error).__name__}: {error}); replay:DIR wants a "
            "directory that --record made"
        ) from error
    return {**recording, "key": key}  # of what it holds now: people may edit recordings


def _asked(messages: Messages) -> str:
    """The task of a conversation, for a person."""
    first = next((m["content"] for m in messages if m["role"] == "user"), "")
    return repr(one_line(first.rpartition("\n\n")[2], 60))


def _slug(model: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.")[:60] or "model"
