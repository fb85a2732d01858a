from __future__ import annotations

import copy
import pickle
import statistics

import pytest

from disciple_ext.protocol.stream import Stream


def values(stream: Stream, k: int = 5) -> list[float]:
    return [stream.random() for _ in range(k)]


def test_a_stream_depends_on_seed_and_path_alone() -> None:
    assert values(Stream(1, (2,))) == values(Stream(1, (2,)))
    distinct = [Stream(1, (2,)), Stream(1, (3,)), Stream(2, (2,)), Stream(1), Stream(1, (2, 0))]
    assert len({tuple(values(s)) for s in distinct}) == 5


def test_the_global_generator_and_seed_have_no_say() -> None:
    stream = Stream(1)
    stream.seed(99)
    assert values(stream) == values(Stream(1))


def test_children_differ_from_each_other_and_from_their_parent_and_repeat() -> None:
    def family() -> list[list[float]]:
        parent = Stream(7, (0,))
        first = parent.child()
        parent.random()
        second, third = copy.deepcopy(parent), copy.deepcopy(parent)
        return [values(s) for s in (parent, first, second, third, third.child())]

    made = family()
    assert made == family() and len({tuple(v) for v in made}) == 5


def test_making_a_child_does_not_change_the_parents_values() -> None:
    parent, plain = Stream(3), Stream(3)
    assert parent.random() == plain.random()
    parent.child()
    assert values(parent) == values(plain)


def test_values_are_uniform_and_the_derived_methods_work() -> None:
    stream = Stream(5)
    drawn = values(stream, 4000)
    assert all(0.0 <= x < 1.0 for x in drawn)
    # Six standard errors of the mean (0.0046 each) and of the share below 0.1 (0.0047 each).
    assert abs(statistics.mean(drawn) - 0.5) < 0.028
    assert abs(sum(x < 0.1 for x in drawn) / 4000 - 0.1) < 0.029
    assert 0 <= stream.getrandbits(200) < 2**200 and stream.randrange(3) in (0, 1, 2)
    assert stream.gauss(0.0, 1.0) != stream.gauss(0.0, 1.0)
    assert sorted(stream.sample(range(9), 9)) == list(range(9))


def test_streams_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(Stream(1))
