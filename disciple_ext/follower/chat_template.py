"""Chat templates: a user message, and a hint, to the token ids that a model was tuned on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FollowerError, UsageError
from ..protocol.requests import Tokens

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

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a whole conversation, ready for the answer's text.

        Args:
            messages: each with a ``role`` (system, user, assistant) and its ``content``.

        Raises:
            UsageError: the model has no chat template.
            FollowerError: its chat template fails on these messages.
        """
        if self.tokenizer.chat_template is None:
            raise UsageError(
                f"{self.tokenizer.name_or_path!r} has no chat template, so it cannot be talked to; "
                "use a model that was tuned for chat"
            )
        said = [dict(message) for message in messages]
        try:
            return tuple(self._templated(said))
        except FollowerError:
            # Some templates refuse the role "system": then it opens the first message.
            if len(said) < 2 or said[0]["role"] != "system":
                raise
            opening = {**said[1], "content": f"{said[0]['content']}\n\n{said[1]['content']}"}
            return tuple(self._templated([opening, *said[2:]]))

    def _message(self, user: str) -> list[int]:
        tokenizer = self.tokenizer
        bos = tokenizer.bos_token_id
        if tokenizer.chat_template is None:
            ids = tokenizer.encode(f"{user}\n", add_special_tokens=False)
            start = bos if bos is not None else tokenizer.eos_token_id
            return [start, *ids] if start is not None else list(ids)
        return self._templated([{"role": "user", "content": user}])

    def _templated(self, messages: list[dict[str, str]]) -> list[int]:
        tokenizer = self.tokenizer
        bos = tokenizer.bos_token_id
        try:
            text = tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        except Exception as error:
            raise FollowerError(
                f"the chat template of {tokenizer.name_or_path!r} fails on a conversation: {error}"
            ) from error
        # The template writes the BOS itself where the model wants one: encoding must add none.
        ids = list(tokenizer.encode(text, add_special_tokens=False))
        while bos is not None and ids[:2] == [bos, bos]:
            ids = ids[1:]
        return ids
