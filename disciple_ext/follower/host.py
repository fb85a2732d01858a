"""The host side of the follower protocol: batching, masked mass and drawing next to the logits.

Requests are collected until every runnable particle waits; then the contexts that are not yet
known go to the backend as one batch, and all draws of the round are made in a few vectorised
operations on its logits. A bad request fails alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from ..errors import DiscipleError, FollowerError, UsageError
from ..protocol.prefix import Prefix
from ..protocol.requests import (
    Branch,
    Branched,
    Call,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Reply,
    Request,
    Score,
    Tokens,
)
from ..protocol.vocabulary import TokenMask, Vocabulary, intersect
from .engine import drawing
from .engine.drawing import Distributions, Query, Row

__all__ = ["Backend", "Deliver", "HostFollower", "Waiting"]

Deliver = Callable[[Reply, BaseException | None], None]
"""Takes (reply, None), or (None, error); a service's reply may be None, too."""


_Key = tuple[Prefix, float]
"""A context and a temperature."""

_EASY_ROUNDS = 16
"""Rounds without a forward pass in a row: a program that only asks must not starve the others."""


class Backend(Protocol):
    """What computes logits.

    Attributes:
        max_context: tokens a context may have, or None for no limit.
        forwards: forward passes made so far.
    """

    max_context: int | None
    forwards: int

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token logits of distinct contexts: float32, shape (contexts, vocabulary)."""
        ...

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Logits before each token of (context, tokens) pairs: float32, (tokens, vocabulary)."""
        ...


class Waiting:
    """A request that waits for its answer.

    Attributes:
        request: the request.
        loop: the event loop in which it is answered.
        over: whether it was answered or dropped.
    """

    def __init__(self, request: Request, deliver: Deliver) -> None:
        self.request = request
        self.loop = asyncio.get_running_loop()
        self.over = False
        self._deliver = deliver

    def drop(self) -> None:
        """Forget the request: nothing is delivered any more."""
        self.over = True

    def give(self, reply: Reply, error: BaseException | None = None) -> None:
        """Deliver the answer, unless the request is over."""
        if self.over:
            return
        self.over = True
        try:
            self._deliver(reply, error)
        except Exception as failure:  # the others of the round still want their answers
            self.loop.call_exception_handler(
                {"message": "an answer could not be delivered", "exception": failure}
            )


