"""Requests that wait for their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .requests import Reply, Request

__all__ = ["Deliver", "TaskWaiting", "Waiting"]

Deliver = Callable[[Reply, BaseException | None], None]
"""Takes (reply, None), or (None, error); a service's reply may be None, too."""


class Waiting:
    """A request that waits for its answer.

    Attributes:
        request: the request.
        loop: the event loop in which it is answered.
        over: whether it was answered or dropped.
    """

    __slots__ = ("_deliver", "loop", "over", "request")

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


class TaskWaiting(Waiting):
    """A request that a task of its own answers."""

    __slots__ = ("_task",)

    def __init__(self, request: Request, deliver: Deliver, answer: Any) -> None:
        """Begin the task.

        Args:
            request: the request.
            deliver: takes the answer.
            answer: coroutine function of the request.
        """
        super().__init__(request, deliver)
        self._task = self.loop.create_task(self._run(answer))

    async def _run(self, answer: Any) -> None:
        try:
            reply = await answer(self.request)
        except Exception as error:  # third-party code: it fails its caller alone
            self.give(None, error)
        else:
            self.give(reply)

    def drop(self) -> None:
        """Forget the request, and end its task."""
        if not self.over:
            self.over = True
            self._task.cancel()
