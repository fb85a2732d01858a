"""Programs that passed, kept for the next task of their family.

An entry is a program as its planner wrote it. Where it has a function ``arguments(task)``, it is a
program for a family: the constants of the task come from its words. That function is a planner's
code like the rest: it runs where the program runs, in the sandbox, and says None of a task that
it does not know.

A library is a folder with one JSON file for each entry, so that a person can read it, and several
processes may share it.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...folders import write_whole
from ...records.program import Program
from ...version import __version__

__all__ = ["Entry", "Library", "default_folder", "likeness"]

SCHEMA = 1
ALIKE = 0.8
"""Likeness of two tasks from which on a program of the one is tried on the other."""
NAME = 12
"""Digits of an entry's name."""
KEPT = 50
"""Tasks that an entry remembers of each kind."""


@dataclass(frozen=True)
class Entry:
    """One program that passed.

    Attributes:
        name: the first twelve digits of the source's SHA-256.
        source: the program.
        planner: what wrote it.
        task: the task that it was written for.
        family: the task's family where an evaluation named it, or None.
        created: UTC, ISO 8601.
        version: of disciple-ext.
        passed: tasks whose run passed, latest last.
        failed: tasks whose run failed: it is not tried on them again.
        uses: runs of it on tasks other than its first that passed.
    """

    name: str
    source: str
    planner: str
    task: str
    family: str | None = None
    created: str = ""
    version: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    uses: int = 0

    @property
    def general(self) -> bool:
        """Whether it is a program for a family: it defines ``arguments(task)``."""
        return has_arguments(self.source)

    @property
    def program(self) -> Program:
        """The entry as a program to run; like every planner's it is not trusted."""
        return Program(self.source, planner=f"library:{self.name}")


class Library:
    """A folder of programs that passed.

    Args:
        folder: where they are; made when the first is added.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def entries(self) -> list[Entry]:
        """All entries, the oldest first; files that are none are left out.

        Raises:
            UsageError: the folder cannot be read.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"the program library {self.folder} cannot be used: it is a file")
        try:
            paths = sorted(self.folder.glob("*.json"))
        except OSError as error:
            raise _unusable(self.folder, error) from error
        found = [entry for path in paths if (entry := _read(path)) is not None]
        return sorted(found, key=lambda entry: (entry.created, entry.name))

    def get(self, name: str) -> Entry:
        """The entry whose name begins like this.

        Raises:
            UsageError: there is none, or more than one.
        """
        entries = self.entries() if len(name) >= 4 else []
        # `get` is also how entries are removed, so a name that could be two things is refused.
        found = [entry for entry in entries if entry.name.startswith(name)]
        if len(found) != 1:
            what = "no program" if not found else f"{len(found)} programs"
            raise UsageError(
                f"{what} in {self.folder} with a name that begins with {name!r} (four digits at "
                "least); `disciple library list` shows them all"
            )
        return found[0]

    def forget(self, name: str) -> Entry:
        """Remove an entry.

        Raises:
            UsageError: there is none, or it cannot be removed.
        """
        entry = self.get(name)
        try:
            self._path(entry.name).unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(self.folder, error) from error
        return entry

    def candidates(
        self, task: str, *, tried: Collection[str] = (), hold_out: str | None = None
    ) -> list[Entry]:
        """Entries that may solve a task, the likeliest first.

        Args:
            task: the task in words.
            tried: hashes of programs that were tried already.
            hold_out: a family of which no entry is to be used.
        """
        found = []
        for entry in self._allowed(hold_out):
            # A program for one task only is a candidate for that very task.
            same = entry.task == task or task in entry.passed
            like = 1.0 if same else _alike(entry, task)
            if like >= ALIKE and task not in entry.failed and entry.program.hash not in tried:
                found.append((same, like, entry.uses, entry))
        # Without the entry in the key: entries have no order among themselves.
        found.sort(key=lambda one: one[:3], reverse=True)
        return [entry for *_, entry in found]

    def nearest(self, task: str, k: int, *, hold_out: str | None = None) -> list[Entry]:
        """The ``k`` entries whose tasks are most like a task: examples for a new family."""
        entries = self._allowed(hold_out)
        entries.sort(key=lambda entry: likeness(entry.task, task), reverse=True)
        return entries[:k]

    def record(
        self, program: Program, task: str, passed: bool, *, family: str | None = None
    ) -> Entry | None:
        """Keep a program that passed, or what became of one that is kept already.

        Returns:
            The entry; None for a program that failed and is not in the library.

        Raises:
            UsageError: the folder cannot be written.
        """
        # By its source: a program that comes back from the library is the entry that it was.
        name = program.hash[:NAME]
        known = _read(self._path(name))
        if known is None:
            # A program that never passed would only be tried again.
            if not passed:
                return None
            known = Entry(
                name,
                program.source,
                program.planner,
                task,
                family,
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                __version__,
            )
        elif passed and task != known.task:
            known = replace(known, uses=known.uses + 1)
        if passed:
            # It failed on this task once, by its draws or by a limit, and has passed now.
            failed = tuple(other for other in known.failed if other != task)
            entry = replace(known, passed=_with(known.passed, task), failed=failed)
        else:
            entry = replace(known, failed=_with(known.failed, task))
        self._write(entry)
        return entry

    # Inside -------------------------------------------------------------------------------

    def _allowed(self, hold_out: str | None) -> list[Entry]:
        return [e for e in self.entries() if hold_out is None or e.family != hold_out]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, entry: Entry) -> None:
        text = json.dumps({"schema": SCHEMA, **asdict(entry)}, indent=2) + "\n"
        try:
            write_whole(self._path(entry.name), text)
        except OSError as error:
            raise _unusable(self.folder, error) from error


