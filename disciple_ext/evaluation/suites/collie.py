"""COLLIE: its instances, and the ground truth of its task types.

The paper uses nine of them; those of words and passages are here, too.

COLLIE-v1 is by Yao et al. (2024), github.com/princeton-nlp/Collie. `verify` is written from its
specification and gives the verdict of the official checker (``collie-bench`` 0.1.0 under
NLTK 3.8.1), odd ones included: words are compared without case and outer punctuation, quotation
marks count as words, and the empty text passes para_01, as it has no sentence that fails.

==========  ==========================================  ===================================
task        targets                                     what the text must have
==========  ==========================================  ===================================
sent_01     82                                          exactly 82 characters
sent_02     [11, ["Series", "and", "4"]]                11 words, the 4th, 8th, 11th given
sent_03     [9, 7]                                      9 words or more, of 7 characters at most
sent_04     ["have", "rising", "the"]                   all these words
para_01     "He"                                        sentences that all start with the word
para_02     [3, "be", "this", "is"]                     3 sentences, none of these words
para_03     [4, 12, 20]                                 4 sentences of 12 to 20 words
para_04     [3, 21]                                     3 sentences or more, of 21 words or more
para_05     [3, ["convention", "president", "Ohio"]]    3 sentences, with these last words
word_01     12                                          12 characters or more
word_02     [13, ["e", "a", "o"]]                       13 characters, the 4th, 8th, 11th given
word_03     [9, "c"]                                    9 characters, the last one given
pass_01     [["It was so.", "He left."], 2]             2 paragraphs, with these last sentences,
                                                        and of 2 sentences or more each
==========  ==========================================  ===================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from disciple_ext.errors import EvaluationError
from disciple_ext.evaluation.suites.base import Instance
from disciple_ext.evaluation.suites.punkt import Splitter, default_splitter
from disciple_ext.text import units

__all__ = [
    *("ALL_TASKS", "TASKS", "TOKENIZER", "WORD_TASKS", "load_instances", "prescribed_words"),
    "verify",
]

TOKENIZER = "nltk-3.8-rules"
"""The name of the word rules, for evaluation logs."""

_FILE = "wiki.jsonl"
_HOW_TO_GET = (
    f"Set DISCIPLE_COLLIE to a directory that holds {_FILE}, or to such a file: one JSON object a "
    "line with id, task (sent_01 ... para_05), corpus, prompt, targets and example. The data is "
    "COLLIE-v1 (data/all_data.dill of github.com/princeton-nlp/Collie); 'disciple eval "
    "convert all_data.dill OUT' makes such files of it, and runs nothing that is in it."
)


class _Text:
    """A text and its units, cut as the official checker does."""

    def __init__(self, text: str, splitter: Splitter) -> None:
        self.text = text
        self._cut = splitter.cut
        # The checker takes outer dots off each unit before it cuts it further.
        self.sentences = [s.strip().strip(".") for s in self._cut(text)]

    def words(self, part: str) -> list[str]:
        return [word for s in self._cut(part) for word in units.words(s)]

    @property
    def characters(self) -> list[str]:
        return [char.strip().strip(".") for char in self.text]

    @property
    def sentences_by_paragraph(self) -> list[list[str]]:
        paragraphs = [p.strip().strip(".") for p in self.text.split("\n\n")]
        return [[s.strip().strip(".") for s in self._cut(p)] for p in paragraphs]

    @property
    def all_words(self) -> list[str]:
        return self.words(self.text)

    @property
    def words_by_sentence(self) -> list[list[str]]:
        return [self.words(sentence) for sentence in self.sentences]


def _has(words: list[str], target: str) -> bool:
    return any(units.same_word(word, target) for word in words)


def _sent_01(text: _Text, targets: Any) -> bool:
    return bool(len(text.text) == targets)


def _sent_02(text: _Text, targets: Any) -> bool:
    (count, wanted), words = targets, text.all_words
    placed = [words[i] if i < len(words) else None for i in (3, 7, 10)]
    return len(words) == count and _same_words(placed, wanted)


def _sent_03(text: _Text, targets: Any) -> bool:
    (least, longest), words = targets, text.all_words
    return len(words) >= least and all(len(word) <= longest for word in words)


def _sent_04(text: _Text, targets: Any) -> bool:
    words = text.all_words
    wanted = [targets] if isinstance(targets, str) else targets
    return all(_has(words, target) for target in wanted)


def _para_01(text: _Text, targets: Any) -> bool:
    first = [words[0] if words else None for words in text.words_by_sentence]
    return _same_words(first, [targets] * len(first))


def _para_02(text: _Text, targets: Any) -> bool:
    (count, *banned), words = targets, text.all_words
    return len(text.sentences) == count and not any(_has(words, word) for word in banned)


def _para_03(text: _Text, targets: Any) -> bool:
    (count, least, most), parts = targets, text.words_by_sentence
    return len(parts) == count and all(least <= len(words) <= most for words in parts)


def _para_04(text: _Text, targets: Any) -> bool:
    (count, least), parts = targets, text.words_by_sentence
    return len(parts) >= count and all(len(words) >= least for words in parts)


def _para_05(text: _Text, targets: Any) -> bool:
    count, wanted = targets
    last = [words[-1] if words else None for words in text.words_by_sentence]
    return len(text.sentences) == count and _same_words(last, wanted)


def _word_01(text: _Text, targets: Any) -> bool:
    return bool(len(text.text) >= targets)


def _word_02(text: _Text, targets: Any) -> bool:
    (count, wanted), chars = targets, text.characters
    placed = [chars[i] if i < len(chars) else None for i in (3, 7, 10)]
    return len(chars) == count and _same_words(placed, wanted)


def _word_03(text: _Text, targets: Any) -> bool:
    (count, last), chars = targets, text.characters
    return len(chars) == count and _same_words(chars[-1:], [last])


def _pass_01(text: _Text, targets: Any) -> bool:
    (wanted, least), parts = targets, text.sentences_by_paragraph
    last = [part[-1] if part else None for part in parts]
    return _same_words(last, wanted) and all(len(part) >= least for part in parts)


def _same_words(words: Sequence[str | None], wanted: Sequence[str]) -> bool:
    """Whether two lists hold the same words; lists of unequal length never do."""
    return len(words) == len(wanted) and all(
        word is not None and units.same_word(word, target)
        for word, target in zip(words, wanted, strict=True)
    )


_CHECKS: dict[str, Callable[[_Text, Any], bool]] = {
    "sent_01": _sent_01,
    "sent_02": _sent_02,
    "sent_03": _sent_03,
    "sent_04": _sent_04,
    "para_01": _para_01,
    "para_02": _para_02,
    "para_03": _para_03,
    "para_04": _para_04,
    "para_05": _para_05,
}

TASKS = tuple(_CHECKS)
"""The nine task types of the paper, in its order."""

WORD_TASKS = ("word_01", "word_02", "word_03")
"""COLLIE's c01 to c03, on words."""