class HostFollower:
    """A follower in this process.

    Attributes:
        name: spec it was loaded from.
        vocabulary: its tokens.
        computing: whether a batch is being answered at this moment.
    """

    def __init__(
        self,
        backend: Backend,
        vocabulary: Vocabulary,
        prompt: Callable[[str, str], Tokens],
        *,
        name: str,
        remembered: int = 1024,
        threads: int | None = None,
    ) -> None:
        """Wrap a backend.

        Args:
            backend: what computes logits.
            vocabulary: the model's tokens.
            prompt: (user message, hint) to token ids.
            name: for results and messages.
            remembered: distributions kept for contexts that are asked about again.
            threads: CPU threads to compute with, or None for torch's own setting. A model of a
                few million parameters gains nothing from more than one, and loses everything
                (OpenMP's threads spin) where other programs want the cores too.
        """
        self.backend = backend
        self.vocabulary = vocabulary
        self.name = name
        self.computing = False
        self._prompt = prompt
        self._threads = threads
        self._waiting: list[Waiting] = []
        self._flush: asyncio.Task[None] | None = None
        self._rows: dict[_Key, Row] = {}
        self._batches: OrderedDict[Distributions, list[_Key]] = OrderedDict()
        self._remembered = max(64, min(remembered, 2**26 // (4 * vocabulary.size)))
        self._masks = drawing.MaskCache()
        self.services: dict[str, Callable[[Any], Awaitable[Any]]] = {}

    @property
    def forwards(self) -> int:
        """Forward passes of the backend so far."""
        return self.backend.forwards

    def forget(self) -> None:
        """Drop all that was computed, so that what comes is computed as in a new process.

        What is known of a text decides how the rest is batched, and so its rounding. Nothing may
        be under way.
        """
        self._rows.clear()
        self._batches.clear()
        forget = getattr(self.backend, "forget", None)
        if forget is not None:
            forget()

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message, ready for the answer's text (see the protocol)."""
        return self._prompt(user, hint)

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a conversation, ready for the answer's text.

        Raises:
            UsageError: the model has no chat template.
            FollowerError: its chat template fails on these messages.
        """
        template = getattr(self._prompt, "conversation", None)
        if template is None:
            raise UsageError(f"the follower {self.name!r} has no chat template")
        ids: Tokens = template(messages)
        return ids

    def __deepcopy__(self, memo: object) -> HostFollower:
        return self

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, or None for no limit."""
        return self.backend.max_context

    async def ask(self, request: Request) -> Reply:
        """Answer one request together with all others that wait."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def deliver(reply: Reply, error: BaseException | None) -> None:
            if future.done():  # cancelled, and the asker has not run since
                return
            if error is None:
                future.set_result(reply)
            else:
                future.set_exception(error)

        waiting = self.submit(request, deliver)
        try:
            return await future
        finally:
            waiting.drop()

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request together with all others that wait, to a callback.

        Args:
            request: the request.
            deliver: called once, in the loop's thread, when the round that answers the request
                has computed it; never before this method returns. What it raises goes to the
                loop's exception handler.

        Returns:
            The handle by which to drop the request.

        Raises:
            RuntimeError: no event loop is running.
        """
        waiting = Waiting(request, deliver)
        loop = waiting.loop
        self._waiting.append(waiting)
        if self._flush is None or self._flush.done() or self._flush.get_loop() is not loop:
            self._waiting = [w for w in self._waiting if w.loop is loop]
            self._flush = loop.create_task(self._collect())
        return waiting

    async def _collect(self) -> None:
        easy_rounds = 0
        while self._waiting:
            seen = -1
            while seen != len(self._waiting):  # until a pass over the loop adds no request
                seen = len(self._waiting)
                await asyncio.sleep(0)
            # Those who hear of an error at once may ask again: that is of the next round.
            waiting, self._waiting = self._waiting, []
            batch = [w for w in waiting if not w.over and self._sound(w)]
            # What needs no forward pass goes first: those who asked go on to their next request,
            # and the forward that follows serves all of them at once.
            easy: list[Waiting] = []
            hard: list[Waiting] = []
            for w in batch:
                (easy if self.answers_at_once(w.request) else hard).append(w)
            if easy and easy_rounds < _EASY_ROUNDS:
                easy_rounds += 1
                self._waiting[:0] = hard
                batch = easy
            else:
                easy_rounds = 0
            threads = torch.get_num_threads()
            self.computing = True
            try:
                if self._threads is not None:
                    torch.set_num_threads(self._threads)
                await self._answer(batch)
            except BaseException as error:
                for w in batch:
                    w.give(None, _as_follower_error(error))
                if not isinstance(error, Exception):
                    raise
            finally:
                self.computing = False
                if self._threads is not None:
                    torch.set_num_threads(threads)

    async def _answer(self, good: list[Waiting]) -> None:
        await self._compute([w.request for w in good])
        kinds: dict[type, list[Waiting]] = {}
        for w in good:
            kinds.setdefault(type(w.request), []).append(w)
        for kind, answer in (
            (Draw, self._draw),
            (Branch, self._branch),
            (Mass, self._mass),
            (NextBytes, self._next_bytes),
            (LogProbs, self._logprobs),
        ):
            chosen = kinds.get(kind)
            if chosen:
                replies: Any = answer([w.request for w in chosen])
                for waiting, reply in zip(chosen, replies, strict=True):
                    waiting.give(reply)
        scores = kinds.get(Score)
        if scores:
            for waiting, logs in zip(
                scores, await self._score([w.request for w in scores]), strict=True
            ):
                waiting.give(logs)
        calls = kinds.get(Call)
        if calls:
            await asyncio.gather(*(self._call(w) for w in calls))

    # Each kind of request -----------------------------------------------------------------

    def _draw(self, requests: Sequence[Any]) -> list[Drawn]:
        queries = [Query(self._row(r.proposal, r.temperature), r.mask) for r in requests]
        tokens, log_q, log_mass = drawing.draw(queries, [r.u for r in requests], self._masks)
        log_p = log_q
        if any(r.prior is not None and r.prior is not r.proposal for r in requests):
            rows = [self._row(r.prior or r.proposal, r.temperature) for r in requests]
            log_p = drawing.log_prob(rows, tokens)
        return list(map(Drawn, tokens, log_q, log_mass, log_p))

    def _branch(self, requests: Sequence[Any]) -> list[Branched]:
        rows = [self._row(r.proposal, r.temperature) for r in requests]
        queries = [
            Query(row, mask)
            for row, r in zip(rows, requests, strict=True)
            for mask in (r.given, *_outcomes(r))
        ]
        logs = drawing.log_mass(queries, self._masks)
        values, kept = [], []
        for r, inside, outside in zip(requests, logs[1::3], logs[2::3], strict=True):
            value = _branch_value(r.u, inside, outside)
            row = self._row(r.prior or r.proposal, r.temperature)
            values.append(value)
            kept.append(Query(row, _outcome(r.mask if value else ~r.mask, r.pending)))
        replies = []
        for k, log_p in enumerate(drawing.log_mass(kept, self._masks)):
            everything, inside, outside = logs[3 * k : 3 * k + 3]
            log_q = -math.inf
            if everything > -math.inf:
                log_q = min(0.0, (inside if values[k] else outside) - everything)
            replies.append(Branched(values[k], log_q, log_p))
        return replies

    def _mass(self, requests: Sequence[Any]) -> list[float]:
        queries = [Query(self._row(r.context, r.temperature), r.mask) for r in requests]
        return drawing.log_mass(queries, self._masks)

    def _next_bytes(self, requests: Sequence[Any]) -> list[Any]:
        trie = self.vocabulary.trie
        return drawing.log_segments(
            [self._row(r.context, r.temperature) for r in requests],
            [trie.node(r.begun) for r in requests],
            [r.mask for r in requests],
        )

    def _logprobs(self, requests: Sequence[Any]) -> list[Any]:
        rows = [self._row(r.context, r.temperature) for r in requests]
        # A copy: the caller may write to its vector, and ours is remembered.
        return [(batch.logits[i] - batch.lse[i].float()).cpu().numpy() for batch, i in rows]

    async def _call(self, waiting: Waiting) -> None:
        request = waiting.request
        assert isinstance(request, Call)
        try:
            reply = await self.services[request.name](request.payload)
        except Exception as error:  # a service is third-party code: it fails its caller alone
            waiting.give(None, _as_follower_error(error))
        else:
            waiting.give(reply)

    async def _score(self, requests: Sequence[Any]) -> list[tuple[float, ...]]:
        pairs = list(dict.fromkeys((r.context, r.tokens) for r in requests if len(r.tokens) > 1))
        known = dict(zip(pairs, await self.backend.score(pairs), strict=True)) if pairs else {}
        single = [r for r in requests if len(r.tokens) == 1]
        rows = [self._row(r.context, r.temperature) for r in single]
        ones = iter(drawing.log_prob(rows, [r.tokens[0] for r in single]) if single else ())
        replies: list[tuple[float, ...]] = []
        for r in requests:
            if len(r.tokens) == 1:
                replies.append((next(ones),))
            else:
                logits = known[(r.context, r.tokens)] / r.temperature
                ids = torch.tensor(r.tokens, device=logits.device)[:, None]
                logs = logits.gather(-1, ids)[:, 0].double() - logits.logsumexp(-1)
                replies.append(tuple(logs.tolist()))
        return replies

    # Distributions ------------------------------------------------------------------------

    async def _compute(self, requests: Sequence[Request]) -> None:
        """Make the backend compute every distribution of this round that is not remembered."""
        needed: dict[_Key, list[TokenMask | None]] = {}
        for request in requests:
            masks = _masks_of(request)
            for context in _contexts(request):
                needed.setdefault((context, request.temperature), []).extend(masks)  # type: ignore[union-attr]
                masks = ()  # those of the first context, from which is drawn
        missing = []
        for key in needed:
            row = self._rows.get(key)
            if row is None:
                missing.append(key)
            else:
                self._batches.move_to_end(row.batch)
        if not missing:
            return
        contexts = list(dict.fromkeys(context for context, _ in missing))
        logits = await self.backend.logits(contexts)
        if len(contexts) < len(missing) or any(t != 1.0 for _, t in missing):
            index = {context: i for i, context in enumerate(contexts)}
            temperature = logits.new_tensor([t for _, t in missing])[:, None]
            logits = logits[[index[context] for context, _ in missing]] / temperature
        wanted = [(i, mask) for i, key in enumerate(missing) for mask in needed[key]]
        batch = Distributions(logits, self._masks, wanted)
        self._rows.update((key, Row(batch, i)) for i, key in enumerate(missing))
        # A row keeps its whole batch, so that whole batches are forgotten.
        self._batches[batch] = missing
        used = {self._rows[key].batch for key in needed}
        while len(self._rows) > self._remembered:
            oldest = next(iter(self._batches))
            if oldest in used:
                break
            for key in self._batches.pop(oldest):
                del self._rows[key]

    def _sound(self, waiting: Waiting) -> bool:
        """Whether a request can be answered at all; one that cannot fails alone."""
        try:
            problem = self._problem(waiting.request)
        except Exception as error:  # tokens that are no integers, say
            problem = f"the request is malformed: {type(error).__name__}: {error}"
        if problem is not None:
            waiting.give(None, FollowerError(problem))
        return problem is None

    def answers_at_once(self, request: Request) -> bool:
        """Whether a request can be answered without a forward pass."""
        if isinstance(request, Draw | Branch):
            rows, temperature, prior = self._rows, request.temperature, request.prior
            known = (request.proposal, temperature) in rows
            return known and (prior is None or (prior, temperature) in rows)
        if isinstance(request, Call) or (isinstance(request, Score) and len(request.tokens) > 1):
            return False
        return (request.context, request.temperature) in self._rows

    def _row(self, context: Prefix, temperature: float) -> Row:
        return self._rows[(context, temperature)]

    def _problem(self, request: Request) -> str | None:
        if isinstance(request, Call):
            known = sorted(self.services)
            return None if request.name in known else f"no service {request.name!r}; known: {known}"
        if isinstance(request, Score):
            if not isinstance(request.tokens, tuple) or not request.tokens:
                return "the tokens to score must be a tuple of token ids, and at least one"
            contexts = [request.context]
            if isinstance(request.context, Prefix):
                contexts.append(request.context.extend(request.tokens))
        else:
            contexts = _contexts(request)
        for context in contexts:
            problem = self._problem_of(context)
            if problem is not None:
                return problem
        if isinstance(request, NextBytes) and len(request.begun) > self.vocabulary.trie.longest:
            return f"no token begins with the {len(request.begun)} bytes asked about"
        size = self.vocabulary.size
        if not request.temperature > 0:
            return f"the temperature must be above 0, not {request.temperature}"
        masks: tuple[TokenMask | None, ...] = ()
        if isinstance(request, Draw | Mass | NextBytes):
            masks = (request.mask,)
        elif isinstance(request, Branch):
            masks = (request.mask, request.given, request.pending)
        for mask in masks:
            if mask is not None and mask.size != size:
                return f"a mask has {mask.size} entries; the vocabulary has {size}"
        return None

    def _problem_of(self, context: Prefix) -> str | None:
        if not isinstance(context, Prefix):
            return f"a context must be a Prefix, not {type(context).__name__}"
        size, longest = self.vocabulary.size, self.backend.max_context
        if context.length == 0 or context.highest >= size:
            return f"a context must be token ids from 0 to {size - 1}, and at least one"
        if longest is not None and context.length > longest:
            return f"the context has {context.length} tokens; the model takes {longest}"
        return None


def _contexts(request: Request) -> list[Prefix]:
    """The contexts whose next-token distribution the answer needs."""
    if isinstance(request, Draw | Branch):
        prior = request.prior
        return [request.proposal] if prior is None else [request.proposal, prior]
    if isinstance(request, Score):
        return [request.context] if len(request.tokens) == 1 else []
    return [request.context] if isinstance(request, Mass | NextBytes | LogProbs) else []


def _masks_of(request: Request) -> tuple[TokenMask | None, ...]:
    """The masks whose mass under the first context the answer needs."""
    if isinstance(request, Draw | Mass):
        return (request.mask,)
    if isinstance(request, Branch):
        return (request.given, *_outcomes(request))
    return ()


def _branch_value(u: float, log_in: float, log_out: float) -> bool:
    """True with probability in / (in + out), each given as a log."""
    if log_in == -math.inf:
        return False
    return log_out == -math.inf or u < 1.0 / (1.0 + math.exp(min(700.0, log_out - log_in)))


def _outcomes(request: Branch) -> tuple[TokenMask, TokenMask]:
    return _outcome(request.mask, request.given), _outcome(~request.mask, request.given)


def _outcome(mask: TokenMask, given: TokenMask | None) -> TokenMask:
    return mask if given is None else intersect(mask, given)


def _as_follower_error(error: BaseException) -> BaseException:
    if isinstance(error, DiscipleError | asyncio.CancelledError):
        return error
    wrapped = FollowerError(f"the follower failed on a batch: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
