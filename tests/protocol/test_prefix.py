"""Prefix nodes: interned, immutable, as long as memory allows, and gone when nobody uses them."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest

from disciple_ext.protocol.prefix import Prefix


def test_equal_sequences_are_one_node() -> None:
    a = Prefix.of([3, 1, 2])
    assert a is Prefix.of((3, 1, 2)) is Prefix.ROOT.then(3).extend([1]).then(2)
    assert a is not Prefix.of([3, 1]) and a != Prefix.of([3, 1, 4])
    assert {a: 1}[Prefix.of([3, 1, 2])] == 1


def test_a_node_is_its_parent_and_a_token() -> None:
    node = Prefix.of([3, 1, 2])
    assert (node.token, len(node), node.length, node.tokens) == (2, 3, 3, (3, 1, 2))
    assert node.parent is Prefix.of([3, 1])
    assert (Prefix.ROOT.parent, Prefix.ROOT.token, Prefix.ROOT.tokens) == (None, -1, ())
    assert len(Prefix.ROOT) == 0 and Prefix.of([]) is Prefix.ROOT and Prefix.ROOT
    assert "3 tokens" in repr(node)


def test_tokens_after_an_ancestor() -> None:
    node = Prefix.of([3, 1, 2, 2])
    assert node.after(Prefix.of([3, 1])) == (2, 2)
    assert node.after(node) == () and node.after(Prefix.ROOT) == node.tokens
    for stranger in (Prefix.of([3, 2]), node.then(0)):
        with pytest.raises(ValueError, match="no beginning"):
            node.after(stranger)


def test_copies_are_the_node_itself() -> None:
    node = Prefix.of([5, 6])
    assert copy.copy(node) is node and copy.deepcopy([node])[0] is node


@pytest.mark.parametrize("token", ["1", 1.0, None])
def test_tokens_are_integers(token: object) -> None:
    one = Prefix.of([1])
    with pytest.raises(TypeError):
        Prefix.ROOT.then(token)  # type: ignore[arg-type]
    assert Prefix.of([1]) is one


def test_token_ids_are_not_negative() -> None:
    with pytest.raises(ValueError, match="-1"):
        Prefix.ROOT.then(-1)
    assert [Prefix.of(ids).highest for ids in ([], [3], [3, 9, 2])] == [-1, 3, 9]


def test_numbers_of_other_libraries_become_plain_ones() -> None:
    import numpy as np

    node = Prefix.of([np.int64(77_001), True])  # type: ignore[list-item]
    assert [type(t) for t in node.tokens] == [int, int]


def test_long_chains_come_and_go() -> None:
    begin = Prefix.of([9, 9])
    tip = begin.extend(range(200_000))
    assert len(tip) == 200_002 and tip.after(begin) == tuple(range(200_000))
    assert copy.deepcopy(tip) is tip
    middle = weakref.ref(begin.extend(range(100_000)))
    last = weakref.ref(tip)
    gc.disable()  # reference counts alone must do
    try:
        assert middle() is not None
        del tip
        assert last() is None and middle() is None
    finally:
        gc.enable()
    assert begin.then(0).after(begin) == (0,)


def test_a_node_lives_as_long_as_what_follows_it() -> None:
    begin = 987_654_321  # no other test's text begins so, and keeps a node alive
    tip = Prefix.of([begin, 1, 2, 3])
    first = weakref.ref(Prefix.of([begin, 1]))
    assert first() is Prefix.of([begin, 1])
    del tip
    assert first() is None


def test_what_died_leaves_at_most_one_entry_a_token() -> None:
    prompt = Prefix.of([4, 4, 4])
    for i in range(1000):
        prompt.extend([i % 5, i])
    assert prompt._children is not None and len(prompt._children) == 5


def test_threads_may_make_the_same_node_at_once() -> None:
    made: list[Prefix] = []
    barrier = threading.Barrier(8)

    def make() -> None:
        barrier.wait()
        for i in range(200):
            made.append(Prefix.of([6, i, i + 1]))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1600
    assert {node.tokens for node in made} == {(6, i, i + 1) for i in range(200)}
    assert all(node.after(Prefix.ROOT) == node.tokens for node in made)
