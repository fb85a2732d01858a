"""Which sentence splitter the evaluation uses: trained Punkt where its parameters are found.

COLLIE cuts paragraphs with NLTK's trained English Punkt. Its parameters are not ours to ship, so
they are looked for on this machine, never downloaded, and our own parameters stand in where they
are missing. The algorithm is ours in both cases (`disciple_ext.text.sentence_rules`, that of
NLTK 3.8.1): later NLTK releases treat curly quotes otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from disciple_ext.errors import EvaluationError
from disciple_ext.text.sentence_rules import PunktParameters, split

__all__ = ["FALLBACK", "Splitter", "default_splitter", "find_punkt", "read_punkt"]

_PLACE = Path("tokenizers", "punkt_tab", "english")
_FILES = ("abbrev_types.txt", "collocations.tab", "sent_starters.txt", "ortho_context.tab")


@dataclass(frozen=True)
class Splitter:
    """A way to cut a text into sentences.

    Attributes:
        name: ``"punkt_tab"`` or ``"fallback"``; logs carry it.
        cut: the function from a text to its sentences.
        source: the directory that the parameters were read from, or None.
    """

    name: str
    cut: Callable[[str], list[str]]
    source: Path | None = None


FALLBACK = Splitter(name="fallback", cut=split)
"""The Punkt algorithm with our own parameters."""


def _data_directories() -> list[Path]:
    """Where NLTK data may lie, in the order in which it is looked for."""
    found = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    if collie := os.environ.get("DISCIPLE_COLLIE"):
        base = Path(collie)
        found.append((base.parent if base.is_file() else base) / "nltk_data")
    found += [Path.home() / "nltk_data", Path(sys.prefix, "nltk_data")]
    found += [Path(sys.prefix, "share", "nltk_data"), Path("/usr/share/nltk_data")]
    return [*found, Path("/usr/local/share/nltk_data"), Path("/usr/local/lib/nltk_data")]


def find_punkt() -> Path | None:
    """Look for NLTK's English Punkt parameters in the punkt_tab format.

    ``NLTK_DATA``, ``DISCIPLE_COLLIE``'s ``nltk_data`` and NLTK's usual places are searched;
    nothing is downloaded.

    Returns:
        The directory that holds the four files, or None.
    """
    for base in _data_directories():
        if all((base / _PLACE / name).is_file() for name in _FILES):
            return base / _PLACE
    return None


def read_punkt(directory: Path) -> PunktParameters:
    """Read Punkt parameters in the punkt_tab format.

    Args:
        directory: where the four files lie.

    Returns:
        The parameters.

    Raises:
        EvaluationError: a file cannot be read, or holds something else.
    """
    try:
        abbreviations, collocations, starters, contexts = (
            [line for line in (directory / name).read_text("utf-8").split("\n") if line]
            for name in _FILES
        )
        pairs = [line.rpartition("\t") for line in collocations]
        seen = [line.rpartition("\t") for line in contexts]
        return PunktParameters(
            abbreviations=frozenset(abbreviations),
            collocations=frozenset((first, second) for first, _, second in pairs),
            starters=frozenset(starters),
            contexts={word: int(bits) for word, _, bits in seen},
        )
    except (OSError, ValueError) as error:
        raise EvaluationError(
            f"The Punkt parameters in {directory} cannot be read ({error}). Fetch NLTK's punkt_tab "
            "again, or unset NLTK_DATA to use the built-in splitter."
        ) from error


# Reading the parameters takes longer than a verdict, and each verdict asks for a splitter.
@lru_cache(maxsize=4)
def _trained(directory: Path) -> Splitter:
    return Splitter("punkt_tab", partial(split, parameters=read_punkt(directory)), directory)


def default_splitter() -> Splitter:
    """Choose the splitter: trained Punkt where its parameters are found, else our own.

    Returns:
        The splitter; its name says which one it is.

    Raises:
        EvaluationError: parameters are there but cannot be read.
    """
    directory = find_punkt()
    return FALLBACK if directory is None else _trained(directory)
