"""A potential of genlm-control as a service: programs weigh by it, and draw with its samplers."""

from __future__ import annotations

import asyncio
import copy
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from genlm.backend.tokenization import Token
from genlm.control import AWRS, BoolCFG, BoolFSA, Potential
from genlm.control.potential.built_in.json import FullValidatorJsonSchema, ParserPotential
from genlm.control.potential.product import Product
from genlm.control.sampler import (
    DirectTokenSampler,
    EagerSetSampler,
    SetTokenSampler,
    TokenSampler,
)

from ..errors import UsageError
from ..protocol.follower import Follower
from ..protocol.measure import Role
from ..services.base import Service
from .coercion import Units, units_of
from .follower import FollowerPotential

__all__ = ["PotentialService"]

MakeSampler = Callable[[Any, Any], Any]
_REMEMBERED = 16_384


class PotentialService(Service):
    """A potential of genlm-control that programs reach by ``weigh`` and ``draw_with``.

    ``weigh`` charges ``prefix`` of a text that goes on and ``complete`` of one that has ended.
    ``draw_with`` draws from a token sampler over the product of the follower, under the proposal's
    prompt, and the potential; what the prior makes of the token is put right afterwards.

    Args:
        potential: the potential, or a product of some.
        sampler: ``"awrs"`` (adaptive weighted rejection: few evaluations; for potentials that are
            0 or -inf), ``"eager"`` (byte by byte; for potentials over bytes),
            ``"direct"`` (the potential of every token), or a function of the follower's potential
            and this one, coerced to the follower's tokens, that makes a token sampler for it.
            None chooses the first of these that fits.
        temperature: divides the potential's log weights.
        units: what the potential reads for a list of the follower's tokens (``bytes``), where its
            vocabulary does not say so itself (:func:`units_of`).
        purpose: what it holds texts to, a sentence for planners.

    Raises:
        UsageError: the potential is none, or there is no such sampler.
    """

    def __init__(
        self,
        potential: Any,
        *,
        sampler: str | MakeSampler | None = None,
        temperature: float = 1.0,
        units: Units | None = None,
        purpose: str = "",
    ) -> None:
        if not isinstance(potential, Potential):
            raise UsageError(f"{potential!r:.80} is no potential of genlm-control")
        if not 0 < temperature < math.inf:
            raise UsageError(f"a temperature is a number above 0, not {temperature!r}")
        if isinstance(sampler, str) and sampler not in _SAMPLERS:
            known = ", ".join(_SAMPLERS)
            raise UsageError(f"unknown token sampler {sampler!r}; one of {known}")
        self.potential = potential if temperature == 1.0 else potential ** (1.0 / temperature)
        # By the potential as given: the class of its power says nothing of its weights.
        self.sampler = sampler or _fitting(potential)
        self.units = units
        self._bound: _Bound | None = None
        what = (
            "a potential: `await self.weigh(name)`, or `await self.draw_with(name)` for each token"
        )
        self.purpose = f"{what}. {purpose}"

    def bind(self, follower: Follower) -> _Bound:
        """The service for the tokens of one follower; the last one is kept, with its tables."""
        if self._bound is None or self._bound.follower is not follower:
            self._bound = _Bound(self, follower)
        return self._bound

    async def batch(self, payloads: Sequence[Any]) -> list[Any]:
        """Only a run knows the follower, whose tokens are to be read."""
        raise UsageError("a PotentialService is used in a run: services={'name': service}")

    def rehearse(self, payload: Any) -> Any:
        """A dry run weighs nothing and ends at once what it is asked to draw."""
        draws = isinstance(payload, dict) and "draw" in payload
        return _reply(None, 0.0, 0.0, 0.0) if draws else 0.0

    def rehearsing(self) -> Callable[[Any], Any]:
        """What stands in for it in a dry run."""
        return self.rehearse