_CHECKS.update(word_01=_word_01, word_02=_word_02, word_03=_word_03, pass_01=_pass_01)
ALL_TASKS = tuple(_CHECKS)
"""The nine of the paper, those on words, and COLLIE's c14, on passages."""


def verify(task: str, targets: Any, text: str, *, splitter: Splitter | None = None) -> bool:
    """Tell whether a text meets a COLLIE constraint, as the official checker does.

    Args:
        task: one of `ALL_TASKS`.
        targets: the instance's targets, in the form of the module's table.
        text: the whole text; nothing is trimmed.
        splitter: how to find sentences; by default trained Punkt where its parameters are found.

    Returns:
        True if the text passes.

    Raises:
        EvaluationError: an unknown task, or targets of another form.
    """
    if task not in _CHECKS:
        raise EvaluationError(f"Unknown COLLIE task {task!r}. Choose from: {', '.join(_CHECKS)}.")
    try:
        return _CHECKS[task](_Text(text, splitter or default_splitter()), targets)
    except (TypeError, ValueError) as error:
        raise EvaluationError(
            f"Targets {targets!r} do not have the form of {task} ({error}). "
            "The documentation of disciple_ext.evaluation.suites.collie shows each form."
        ) from error


def prescribed_words(task: str, targets: Any) -> tuple[str, ...]:
    """The words that a COLLIE task demands (not those that it forbids)."""
    if task == "sent_04":
        return (targets,) if isinstance(targets, str) else tuple(targets)
    if task in ("sent_02", "para_05"):
        return tuple(targets[1])
    return (targets,) if task == "para_01" else ()


def load_instances(path: str | Path | None = None) -> list[Instance]:
    """Read COLLIE instances.

    Args:
        path: a ``.jsonl`` file or a directory with ``wiki.jsonl``; by default the value of
            ``DISCIPLE_COLLIE``.

    Returns:
        The instances in the order of the file.

    Raises:
        EvaluationError: the data is absent (the message says how to get it) or malformed.
    """
    place = path if path is not None else os.environ.get("DISCIPLE_COLLIE", "")
    if not str(place):
        raise EvaluationError(f"No COLLIE data is configured. {_HOW_TO_GET}")
    file = Path(place) / _FILE if Path(place).is_dir() else Path(place)
    try:
        lines = file.read_text("utf-8").split("\n")
    except FileNotFoundError as error:
        raise EvaluationError(f"There is no COLLIE data at {file}. {_HOW_TO_GET}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"The COLLIE data at {file} cannot be read: {error}.") from error
    return [_instance(line, f"{file}:{n}") for n, line in enumerate(lines, 1) if line.strip()]


def _instance(line: str, where: str) -> Instance:
    try:
        row = json.loads(line)
        instance = Instance(**{name: row[name] for name in Instance.__dataclass_fields__})
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(
            f"{where} is not a COLLIE instance ({error}). {_HOW_TO_GET}"
        ) from error
    if instance.task not in _CHECKS:
        raise EvaluationError(
            f"{where} has the unknown task {instance.task!r}. Choose from: {', '.join(_CHECKS)}."
        )
    return instance
