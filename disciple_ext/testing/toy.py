"""Small language models whose every probability is known."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..follower.backend import Backend
from ..follower.host import HostFollower
from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens
from ..protocol.vocabulary import Vocabulary

__all__ = ["Piece", "Pieces", "ScriptedFollower", "ToyFollower", "Weights"]

Piece = str | bytes
Pieces = tuple[Piece, ...]
Weights = Mapping[Piece, float] | Sequence[float] | NDArray[np.float64]
Distribution = Callable[[str, Pieces], Weights]
Floats = NDArray[np.float64]


class ToyFollower(HostFollower):
    """A language model over a handful of tokens, given as a function.

    The ids are: the tokens in the order given, then ``eos`` end-of-text ids, then ``special``
    special ids, then one marker of which prompts are made.

    Attributes:
        pieces: what each id is to the distribution (``"<eos0>"`` and so on for the others).
    """

    def __init__(
        self,
        distribution: Distribution | Mapping[str, Callable[[Pieces], Weights]],
        tokens: Iterable[Piece] = ("a", "b", "c"),
        *,
        eos: int = 2,
        special: int = 1,
        name: str = "toy",
    ) -> None:
        """Make a model.

        Args:
            distribution: (prompt, tokens so far) to the weights of the next token, or for each
                prompt such a function of the tokens. With a hint, the prompt ends with
                a line break and the hint. Weights are a mapping from token (``""`` for the end of
                text, shared by its ids) or an array over all ids but the marker; they need not
                sum to 1.
            tokens: the text tokens; ``bytes`` where one is not whole code points.
            eos: number of end-of-text ids.
            special: number of other special ids.
            name: name for results.
        """
        texts = tuple(tokens)
        rest = [f"<eos{i}>" for i in range(eos)] + [f"<special{i}>" for i in range(special)]
        self.pieces: Pieces = (*texts, *rest, "<prompt>")
        self._distribute = distribution
        self._asked: list[str] = []
        self._table: dict[Prefix, Floats] = {}
        n = len(texts)
        vocabulary = Vocabulary(
            [p.encode() if isinstance(p, str) else p for p in self.pieces],
            eos=range(n, n + eos),
            special=range(n, len(self.pieces)),
            encode=_encoder(texts),
        )
        super().__init__(_ToyBackend(self), vocabulary, self._prompt_ids, name=name)

    @classmethod
    def random(
        cls, seed: int, tokens: Iterable[Piece] = ("a", "b", "c"), **options: Any
    ) -> ToyFollower:
        """A model with random distributions, another one after each prompt, hint and text."""

        def distribution(prompt: str, text: Pieces) -> Floats:
            key = hashlib.blake2b(repr((seed, prompt, text)).encode(), digest_size=8).digest()
            rng = np.random.default_rng(int.from_bytes(key))
            return np.asarray(rng.gamma(1.0, size=len(toy.pieces) - 1) + 0.05)

        toy = cls(distribution, tokens, **options)
        return toy

    def probabilities(self, prompt: str, text: Iterable[Piece] = (), hint: str = "") -> Floats:
        """Probability of every id after a prompt and text tokens, shape (vocabulary,)."""
        ids = tuple(self.pieces.index(piece) for piece in text)
        return self._row_of(Prefix.of((*self.prompt(prompt, hint), *ids)))

    def _prompt_ids(self, user: str, hint: str) -> Tokens:
        # A prompt is a number of markers, so that its words need no tokens of the toy's.
        text = f"{user}\n{hint}" if hint else user
        if text not in self._asked:
            self._asked.append(text)
        return (len(self.pieces) - 1,) * (self._asked.index(text) + 1)

    def _row_of(self, context: Prefix) -> Floats:
        found = self._table.get(context)
        if found is None:
            marker, ids = len(self.pieces) - 1, context.tokens
            begin = next((i for i, t in enumerate(ids) if t != marker), len(ids))
            prompt = self._asked[begin - 1]
            text = tuple(self.pieces[t] for t in ids[begin:])
            if isinstance(self._distribute, Mapping):
                weights = self._distribute[prompt](text)
            else:
                weights = self._distribute(prompt, text)
            found = self._table[context] = self._normal(weights)
        return found

    def _normal(self, weights: Weights) -> Floats:
        row = np.zeros(len(self.pieces))
        if isinstance(weights, Mapping):
            ends = sorted(self.vocabulary.eos)
            for piece, weight in weights.items():
                if piece == "":
                    row[ends] = weight / len(ends)
                else:
                    row[self.pieces.index(piece)] = weight
        else:
            row[:-1] = weights
        return np.asarray(row / row.sum())


class _ToyBackend(Backend):
    max_context: int | None = None

    def __init__(self, toy: ToyFollower) -> None:
        self.toy = toy
        self.forwards = 0

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        self.forwards += 1
        with np.errstate(divide="ignore"):
            rows = np.log(np.stack([self.toy._row_of(c) for c in contexts]))
        return torch.from_numpy(rows).float()

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        return [
            await self.logits([context.extend(tokens[:i]) for i in range(len(tokens))])
            for context, tokens in pairs
        ]


class ScriptedFollower(ToyFollower):
    """A model that wants to write a given text and then to end.

    Nearly all of the mass is on the script's next token, and the rest is even; off the script it
    is even throughout. Its tokens are words with the space before them, and single characters,
    so that a mask may lead away from the script.
    """

    def __init__(
        self, script: str, *, words: bool = True, other: float = 1e-6, name: str = "scripted"
    ) -> None:
        """Make a model.

        Args:
            script: the text.
            words: False for single characters only.
            other: mass of everything that is not the script's next token.
            name: name for results.
        """
        pieces = re.findall(r" ?[A-Za-z]+|.", script, re.DOTALL) if words else list(script)
        alphabet = sorted(set(script) | set(" .!?,"))
        tokens: list[Piece] = list(dict.fromkeys([*pieces, *alphabet]))
        begun = itertools.accumulate(pieces, initial="")
        after = dict(zip(begun, [*pieces, "<eos0>"], strict=True))

        def distribution(prompt: str, text: Pieces) -> Weights:
            row = np.full(len(self.pieces) - 1, other / (len(self.pieces) - 1))
            wanted = after.get("".join(str(t) for t in text))
            if wanted is not None:
                row[self.pieces.index(wanted)] += 1.0 - other
            return row

        super().__init__(distribution, tokens, eos=1, special=0, name=name)


def _encoder(tokens: Pieces) -> Callable[[str], list[int]]:
    data = [t.encode() if isinstance(t, str) else t for t in tokens]
    longest_first = sorted(range(len(data)), key=lambda i: -len(data[i]))

    def encode(text: str) -> list[int]:
        rest, ids = text.encode(), []
        while rest:
            i = next((i for i in longest_first if rest.startswith(data[i])), None)
            if i is None:
                raise ValueError(f"the toy has no token for the beginning of {rest!r}")
            ids.append(i)
            rest = rest[len(data[i]) :]
        return ids

    return encode
