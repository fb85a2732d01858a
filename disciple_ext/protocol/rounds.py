"""Which of the requests that wait are answered next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["Rounds"]

T = TypeVar("T")

_EASY_ROUNDS = 16
"""Rounds without a forward pass in a row: a program that only asks must not starve the others."""


class Rounds:
    """Easy requests first: those that need no forward pass.

    Those who asked them go on to their next request, and the forward pass that follows serves all
    of them at once. Without it, particles that ask more often than others would fall out of step
    with them, and every batch would be half as large.
    """

    def __init__(self) -> None:
        self._easy_rounds = 0

    def next(self, waiting: Iterable[T], at_once: Callable[[T], bool]) -> tuple[list[T], list[T]]:
        """What is answered now, and what waits for a later round, each in its order.

        Args:
            waiting: all that wait.
            at_once: whether one of them can be answered without a forward pass.
        """
        easy: list[T] = []
        hard: list[T] = []
        items = list(waiting)
        for item in items:
            (easy if at_once(item) else hard).append(item)
        if easy and self._easy_rounds < _EASY_ROUNDS:
            self._easy_rounds += 1
            return easy, hard
        self._easy_rounds = 0
        return items, []
