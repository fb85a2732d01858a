"""Work on many things, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..errors import LimitExceeded

__all__ = ["each"]

T = TypeVar("T")


async def each(things: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Work on all things, ``concurrency`` at a time, started in order.

    Raises:
        LimitExceeded: the money is gone; what was under way has come to its end.
    """
    # One iterator for all workers: asyncio switches only at an await, so none takes a thing twice.
    queue = iter(things)
    poor: LimitExceeded | None = None

    async def worker() -> None:
        nonlocal poor
        for thing in queue:
            if poor is not None:
                return
            try:
                await work(thing)
            except LimitExceeded as error:
                # Kept, not raised: that would cancel the runs beside it, which are paid for.
                poor = error
                return

    workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        # Where another error ended the gathering, the other workers would go on otherwise.
        for task in workers:
            task.cancel()
    if poor is not None:
        raise poor
