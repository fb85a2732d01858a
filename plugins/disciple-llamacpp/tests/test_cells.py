"""The book of sequences, against a memory that does what llama.cpp's does."""

from __future__ import annotations

import random

import pytest
from disciple_llamacpp.cells import Cells

from disciple_ext.protocol.prefix import Prefix


class Memory:
    """Sequences as lists of cells, as the library has them: (cell, token) in order."""

    def __init__(self) -> None:
        self.sequences: dict[int, list[tuple[int, int]]] = {}
        self.made = 0

    def copy(self, source: int, target: int, length: int) -> None:
        assert not self.sequences.get(target), "llama.cpp would mix the two texts"
        assert len(self.sequences[source]) >= length
        self.sequences[target] = self.sequences[source][:length]

    def drop(self, sequence: int, length: int) -> None:
        del self.sequences[sequence][length:]

    def evaluate(self, token: int, sequences: list[int]) -> None:
        for sequence in sequences:
            self.sequences.setdefault(sequence, []).append((self.made, token))
        self.made += 1

    @property
    def used(self) -> int:
        return len({cell for path in self.sequences.values() for cell in path})


def add(cells: Cells, memory: Memory, context: Prefix, keep: set[int]) -> int | None:
    """Evaluate one context; its sequence."""
    known = cells.known(context)
    sequence = cells.begin(known, keep)
    if sequence is None or not cells.make_room(context.length - known.length, {*keep, sequence}):
        return None
    node = known
    for token in context.after(known):
        node = node.then(token)
        memory.evaluate(token, [sequence])
        cells.add(node, [sequence])
    return sequence


def held(memory: Memory, sequence: int) -> tuple[int, ...]:
    return tuple(token for _, token in memory.sequences[sequence])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("limit", "sequences"), [(400, 8), (30, 8), (400, 2), (24, 1)])
def test_a_population_that_grows_and_is_resampled(limit: int, sequences: int, seed: int) -> None:
    generator = random.Random(seed)
    memory = Memory()
    cells = Cells(limit, sequences, memory.copy, memory.drop)
    texts = [Prefix.of(generator.choices(range(9), k=5))] * 6
    for _ in range(18):
        texts = [t.then(generator.randrange(9)) for t in generator.choices(texts, k=len(texts))]
        if generator.random() < 0.2:
            texts[0] = Prefix.of(generator.choices(range(9), k=4))
        keep: set[int] = set()
        for text in dict.fromkeys(texts):
            sequence = add(cells, memory, text, keep)
            if sequence is None:  # as the backend does: what does not fit is a batch of its own
                keep = set()
                sequence = add(cells, memory, text, keep)
            assert sequence is not None
            keep.add(sequence)
            assert held(memory, sequence) == text.tokens
            assert cells.used == memory.used <= limit
            assert {s: [c.node.token for c in path] for s, path in cells.paths.items()} == {
                s: list(held(memory, s)) for s in cells.paths
            }


def test_clones_cost_no_cells_and_the_last_of_them_costs_no_copy() -> None:
    memory = Memory()
    cells = Cells(64, 8, memory.copy, memory.drop)
    prompt = Prefix.of(range(10))
    first = add(cells, memory, prompt, set())
    assert add(cells, memory, prompt.then(3), set()) == first  # it goes on where it is
    others = {add(cells, memory, prompt.then(token), set()) for token in (4, 5, 6)}
    assert len(others | {first}) == 4
    assert cells.used == 10 + 4


def test_nothing_is_forgotten_that_is_to_be_kept() -> None:
    memory = Memory()
    cells = Cells(64, 2, memory.copy, memory.drop)
    keep = {add(cells, memory, Prefix.of(tokens), set()) for tokens in ((1, 2), (3, 4))}
    assert None not in keep
    assert cells.begin(Prefix.ROOT, {s for s in keep if s is not None}) is None
    assert not cells.make_room(61, {s for s in keep if s is not None})
    assert cells.make_room(61, set()) and cells.used <= 3


def test_a_token_evaluated_twice_is_two_cells() -> None:
    memory = Memory()
    cells = Cells(64, 4, memory.copy, memory.drop)
    text = Prefix.of((1, 2, 3))
    add(cells, memory, text, set())
    add(cells, memory, text, set())  # its logits are wanted again
    assert cells.used == memory.used == 4
    assert cells.known(text.then(9)) is text
