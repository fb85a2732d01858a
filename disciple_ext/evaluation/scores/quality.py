"""How fluent the answers of a log are, beside unconstrained samples of the same follower.

Two measures, both of a text without the words that its task prescribes (every occurrence of them;
the text is not to be blamed or praised for these):

- nats per token: the mean log-probability of the text's tokens under the suite's prior prompt
  ("Write a sentence."), in the tokenizer's own segmentation, end of text left out;
- real words: the share of its words that a word list has.

They are averaged like Pass@1: over an instance's samples by weight, over instances, over task
types. The unconstrained samples are drawn under the same prior prompts, as many for each instance
as it has samples, and measured by the same functions.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from ...loop.steer import arun_program
from ...protocol.follower import Follower
from ...records.task import Limits, Task
from ...registry.plugins import load_plugins
from ..logs.log import Row, Sample, read_log, read_run
from ..logs.provenance import weights_hash
from ..methods.baselines import sample_program
from ..methods.scoring import score_texts
from ..suites.base import Budget, Suite
from .answers import drawn_answer
from .metrics import markdown, mean_by_task, sample_weights
from .word_list import Spans, WordList, outside

__all__ = ["Quality", "drawn_answer", "measure", "unselected"]

SHOWN = 20
_ROOM = 4
"""An unconstrained text may be so many times as long as one of the follower alone."""
_AT_ONCE = 128


@dataclass(frozen=True)
class Quality:
    """Fluency of answers and of unconstrained samples.

    Attributes:
        method: whose answers.
        nats: mean log-probability per token, ``answers`` and ``samples``, by task and level.
        words: share of words that the list has, likewise.
        shown: (instance, answer) pairs, unselected.
        sampled: unconstrained texts, as many, likewise from evenly spaced places.
    """

    method: str
    nats: dict[str, dict[str, float]]
    words: dict[str, dict[str, float]]
    shown: tuple[tuple[str, str], ...]
    sampled: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The measures and texts as JSON-safe data."""
        return {
            "method": self.method,
            "nats_per_token": self.nats,
            "real_words": self.words,
            "answers": [{"id": name, "text": text} for name, text in self.shown],
            "samples": list(self.sampled),
        }

    def report(self) -> str:
        """Markdown: the table, and the texts."""
        kinds = ("answers", "samples")
        body = []
        for task in self.nats["answers"]:
            nats = [self.nats[k].get(task, math.nan) for k in kinds]
            words = [self.words[k].get(task, math.nan) for k in kinds]
            cells = [f"{x:.2f}" for x in (*nats, nats[0] - nats[1])]
            body.append([task, *cells, *(f"{100 * x:.1f}%" for x in words)])
        head = ["task", f"nats/token, {self.method}", "unconstrained", "difference"]
        table = markdown([*head, f"real words, {self.method}", "unconstrained"], body)
        answers = "\n".join(f"- `{name}`: {_line(text)}" for name, text in self.shown)
        samples = "\n".join(f"- {_line(text)}" for text in self.sampled)
        return (
            f"{table}\n\n{len(self.shown)} answers, unselected (the answers of evenly spaced "
            f"instances):\n\n{answers}\n\nUnconstrained samples, for comparison:\n\n{samples}"
        )


def _line(text: str) -> str:
    return text.replace("\n", " / ")


def unselected(rows: Sequence[Row], count: int = SHOWN) -> tuple[tuple[str, str], ...]:
    """Answers of evenly spaced instances (in the log's order by id), nothing left out by eye."""
    answered = [(row.id, text) for row in _in_order(rows) if (text := drawn_answer(row))]
    return tuple(_spaced(answered, count))


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (not row.task.startswith("sent"), row.id))


