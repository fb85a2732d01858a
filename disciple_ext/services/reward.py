"""A reward model: any Hugging Face sequence classifier as a potential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import FollowerError, UsageError
from .score import Scored, Scorer

__all__ = ["Reward"]


class Reward(Scorer):
    """A sequence classifier's opinion of a text.

    With one output the score is that number, as reward models are trained; with more it is the
    natural log of the probability of ``label``. A text that is about something is given as the
    second of a pair.

    Args:
        path: folder or name of the model, for ``transformers``.
        temperature: divides the score.
        label: name or index of the class that is wanted; the last one where it is None.
        rows: texts in one forward pass.
        device: where the model computes, such as ``"cuda"``.

    Raises:
        FollowerError: the model cannot be loaded.
        UsageError: it has no such label.
    """

    def __init__(
        self,
        path: str,
        temperature: float = 1.0,
        *,
        label: str | int | None = None,
        rows: int = 32,
        device: str = "cpu",
    ) -> None:
        super().__init__(temperature)
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path)
            loaded: Any = AutoModelForSequenceClassification.from_pretrained(path)
        except (OSError, ValueError) as error:
            raise FollowerError(f"the reward model {path!r} cannot be loaded: {error}") from error
        self._model = loaded.eval().to(device)
        self._rows = rows
        self._label = self._index(label)
        longest = getattr(self._model.config, "max_position_embeddings", None)
        # A tokenizer without a limit gives 1e30.
        self._longest = int(min(longest or math.inf, self._tokenizer.model_max_length, 2**20))

    def scores(self, texts: Sequence[Scored]) -> list[float]:
        """One score for each text; what is too long loses its beginning."""
        import torch

        found: list[float] = []
        for at in range(0, len(texts), self._rows):
            rows = [self._ids(text) for text in texts[at : at + self._rows]]
            packed = self._tokenizer.pad({"input_ids": rows}, return_tensors="pt")
            with torch.inference_mode():
                logits = self._model(**packed.to(self._model.device)).logits.float()
            if self._label is not None:
                logits = logits.log_softmax(-1)[:, self._label : self._label + 1]
            found += logits[:, 0].tolist()
        return found

    def _ids(self, text: Scored) -> list[int]:
        pair = (text.about, text.text) if text.about else (text.text,)
        ids: list[int] = self._tokenizer(*pair)["input_ids"]
        return ids[-self._longest :]

    def _index(self, label: str | int | None) -> int | None:
        names = {int(i): str(name) for i, name in self._model.config.id2label.items()}
        if len(names) == 1:
            return None
        found = [i for i, name in names.items() if label in (None, i, name)]
        if not found:
            known = ", ".join(names.values())
            raise UsageError(f"the reward model has no label {label!r}; there are: {known}")
        return found[-1]
