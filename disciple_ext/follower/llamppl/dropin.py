"""A follower as the ``lm`` that existing LLaMPPL programs take.

It stands where LLaMPPL's ``CachedCausalLM`` stood, and says what that class documents. Queries that
wait together are one forward, whole contexts are what is cached, and arrays are the caller's own.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from genlm.backend.tokenization import Token as ByteToken
from genlm.backend.tokenization import decode_vocab
from llamppl import llms
from numpy.typing import NDArray

from ...model.distributions import renormalise
from ...protocol.follower import Follower
from ...protocol.prefix import Prefix
from ...protocol.requests import LogProbs
from ...protocol.vocabulary import Vocabulary
from .. import from_loaded
from ..host import HostFollower
from .token_sets import Masks

__all__ = ["FollowerLM", "PlainTokenizer", "TokenSequence"]

_RECENT = 1024
"""Contexts kept alive, so that the next query finds what the follower has computed for them."""


class FollowerLM(llms.CachedCausalLM):  # type: ignore[misc]  # llamppl ships no types
    """A follower as LLaMPPL's ``lm``: programs take it in place of a ``CachedCausalLM``.

    ``LMContext`` with it has the same distribution as with the original. The vocabulary stays in
    Python sets and the draws in numpy, though: for full speed change one import, to
    ``from disciple_ext import FollowerContext as LMContext``.

    Attributes:
        follower: the model; ``model`` is another name of it.
        tokenizer: the follower's Hugging Face tokenizer, or a :class:`PlainTokenizer`.
        str_vocab: text of each token id.
        byte_vocab: bytes of each token id.
        masks: LLaMPPL's masks over this vocabulary. As there, a special token has length 0, and
            ``EOS`` holds one id only.
        batch_size: accepted and not needed: whatever waits together is one batch.
        backend: ``"follower"``.
    """

    def __init__(self, follower: Any, tokenizer: Any = None) -> None:
        """Wrap a follower.

        Args:
            follower: a :class:`Follower`, or a loaded genlm-backend ``AsyncLM``.
            tokenizer: a Hugging Face tokenizer; the follower's own where it is None.

        Raises:
            UsageError: ``follower`` is no follower.
        """
        self.follower: Follower = from_loaded(follower)
        self.model = self.follower
        self.backend = "follower"
        self.batch_size = 20
        vocabulary = self.follower.vocabulary
        if tokenizer is None:
            own = getattr(self.follower, "_prompt", None)
            tokenizer = getattr(own, "tokenizer", None) or PlainTokenizer(self.follower)
        self.tokenizer = tokenizer
        if isinstance(tokenizer, PlainTokenizer):
            texts = [tokenizer.convert_ids_to_tokens(i) for i in range(vocabulary.size)]
            data = [ByteToken(i, tokenizer.data(i)) for i in range(vocabulary.size)]
        else:
            data, texts = decode_vocab(tokenizer)
        self.byte_vocab: list[bytes] = data[: vocabulary.size]
        self.str_vocab: list[str] = texts[: vocabulary.size]
        self.masks = Masks(self, vocabulary.size)
        self._recent: deque[Prefix] = deque(maxlen=_RECENT)
        self._held: set[Prefix] = set()
        self._alone = _twin(self.follower)

    @classmethod
    def from_pretrained(
        cls, model_id: str = "embedded", *, device: str | None = None
    ) -> FollowerLM:
        """Load a model.

        Args:
            model_id: ``"embedded"`` (the model in the package), or a directory or name of a
                Hugging Face causal LM.
            device: torch device; CUDA where there is one, else the CPU.

        Raises:
            FollowerError: there is no such model, or it cannot be loaded.
        """
        from .. import hf

        if model_id == "embedded":
            return cls(hf.embedded())
        return cls(hf.from_pretrained(model_id.removeprefix("hf:"), device=device))

    @property
    def vocab(self) -> list[str]:
        """``str_vocab``, deprecated as in LLaMPPL."""
        warnings.warn("use .str_vocab or .byte_vocab", DeprecationWarning, stacklevel=2)
        return self.str_vocab

    async def next_token_logprobs(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """The next-token distribution; queries that wait together are one forward.

        Args:
            token_ids: the whole context, at least one id.

        Returns:
            Natural logs, shape (model's vocabulary,). Ids that the tokenizer lacks are -inf, and
            the others sum to 1. The array is the caller's own.

        Raises:
            FollowerError: the model has no such ids, or the context is too long.
        """
        return self._own(await self.follower.ask(self._request(token_ids)))

    def next_token_logprobs_unbatched(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """The same, in a forward of its own; it also works inside a running event loop."""
        request = self._request(token_ids)
        # Another thread, since a running loop cannot be entered twice.
        with ThreadPoolExecutor(1) as pool:
            return self._own(pool.submit(asyncio.run, self._alone.ask(request)).result())

    def cache_kv(self, prompt_tokens: Sequence[int]) -> None:
        """Keep a prompt's place until the cache is cleared; every prefix is cached anyway."""
        self._held.add(Prefix.of(prompt_tokens))

    def clear_kv_cache(self) -> None:
        """Let go of the prompts of ``cache_kv``; the follower's memory is bounded by itself."""
        self._held.clear()

    def clear_cache(self) -> None:
        """Let go of all contexts; the follower's memory is bounded by itself."""
        self._held.clear()
        self._recent.clear()

    def reset_async_queries(self) -> None:
        """Do nothing: a query whose caller is gone is dropped by itself."""

    # Particles are copied deeply, and all of them share the model.
    def __deepcopy__(self, memo: object) -> FollowerLM:
        return self

    def _request(self, token_ids: Iterable[int]) -> LogProbs:
        context = Prefix.of(token_ids)
        self._recent.append(context)
        return LogProbs(context)

    def _own(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        own = np.array(vector, dtype=np.float32)
        return renormalise(own, self.follower.vocabulary.exists)


class TokenSequence(llms.TokenSequence):  # type: ignore[misc]
    """LLaMPPL's ``TokenSequence`` with a list of its own, so that ``a + b`` leaves ``a`` alone."""

    def __init__(self, lm: Any, seq: Any = None) -> None:
        """Make a sequence.

        Args:
            lm: the language model.
            seq: ids, a text, or None for the beginning of a text.
        """
        super().__init__(lm, seq if seq is None or isinstance(seq, str) else list(seq))

    def __add__(self, other: Any) -> TokenSequence:
        total: TokenSequence = TokenSequence(self.lm, self.seq)
        total.__iadd__(other)
        return total


class PlainTokenizer:
    """What LLaMPPL asks of a tokenizer, for a follower that has none of Hugging Face's.

    A whole prompt is encoded in the follower's prompt format.
    """

    bos_token_id: int | None = None

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._vocabulary: Vocabulary = follower.vocabulary
        self.vocab_size = self._vocabulary.size
        self.all_special_ids = sorted(self._vocabulary.special)
        self.eos_token_id = min(self._vocabulary.eos)
        self.eos_token = self.convert_ids_to_tokens(self.eos_token_id)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids: of a prompt, or with ``add_special_tokens=False`` of a text within one."""
        encoder = self._follower.prompt if add_special_tokens else self._vocabulary.encode
        return list(encoder(text))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids, special tokens by name."""
        return b"".join(self.data(i) for i in ids).decode("utf-8", errors="replace")

    def convert_ids_to_tokens(self, token_id: int) -> str:
        """Text of one token."""
        return self.data(token_id).decode("utf-8", errors="replace")

    def data(self, token_id: int) -> bytes:
        """Bytes of one token."""
        data = self._vocabulary.tokens[token_id]
        if data and token_id not in self._vocabulary.special:
            return data
        kind = "eos" if token_id in self._vocabulary.eos else "special"
        return f"<{kind}{token_id}>".encode()


def _twin(follower: Follower) -> Follower:
    """A follower over the same model with a queue of its own, for queries from another loop."""
    if not isinstance(follower, HostFollower):
        return follower
    return HostFollower(
        follower.backend,
        follower.vocabulary,
        follower.prompt,
        name=follower.name,
        remembered=64,
    )