def _spaced(things: Sequence[Any], count: int) -> list[Any]:
    count = min(count, len(things))
    return [things[i * len(things) // count] for i in range(count)]


def measure(
    directory: str | Path,
    *,
    method: str = "smc",
    words: str | Path | None = None,
    data: str | Path | None = None,
    follower: Any = None,
    suite: Suite | None = None,
) -> Quality:
    """Measure the answers of a log; the log's follower is loaded again for it.

    Args:
        directory: the log's.
        method: whose answers.
        words: a word list; a usual place of the system's where it is None.
        data: the suite's instances, for the words that they prescribe; where the suite finds
            them itself if None.
        follower: a loaded follower, or None for the one that the log names.
        suite: the log's suite, or None for the registered one that the log names.

    Raises:
        UsageError: there is no word list.
        EvaluationError: the log has no answer of the method, or its follower has changed.
    """
    known = WordList.read(words)
    rows = [row for row in read_log(directory) if row.method == method]
    rows = _in_order({row.id: row for row in rows if row.error is None}.values())
    if not any(sample_weights([s.log_weight for s in row.samples]) for row in rows):
        raise EvaluationError(f"the log in {directory} has no answer of the method {method!r}")
    suite = suite or _same_suite(directory)
    instances = {i.id: i for i in suite.instances(data)}
    # Before the follower is loaded: what cannot be measured should be said at once.
    missing = [row.id for row in rows if row.id not in instances or row.task not in suite.budgets]
    if missing:
        raise EvaluationError(f"the data has no instance {missing[0]!r} of the log")
    follower = follower or _same_follower(directory)
    answers = {row.id: list(row.samples) for row in rows}
    free = asyncio.run(_unconstrained(follower, rows, suite.budgets))
    banned = {row.id: suite.prescribed(instances[row.id]) for row in rows}
    none: dict[str, Sequence[str]] = {row.id: () for row in rows}
    # Free samples owe no words to their task, so nothing of them is left out.
    nats, share = {}, {}
    for kind, texts, left_out in (("answers", answers, banned), ("samples", free, none)):
        found = _means(follower, rows, suite.budgets, texts, left_out, known)
        nats[kind], share[kind] = asyncio.run(found)
    sampled = _spaced([samples[0].text for samples in free.values()], SHOWN)
    return Quality(method, nats, share, unselected(rows), tuple(sampled))


def _same_suite(directory: str | Path) -> Suite:
    name = (read_run(directory) or {}).get("suite", "collie")
    made: Suite = load_plugins().make("suites", name)
    return made


def _same_follower(directory: str | Path) -> Any:
    about = read_run(directory) or {}
    follower = load_plugins().make("followers", about.get("follower", "embedded"))
    if about.get("weights") not in (None, weights_hash(follower)):
        raise EvaluationError(
            f"the follower {follower.name!r} has other weights than when the log in {directory} "
            "was made; its texts would be measured by another model"
        )
    return follower


async def _unconstrained(
    follower: Any, rows: Sequence[Row], budgets: Mapping[str, Budget]
) -> dict[str, list[Sample]]:
    """Free samples for each instance, as many as it has answers."""
    registry = load_plugins()
    found: dict[str, list[Sample]] = {}
    for prompt, tokens in dict.fromkeys((b.prior_prompt, b.tokens) for b in budgets.values()):
        own = [r for r in rows if _kind(budgets[r.task]) == (prompt, tokens)]
        wanted = sum(len(row.samples) for row in own)
        program = sample_program(prompt, _ROOM * tokens)
        texts: list[Sample] = []
        while len(texts) < wanted:
            size = min(_AT_ONCE, wanted - len(texts))
            task = Task(prompt, n=size, limits=Limits(timeout=3600))
            result = await arun_program(
                program, task, follower=follower, sampler="is", seed=len(texts), registry=registry
            )
            texts += [_free(p.text.strip(), p.finish_reason, p.tokens) for p in result.particles]
        for row in own:
            found[row.id] = [texts.pop() for _ in row.samples]
    return found


def _kind(budget: Budget) -> tuple[str, int]:
    return budget.prior_prompt, budget.tokens


def _free(text: str, finish_reason: str, tokens: int) -> Sample:
    return Sample(text, None, None, False, finish_reason, tokens, None)


async def _means(
    follower: Follower,
    rows: Sequence[Row],
    budgets: Mapping[str, Budget],
    texts: Mapping[str, Sequence[Sample]],
    left_out: Mapping[str, Sequence[str]],
    known: WordList,
) -> tuple[dict[str, float], dict[str, float]]:
    """Nats per token and share of real words, by task and level."""
    weighted = [
        (row, weight, sample.text)
        for row in rows
        for weight, sample in zip(
            sample_weights([s.log_weight for s in texts[row.id]]), texts[row.id], strict=True
        )
        if weight > 0
    ]
    pairs = [(budgets[row.task].prior_prompt, text) for row, _, text in weighted]
    scored = await score_texts(follower, pairs)
    nats: dict[str, list[tuple[float, float]]] = {}
    share: dict[str, list[tuple[float, float]]] = {}
    for (row, weight, text), tokens in zip(weighted, scored, strict=True):
        spans = Spans.of(text, left_out[row.id])
        logs = [token.log_prob for token in outside(spans, tokens)]
        if logs:
            nats.setdefault(row.id, []).append((weight, math.fsum(logs) / len(logs)))
        found = known.share(text, spans)
        if found is not None:
            share.setdefault(row.id, []).append((weight, found))
    tasks = {row.id: row.task for row in rows}
    return _averaged(nats, tasks), _averaged(share, tasks)


def _averaged(
    values: Mapping[str, Sequence[tuple[float, float]]], tasks: Mapping[str, str]
) -> dict[str, float]:
    pairs = []
    for name, weighted in values.items():
        total = math.fsum(weight for weight, _ in weighted)
        mean = math.fsum(weight * value for weight, value in weighted) / total
        pairs.append((tasks[name], mean))
    return mean_by_task(pairs)