class _Bound(Service):
    """A potential over the tokens of one follower."""

    def __init__(self, service: PotentialService, follower: Follower) -> None:
        self.follower = follower
        self._llm = FollowerPotential(follower)
        self._potential = service.potential
        self._units = service.units or units_of(service.potential, self._llm.vocab)
        self._make = service.sampler if callable(service.sampler) else _SAMPLERS[service.sampler]
        self._samplers: OrderedDict[Any, Any] = OrderedDict()
        self._weights: OrderedDict[Any, float] = OrderedDict()
        self._coerced: Any = None
        self._own = isinstance(service.sampler, str)
        self._first: Any = None

    async def batch(self, payloads: Sequence[Any]) -> list[Any]:
        """Log weights and draws; one that fails fails alone."""
        # An exception in the list fails its own call, as the contract of services has it.
        return list(await asyncio.gather(*map(self._reply, payloads), return_exceptions=True))

    async def _reply(self, payload: Any) -> Any:
        match payload:
            case {"draw": int()}:
                return await self._draw(payload)
            case {"tokens": list(ids), "ended": bool(ended)}:
                return await self._log_weight(ids, ended)
        raise ValueError("programs ask a potential by `weigh` and `draw_with`")

    async def _log_weight(self, ids: Sequence[int], ended: bool) -> float:
        key = (tuple(ids), ended)
        if key not in self._weights:
            potential, units = self._potential, self._units(self._llm.tokens(ids))
            if any(unit not in potential.lookup for unit in units):
                weight = -math.inf
            elif ended:
                weight = float(await potential.complete(units))
            else:
                weight = float(await potential.prefix(units))
            self._weights[key] = weight
            while len(self._weights) > _REMEMBERED:
                self._weights.popitem(last=False)
        return self._weights[key]

    async def _draw(self, payload: Any) -> dict[str, Any]:
        ids, temperature = payload["tokens"], payload["temperature"]
        context = self._llm.tokens(ids)
        before = await self._log_weight(ids, False)
        if before == -math.inf:  # the samplers take it for granted that it is not
            return _reply(None, before, before, before)
        prompt, prior = tuple(payload["prompt"]), payload["prior"]
        role = Role.SHARED if prior is None else Role.PROPOSAL
        proposal, sampler = self._sampler(prompt, temperature, role)
        try:
            token, log_weight, _ = await _sample(sampler, context, payload["draw"])
        except (AssertionError, TypeError) as error:
            if not isinstance(sampler, AWRS):
                raise
            raise UsageError(
                "the token sampler awrs takes a potential whose log weights are 0 or -inf; for "
                "another one say sampler='eager' or 'direct', or weigh by it"
            ) from error
        if log_weight == -math.inf:
            return _reply(None, before, log_weight, log_weight)
        log_p = log_q = (await proposal.logw_next(context))[token]
        if prior is not None or self.follower.measure.split:
            scored = self._llm.at(prompt if prior is None else prior, temperature, Role.PRIOR)
            log_p = (await scored.logw_next(context))[token]
        ended = token == self._llm.eos
        after = await self._log_weight(ids if ended else [*ids, token.token_id], ended)
        # The sampler's weight is under the proposal; p / q makes it one under the prior.
        drawn, log_weight = None if ended else token.token_id, log_weight + log_p - log_q
        return _reply(drawn, before, after, log_weight, log_p, log_q)

    def _sampler(self, prompt: tuple[int, ...], temperature: float, role: Role) -> tuple[Any, Any]:
        """The follower under a prompt, and the token sampler over it."""
        key = (prompt, temperature, role)
        known = self._samplers.get(key)
        if known is None:
            if self._coerced is None:
                # A language model reads any token; genlm's pruning looks for bytes.
                prune = not isinstance(self._potential.vocab[0], Token)
                self._coerced = self._potential.coerce(self._llm, f=self._units, prune=prune)
            llm = self._llm.at(prompt, temperature, role)
            if self._first is not None:  # hints change the prompt: tables are shared
                known = llm, _put_under(self._first, llm)
            else:
                with warnings.catch_warnings():
                    # Of torch, about a trie's matrix; of genlm, that a grammar of few letters
                    # leaves few tokens, which is what it is for.
                    warnings.filterwarnings("ignore", "Sparse ", UserWarning)
                    warnings.filterwarnings("ignore", "Common vocabulary", RuntimeWarning)
                    known = llm, self._make(llm, self._coerced)
            if not isinstance(known[1], TokenSampler):
                raise UsageError(f"sampler=... made a {type(known[1]).__name__}, no TokenSampler")
            if self._own:
                self._first = known[1]
            self._samplers[key] = known
            while len(self._samplers) > 256:
                self._samplers.popitem(last=False)
        return known


