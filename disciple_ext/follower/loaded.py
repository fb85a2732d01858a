"""What transformers says of a model that it has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FollowerError

__all__ = ["need_all_weights"]


def need_all_weights(what: str, notes: Mapping[str, Any]) -> None:
    """Refuse a model with weights that did not come from its files: they are random numbers.

    Args:
        what: the file or the model, for the message.
        notes: what ``from_pretrained`` gives with ``output_loading_info=True``.

    Raises:
        FollowerError: weights are missing, or of a wrong shape.
    """
    for fault, names in (
        ("lacks", notes.get("missing_keys")),
        ("has in a wrong shape", notes.get("mismatched_keys")),
    ):
        if names:
            found = sorted(str(name[0] if isinstance(name, tuple) else name) for name in names)
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise FollowerError(
                f"{what} {fault} weights that its model needs: {', '.join(found[:3])}{more}; "
                "convert the model again, or take another file"
            )
