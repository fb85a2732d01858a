"""The host side of the language model: loading, batching, caching, drawing."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..protocol.adapters import AskedFollower
from ..protocol.follower import BaseFollower

__all__ = ["from_loaded"]


def from_loaded(follower: Any) -> BaseFollower:
    """A follower from what is loaded already.

    Args:
        follower: a :class:`BaseFollower`, an object that keeps to the protocol ``Follower``, a
            ``FollowerLM`` over one, LLaMPPL's ``CachedCausalLM`` or genlm-backend's ``AsyncLM``.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(follower, BaseFollower):
        return follower
    if hasattr(follower, "ask") and hasattr(follower, "vocabulary"):
        return AskedFollower(follower)
    inner = getattr(follower, "follower", None)  # a FollowerLM
    if inner is not None:
        return from_loaded(inner)
    if hasattr(follower, "batch_next_token_logprobs") or (
        type(follower).__name__ == "CachedCausalLM"
    ):
        from .genlm import from_async_lm

        return from_async_lm(follower)
    raise UsageError(
        "a follower is a spec such as 'embedded' or 'hf:PATH', a Follower, a CachedCausalLM or an "
        f"AsyncLM, not {type(follower).__name__}"
    )
