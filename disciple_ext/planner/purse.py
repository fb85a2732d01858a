"""Money for planners: what is allowed, what is spent, what is set aside."""

from __future__ import annotations

import math

from ..errors import LimitExceeded, UsageError

__all__ = ["Purse"]


class Purse:
    """Money that several runs may share, also at the same time.

    Args:
        limit: US dollars that the planner's calls may cost in all.

    Attributes:
        limit: the same.
        spent: US dollars spent, or set aside for calls that are under way. A call whose cost is
            unknown counts with what it may have cost.

    Raises:
        UsageError: the limit is no amount of money.
    """

    def __init__(self, limit: float) -> None:
        if not (math.isfinite(limit) and limit >= 0):
            raise UsageError(f"the most that a run may cost is in US dollars, not {limit}")
        self.limit = limit
        self.spent = 0.0

    def reserve(self, name: str, quote: float | None) -> float:
        """Set money aside for a call.

        Args:
            name: of the planner that is to be called.
            quote: US dollars that the call may cost at most, or None where nobody knows.

        Returns:
            The quote.

        Raises:
            LimitExceeded: it is more than there is; its kind is ``"cost"``.
            UsageError: nobody knows what the call may cost.
        """
        # Unknown is not zero: a limit that lets such a call pass would be none.
        if quote is None:
            raise UsageError(
                f"the price of planner {name} is unknown, so its cost cannot be limited; "
                "give a price in a file (--prices FILE, or DISCIPLE_PRICES), or no --max-cost"
            )
        if self.spent + quote > self.limit:
            raise LimitExceeded(
                f"the next call of planner {name} may cost ${quote:.4f}, and "
                f"${self.spent:.4f} of the ${self.limit:.4f} allowed are spent; allow more "
                "(--max-cost), or use a cheaper model",
                kind="cost",
                value=self.spent + quote,
                limit=self.limit,
            )
        self.spent += quote
        return quote

    def settle(self, quote: float, cost: float | None) -> None:
        """Put back what a call did not cost; all of it is gone where the cost is unknown."""
        # A call may cost more than its quote, too; then the difference is taken.
        if cost is not None:
            self.spent += cost - quote