def default_folder() -> Path:
    """What ``DISCIPLE_LIBRARY`` names, else a folder among the user's data."""
    if named := os.environ.get("DISCIPLE_LIBRARY"):
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "disciple" / "library"


def has_arguments(source: str) -> bool:
    """Whether a program defines ``arguments`` at its top level."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "arguments" for node in body)


def _alike(entry: Entry, task: str) -> float:
    """How likely a program for a family is to be for a task, from 0 to 1.

    A word that no task of the family had is a demand that the program may not know of.
    """
    if not entry.general:
        return 0.0
    # Of all tasks that passed: each may have brought a wording that the program proved to know.
    known = {word for one in (entry.task, *entry.passed) for word in _shape(one)}
    return likeness(entry.task, task) if known.issuperset(_shape(task)) else 0.0


def _with(tasks: tuple[str, ...], task: str) -> tuple[str, ...]:
    """The latest tasks, this one last."""
    return (*(known for known in tasks if known != task), task)[-KEPT:]


def likeness(one: str, other: str) -> float:
    """How alike two tasks are in all but their numbers and quoted words, from 0 to 1."""
    # autojunk would drop frequent words from long tasks, and call tasks alike that are not.
    return difflib.SequenceMatcher(None, _shape(one), _shape(other), autojunk=False).ratio()


def _shape(task: str) -> list[str]:
    """The words of a task, with marks in place of quoted words and numbers.

    A list of quoted words is one mark, however long it is, and so is a list of ordinals.
    """
    task = re.sub(r"(?:(?:'[^']*'|\"[^\"]*\")(?:,? and |, ?)?)+", " «words» ", task)
    task = re.sub(r"\b(?:\d+(?:st|nd|rd|th)(?:,? and |, ?)?)+", " «ordinals» ", task)
    task = re.sub(r"\d+(?:[.,]\d+)*", " «number» ", task)
    return re.findall(r"«\w+»|\w+", task.lower())


def _read(path: Path) -> Entry | None:
    """The entry in a file; None where there is no file, or it holds something else."""
    try:
        data: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        return None
    texts = ("name", "source", "planner", "task", "created", "version")
    lists: list[Any] = [data.get("passed"), data.get("failed")]
    if (
        {*data} != {*Entry.__dataclass_fields__}
        or not all(isinstance(data[name], str) for name in texts)
        or not all(isinstance(tasks, list) for tasks in lists)
        or not all(isinstance(task, str) for tasks in lists for task in tasks)
        or not isinstance(data["uses"], int)
        or not isinstance(data["family"], str | None)
    ):
        return None
    fields: dict[str, Any] = data | {"passed": tuple(lists[0]), "failed": tuple(lists[1])}
    entry = Entry(**fields)
    try:
        named = entry.program.hash[:NAME]
    except UnicodeEncodeError:
        # JSON may spell half of a surrogate pair, which cannot be hashed.
        return None
    # A source that was edited by hand has not passed anything: its hash gives it away.
    return entry if named == entry.name == path.stem else None


def _unusable(place: Path, error: OSError) -> UsageError:
    return UsageError(f"the program library {place} cannot be used: {error.strerror}")
