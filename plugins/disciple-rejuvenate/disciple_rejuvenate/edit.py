"""Iterative editing: texts are written, then spans of them anew, and what follows is rescored."""

from __future__ import annotations

import math
from statistics import fmean

from disciple_ext import UsageError
from disciple_ext.samplers.base import Kind, Population, Run

from .options import whole
from .texts import Text, Writer, begin_edit, finish, step, tokens

__all__ = ["EditSampler"]


class EditSampler:
    """Edits texts that fail ``check()`` until they pass, then all of them, to make them likelier.

    A share of n texts is written to the end. An edit draws a few steps of a text anew, wherever
    they are, and keeps the draws after them as far as the program allows; it takes the text's
    place if it ranks higher: by ``check()``, then by the target's log density per token. All edits
    of a round are made together. In all it takes the follower tokens of n whole texts.

    Attributes:
        drafts: share of n that is written at the beginning; the tokens of the rest are for edits.
        span: the most steps that an edit draws anew.
        rounds: rounds of edits at most, or None for as many as the tokens allow.
    """

    name = "edit"
    kind: Kind = "search"

    def __init__(self, drafts: float = 0.25, span: int = 3, rounds: int | None = None) -> None:
        if not 0.0 < drafts <= 1.0:
            raise UsageError(f"drafts must be above 0 and at most 1, not {drafts!r}")
        self.drafts = drafts
        self.span = whole("span", span, 1)
        self.rounds = None if rounds is None else whole("rounds", rounds, 0)

    async def __call__(self, run: Run, n: int) -> Population:
        """Write and edit for as long as ``n`` whole texts would take."""
        writers = [Writer(p) for p in await run.spawn(max(1, round(self.drafts * n)))]
        spent = await _write(run, writers, math.inf)
        texts = [await finish(run, writer) for writer in writers]
        rounds = math.inf if self.rounds is None else self.rounds
        while (left := n * _whole(texts) - spent) > 0 and rounds > 0 and not run.out_of_time:
            chosen = _chosen(run, texts, math.ceil(left / _whole(texts)))
            if not chosen:  # they finished before their first step
                break
            edits = [begin_edit(texts[i], self.span, run.rng) for i in chosen]
            spent += await _write(run, edits, left)
            for i, edit in zip(chosen, edits, strict=True):
                if edit.particle.done_stepping():
                    text = await finish(run, edit)
                    if text.rank > texts[i].rank:
                        texts[i] = text
            rounds -= 1
        return _population(run, texts)


async def _write(run: Run, writers: list[Writer], left: float) -> int:
    """Go on until all have finished, or the tokens are spent; returns those that were."""
    spent = 0
    while spent < left:
        going = [writer for writer in writers if not writer.particle.done_stepping()]
        if not going:
            break
        spent += await step(run, going)
    return spent


def _whole(texts: list[Text]) -> float:
    """Tokens of a whole text: the mean over those alive, or the longest attempt where none is."""
    costs = [max(1, tokens(text.particle), len(text.taken)) for text in texts]
    living = [cost for cost, text in zip(costs, texts, strict=True) if text.alive]
    return fmean(living) if living else max(costs)


def _chosen(run: Run, texts: list[Text], most: int) -> list[int]:
    """Indices of texts to edit, as many as there are texts but ``most``; some more than once.

    They are the better half of those that fail or, where none does, of all.
    """
    pool = [i for i, text in enumerate(texts) if text.taken]
    pool = [i for i in pool if not texts[i].passes] or pool
    run.rng.shuffle(pool)  # for ties
    pool.sort(key=lambda i: texts[i].rank, reverse=True)
    pool = pool[: (len(pool) + 1) // 2]
    return [pool[k % len(pool)] for k in range(min(most, len(texts)) if pool else 0)]


def _population(run: Run, texts: list[Text]) -> Population:
    """Each text once, the best first, weighted by the target's density; then the dead.

    Where one passed ``check()``, those that failed it are rejected: the search went by the verdict.
    """
    ranked = sorted(texts, key=lambda text: text.rank, reverse=True)
    best: dict[str, Text] = {}
    for text in ranked:
        if text.alive:
            best.setdefault(str(text.particle), text)
    dead = [text.particle for text in ranked if not text.alive]
    answered = any(text.passes for text in best.values())
    for text in best.values():
        if answered and not text.passes:
            run.reject(text.particle, "check() rejected the text")
        else:
            text.particle.weight = text.log_density
    return Population((*(text.particle for text in best.values()), *dead), None)