def _reply(
    token: int | None,
    before: float,
    after: float,
    log_weight: float,
    log_p: float = 0.0,
    log_q: float = 0.0,
) -> dict[str, Any]:
    """What ``draw_with`` reads.

    Args:
        token: the token, or None for the end of text.
        before: natural log of the potential's weight of the text before it.
        after: the same of the text with it.
        log_weight: of the draw, under the prior.
        log_p: log-probability of the token under the prior.
        log_q: the same under the proposal.
    """
    logs = {"before": before, "after": after, "log_weight": float(log_weight)}
    return {"token": token, **logs, "log_p": log_p, "log_q": log_q}


def _awrs(llm: Any, potential: Any) -> Any:
    return AWRS(llm, potential, autobatch=False)


def _eager(llm: Any, potential: Any) -> Any:
    sampler = EagerSetSampler(llm, potential.potential, autobatch=False)
    # The trie's own queue would leave a task behind in the event loop of every run.
    sampler.trie_executor = _Trie(sampler.trie)
    return SetTokenSampler(sampler)


class _Trie:
    """A trie that answers at once."""

    def __init__(self, trie: Any) -> None:
        self.trie = trie

    async def weight_sum(self, weights: Any) -> Any:
        return self.trie.weight_sum(weights)

    async def cleanup(self) -> None:
        """There is nothing to stop."""


def _direct(llm: Any, potential: Any) -> Any:
    return DirectTokenSampler(llm * potential, autobatch=False)


_SAMPLERS: dict[str, MakeSampler] = {"awrs": _awrs, "eager": _eager, "direct": _direct}


def _fitting(potential: Any) -> str:
    if _boolean(potential):
        return "awrs"
    return "eager" if all(isinstance(unit, int) for unit in potential.vocab) else "direct"


def _boolean(potential: Any) -> bool:
    """Whether its weights are known to be 0 and 1 alone."""
    if isinstance(potential, Product):  # a JSON schema is one, too
        return _boolean(potential.p1) and _boolean(potential.p2)
    known = (BoolFSA, BoolCFG, ParserPotential, FullValidatorJsonSchema)
    return isinstance(potential, known)


def _put_under(sampler: Any, llm: Any) -> Any:
    """The same token sampler over the follower under another prompt."""
    other = copy.copy(sampler)
    if isinstance(sampler, AWRS):
        other.potential = llm
    elif isinstance(sampler, SetTokenSampler):
        other.set_sampler = copy.copy(sampler.set_sampler)
        other.set_sampler.iter_potential = llm
    else:
        other.potential = other.target = copy.copy(sampler.potential)
        other.potential.p1 = llm
    return other


async def _sample(sampler: Any, context: Sequence[Any], seed: int) -> tuple[Any, float, float]:
    """Sample with randomness of our own: one seed gives one token."""
    rng = np.random.default_rng(seed)
    if isinstance(sampler, AWRS):
        # A copy, as the sampler serves several draws at a time, each with a seed of its own.
        keyed = copy.copy(sampler)
        keyed._seed, keyed._gen_cache = int(rng.integers(2**62)), None
        keyed.rng = rng
        sampled: tuple[Any, float, float] = await keyed.sample(context)
    else:
        sampled = await sampler.sample(context, draw=lambda chart: _drawn(chart, rng.random()))
    return sampled


def _drawn(chart: Any, u: float) -> Any:
    """A key of a chart of probabilities, by inverse CDF."""
    keys = [key for key, p in chart.items() if p > 0]
    total = np.cumsum([float(chart[key]) for key in keys])
    return keys[min(int(np.searchsorted(total, u * total[-1], side="right")), len(keys) - 1)]
