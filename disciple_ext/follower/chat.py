"""Chat templates: a user message, and a hint, to the token ids that a model was tuned on."""

from __future__ import annotations

from typing import Any

from ..errors import FollowerError
from ..model.requests import Tokens

__all__ = ["ChatPrompt"]


class ChatPrompt:
    """Turns a user message into token ids, with exactly one BOS.

    Models that think get their thinking switched off (``enable_thinking=False``; templates that
    do not know the name ignore it). Models without a chat template get the plain message.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, user: str, hint: str = "") -> Tokens:
        """Token ids of the message, ready for the answer's text.

        Args:
            user: the message.
            hint: a line put last, directly before the text.

        Raises:
            FollowerError: the model's chat template fails on a plain user message.
        """
        ids = self._message(user)
        if hint:
            ids = [*ids, *self.tokenizer.encode(f"{hint}\n", add_special_tokens=False)]
        return tuple(ids)

    def _message(self, user: str) -> list[int]:
        tokenizer = self.tokenizer
        bos = tokenizer.bos_token_id
        if tokenizer.chat_template is None:
            ids = tokenizer.encode(f"{user}\n", add_special_tokens=False)
            start = bos if bos is not None else tokenizer.eos_token_id
            return [start, *ids] if start is not None else list(ids)
        try:
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": user}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        except Exception as error:
            raise FollowerError(
                f"the chat template of {tokenizer.name_or_path!r} fails on a user message: {error}"
            ) from error
        # The template writes the BOS itself where the model wants one: encoding must add none.
        ids = list(tokenizer.encode(text, add_special_tokens=False))
        while bos is not None and ids[:2] == [bos, bos]:
            ids = ids[1:]
        return ids
