"""Nodes, selection, widening and closing, without any particles."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from disciple_mcts import MCTSSampler, Node, Rollout
from disciple_mcts.rollouts import rate
from disciple_mcts.tree import close, open_children, select, widest

from disciple_ext.errors import UsageError


def particle(weight: float = 0.0) -> Any:
    return SimpleNamespace(weight=weight)


def grown(*values: float) -> Node:
    """A root with one finished visit for each value, and children that are still open."""
    root = Node()
    for value in values:
        child = root.add(particle(), 1)
        child.visits, child.total, child.best = 1, value, value
    root.visits, root.total = len(values), sum(values)
    return root


def test_uct_prefers_value_then_what_is_less_tried() -> None:
    greedy = MCTSSampler(exploration=0.0, width=1.01, alpha=0.0)
    root = grown(0.2, 0.9)
    assert select(root, greedy) is root.children[1]
    root.children[1].running = 1  # virtual loss: 0.9 over two visits
    root.running = 1
    assert select(root, greedy) is root.children[1]
    root.children[1].running, root.running = 5, 5
    assert select(root, greedy) is root.children[0]
    curious = MCTSSampler(exploration=5.0, width=1.01, alpha=0.0)
    root = grown(0.2, 0.9)
    root.children[1].visits, root.children[1].total, root.visits = 9, 8.1, 10
    assert select(root, curious) is root.children[0]


def test_a_batch_never_widens_beyond_the_bound() -> None:
    options = MCTSSampler(width=2.0, alpha=0.5)
    root = Node()
    for _ in range(10):
        node = select(root, options)
        if node is None:
            break
        node.reserve()
    assert root.expanding == root.running == 4 == widest(4, options)
    for _ in range(4):
        root.release()
    assert root.running == root.expanding == 0
    assert [widest(v, options) for v in (0, 1, 2, 4, 16)] == [1, 2, 3, 4, 8]


def test_a_node_is_given_up_after_its_retries_and_the_root_never() -> None:
    root = Node()
    a = root.add(particle(), 1)
    b = a.add(particle(), 1)
    for _ in range(3):
        assert not b.closed
        close(b.add(particle(-math.inf), 1), retries=3)
    assert b.closed and b.particle is None
    assert not a.closed, "one closed child is less than three"
    for _ in range(2):
        close(a.add(particle(-math.inf), 1), retries=3)
    assert a.closed
    close(root.add(particle(-math.inf), 1), retries=1)
    assert not root.closed and not open_children(root)
    assert select(root, MCTSSampler()) is root, "a new beginning"


def test_an_open_child_keeps_its_parent_open() -> None:
    root = Node()
    a = root.add(particle(), 1)
    a.add(particle(), 1)
    close(a.add(particle(-math.inf), 1), retries=1)
    assert not a.closed


def test_values_are_bounded_and_any_pass_beats_any_failure() -> None:
    root = Node()
    verdicts = [True, False, None, True, False]
    scores = [-9.0, 3.0, -1.0, 500.0, -1e9]
    rollouts = [
        Rollout(root.add(particle(), 1), True, score, verdict)
        for score, verdict in zip(scores, verdicts, strict=True)
    ]
    rollouts.append(Rollout(root.add(particle(-math.inf), 1), True))
    rollouts.append(Rollout(root.add(particle(), 1), False, 0.0))
    for _ in range(2):  # rating anew must not add up
        rate(rollouts)
    values = [r.value for r in rollouts]
    assert all(0.0 <= v <= 1.0 for v in values)
    assert values[5] == 0.0
    passed = [v for v, verdict in zip(values, verdicts, strict=False) if verdict is not False]
    failed = [v for v, verdict in zip(values, verdicts, strict=False) if verdict is False]
    assert min(passed) > max(failed)
    assert values[3] > values[2] > values[0]
    assert root.visits == 7
    assert root.total == pytest.approx(sum(values))
    assert root.best == max(values)


@pytest.mark.parametrize(
    "wrong",
    [
        {"exploration": -1.0},
        {"exploration": math.nan},
        {"width": 1.0},
        {"width": math.inf},
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"retries": 0},
        {"parallel": 0},
        {"depth": 0},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        MCTSSampler(**wrong)
