from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.protocol.vocabulary import Vocabulary, from_ids, intersect, unfinished

sets = st.sets(st.integers(0, 9))


def vocabulary(**options: object) -> Vocabulary:
    tokens = [b"a", b" b", "é".encode()[:1], b"<s>", b"</s>"]
    return Vocabulary(tokens, eos=[4], special=[3], encode=lambda text: [0], **options)  # type: ignore[arg-type]


@given(sets, sets)
def test_masks_are_sets(a: set[int], b: set[int]) -> None:
    x, y = from_ids(a, 10), from_ids(b, 10)
    assert set(x) == a and len(x) == len(a) and x == a and bool(x) == bool(a)
    assert set(x & y) == a & b == set(x & b) == set(a & y)
    assert set(x | y) == a | b and set(x - y) == a - b and set(~x) == set(range(10)) - a
    assert (3 in x) == (3 in a) and "3" not in x and 10 not in x and -1 not in x


def test_masks_cannot_be_written_to_and_are_shared() -> None:
    mask = from_ids([1], 3)
    with pytest.raises(ValueError, match="read-only"):
        mask.array[0] = True
    assert copy.deepcopy(mask) is mask
    other = from_ids([1, 2], 3)
    assert intersect(mask, other) is intersect(mask, other)


def test_special_tokens_are_no_text_and_ids_beyond_the_tokenizer_do_not_exist() -> None:
    v = vocabulary(size=8)
    assert set(v.text_mask) == {0, 1, 2} and set(v.eos_mask) == {4}
    assert v.exists is not None and set(v.exists) == {0, 1, 2, 3, 4}
    assert v.special == {3, 4, 5, 6, 7} and v.eos == {4}
    assert v.decode([3, 0, 7, 1, 4]) == "a b"
    assert vocabulary().exists is None


def test_a_mask_is_built_once_and_the_oldest_are_forgotten() -> None:
    v, built = vocabulary(), []

    def make(i: int) -> None:
        v.mask(i, "m", lambda: built.append(i) or np.zeros(5, dtype=np.bool_))  # type: ignore[func-returns-value]

    for i in [0, 0, *range(1, 2100), 2099, 0]:
        make(i)
    assert built == [*range(2100), 0]


def test_text_masks_see_whole_code_points_only() -> None:
    assert set(vocabulary().where("all", "all", lambda text: True)) == {0, 1}


@given(st.text(alphabet="aé€𝄞", max_size=6), st.integers(0, 24))
def test_unfinished(text: str, end: int) -> None:
    data = text.encode()[:end]
    begun = unfinished(data)
    assert data.endswith(begun) and len(begun) <= 3
    assert data[: len(data) - len(begun)].decode() == data.decode(errors="ignore")


@given(st.text(alphabet="aé€𝄞", max_size=6), st.integers(0, 24))
def test_decoding_leaves_out_an_unfinished_code_point(text: str, end: int) -> None:
    data = text.encode()[:end]
    v = Vocabulary([bytes([b]) for b in range(256)] + [b""], eos=[256], encode=lambda t: [])
    assert v.decode(data) == data.decode("utf-8", errors="ignore")
