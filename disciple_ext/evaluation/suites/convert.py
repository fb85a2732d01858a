"""COLLIE's own data file to the JSON lines that the suite reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from .collie import ALL_TASKS
from .unpickling import read_pickle

__all__ = ["COLLIE_NAMES", "convert"]

COLLIE_NAMES = {
    **{f"c0{k}": f"word_0{k}" for k in (1, 2, 3)},
    **{"c04": "sent_01", "c05": "sent_02", "c06a": "sent_03", "c07": "sent_04"},
    **{"c08": "para_01", "c09": "para_02", "c10": "para_03", "c11": "para_04", "c12": "para_05"},
    "c14": "pass_01",
}
"""COLLIE's names of the task types, and ours."""

_ONE_TARGET = frozenset({"word_01", "sent_01", "sent_04", "para_01"})
"""Types with one constraint: COLLIE may hold its target in a list of one."""


def convert(file: str | Path, out: str | Path) -> dict[str, int]:
    """Write one file of JSON lines for each corpus of COLLIE's ``all_data.dill``.

    The file is a pickle, which is read as data: nothing that is in it runs.

    Args:
        file: COLLIE's file.
        out: directory of ``wiki.jsonl`` and the others; it is made.

    Returns:
        The number of instances of each ``corpus/task``.

    Raises:
        EvaluationError: the file is not COLLIE's, or asks for anything but data; or a file that
            would be written is there already.
    """
    data = read_pickle(file)
    if not isinstance(data, Mapping):
        raise EvaluationError(f"{file} is not COLLIE's data: it holds a {type(data).__name__}")
    corpora: dict[str, list[dict[str, Any]]] = {}
    counts: dict[str, int] = {}
    for corpus, task, rows in sorted(_parts(data), key=lambda p: (p[0], ALL_TASKS.index(p[1]))):
        for number, row in enumerate(rows):
            where = f"{corpus}/{task}/{number:03}"
            corpora.setdefault(corpus, []).append(_instance(row, where, corpus, task))
        counts[f"{corpus}/{task}"] = len(rows)
    if not corpora:
        known = ", ".join(COLLIE_NAMES)
        raise EvaluationError(f"{file} has no entries such as 'wiki_c04' (known types: {known})")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for corpus, instances in corpora.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in instances)
        try:
            # "x": data that is there may belong to logs that were made with it.
            with (folder / f"{corpus}.jsonl").open("x", encoding="utf-8") as target:
                target.write(lines)
        except FileExistsError as error:
            raise EvaluationError(
                f"{folder / corpus}.jsonl is there already: name another directory, or remove it"
            ) from error
    return counts


def _parts(data: Mapping[Any, Any]) -> list[tuple[str, str, list[Any]]]:
    found = []
    for key, rows in data.items():
        corpus, _, name = str(key).rpartition("_")
        # isidentifier: the corpus becomes a file's name, and must not lead out of the folder.
        if name in COLLIE_NAMES and corpus.isidentifier() and isinstance(rows, list):
            found.append((corpus, COLLIE_NAMES[name], rows))
    return found


def _instance(row: Any, where: str, corpus: str, task: str) -> dict[str, Any]:
    try:
        prompt, targets, example = row["prompt"], row["targets"], row["example"]
        if task in _ONE_TARGET and isinstance(targets, list | tuple) and len(targets) == 1:
            (targets,) = targets
        if not (isinstance(prompt, str) and isinstance(example, str)):
            raise TypeError("prompt and example should be texts")
        made = {"id": where, "task": task, "corpus": corpus, "prompt": prompt}
        made |= {"targets": targets, "example": example}
        # What JSON cannot hold must be found before a file is begun.
        json.dumps(made)
    except (KeyError, TypeError, ValueError) as error:
        raise EvaluationError(f"{where} is no instance of COLLIE's: {error}") from error
    return made
