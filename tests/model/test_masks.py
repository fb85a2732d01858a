from __future__ import annotations

import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from disciple_ext.model.base import BaseModel
from disciple_ext.model.context import FollowerContext
from disciple_ext.model.masks.characters import (
    AvoidCharsMask,
    AvoidWordsMask,
    CharsMask,
    ChoiceMask,
    MaxCharsMask,
    PunctuationMask,
    WordLengthMask,
)
from disciple_ext.testing import ToyFollower

Piece = str | bytes


class Silent(BaseModel):
    async def step(self) -> None: ...


def particle(tokens: list[Any], text: list[Any] | None = None) -> Any:
    toy = ToyFollower(lambda prompt, said: {"": 1.0}, tokens)
    model = Silent(FollowerContext(toy, "p"))
    for piece in text or []:
        model._append(toy.pieces.index(piece))
    return model


def allowed(model: BaseModel) -> set[Any]:
    vocabulary = model.context.follower.vocabulary
    mask = model.masks.current(vocabulary.text_mask)
    assert mask is not None
    return {model.context.follower.pieces[i] for i in mask}


async def entered(mask: Any) -> Any:
    await mask.__aenter__()
    return mask


async def test_stateless_masks() -> None:
    tokens = ["a", "ab", " the", ".", "?!", "!", "\n", "é"]
    model = particle(tokens)
    for mask, expected in [
        (PunctuationMask(model), {".", "!"}),
        (PunctuationMask(model, "\n"), {"\n"}),
        (CharsMask(model, "ab. "), {"a", "ab", "."}),
        (AvoidCharsMask(model, "a\n"), {" the", ".", "?!", "!", "é"}),
        (ChoiceMask(model, ["abc", " there"]), {"a", "ab", " the"}),
        (MaxCharsMask(model, 1), {"a", ".", "!", "\n", "é"}),
        (MaxCharsMask(model, 0), set()),
    ]:
        async with mask:
            assert allowed(model) == expected, mask
        assert allowed(model) == set(tokens)


async def test_word_masks_follow_the_word_begun() -> None:
    tokens = ["i", "s", "is", " is", " Is", "land", "."]
    model = particle(tokens, ["i"])
    async with AvoidWordsMask(model, ["IS"]):
        assert allowed(model) == set(tokens) - {"s", " is", " Is"}
    async with WordLengthMask(model, 2):
        assert allowed(model) == {"i", "s", " is", " Is", "."}


async def test_masks_on_the_stack_are_intersected_and_described() -> None:
    model = particle(["a", "b", "ab"])
    async with CharsMask(model, "ab"), AvoidCharsMask(model, "b"), MaxCharsMask(model, 1):
        assert allowed(model) == {"a"}
        assert model.masks.describe() == (
            "CharsMask(ab), AvoidCharsMask(b), MaxCharsMask(max_chars=1, 1 left)"
        )
    assert model.masks.describe() == "no mask"


async def test_a_mask_entered_again_begins_anew() -> None:
    model = particle(["a", "bb"])
    mask = MaxCharsMask(model, 2)
    for _ in range(2):
        async with mask:
            assert allowed(model) == {"a", "bb"}
            model._append(0)
            assert allowed(model) == {"a"}
    choice = ChoiceMask(model, ["aa"])
    for _ in range(2):
        async with choice:
            model._append(0)
            assert allowed(model) == {"a"}
            model._append(0)
            assert allowed(model) == {"a", "bb"}


async def test_clones_have_budgets_of_their_own() -> None:
    model = particle(["a", "bb"])
    async with MaxCharsMask(model, 3), ChoiceMask(model, ["aaa"]):
        model._append(0)
        twin = copy.deepcopy(model)
        twin._append(0)
        twin._append(0)
        assert [m.left for m in model.masks.masks] == [2, (b"aa",)]
        assert [m.left for m in twin.masks.masks] == [0, (b"",)]
        assert {m._stack for m in twin.masks.masks} == {twin.masks}
    assert len(twin.masks.masks) == 2 and not model.masks.masks


# Code points ---------------------------------------------------------------------------------

TEXT = st.text(alphabet="aé€𝄞", min_size=1, max_size=8)


@st.composite
def cut(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """A text, cut into byte tokens anywhere, inside code points too."""
    text = draw(TEXT)
    data = text.encode()
    places = sorted({0, len(data), *draw(st.sets(st.integers(0, len(data)), max_size=12))})
    return text, [data[i:j] for i, j in zip(places, places[1:], strict=False)]


@given(cut(), st.integers(0, 10))
def test_a_text_fits_a_budget_exactly_if_its_code_points_do(
    case: tuple[str, list[bytes]], budget: int
) -> None:
    text, pieces = case
    model = particle(list(dict.fromkeys(pieces)))
    mask = MaxCharsMask(model, budget)
    mask.enter()
    model.masks.masks.append(mask)
    for piece in pieces:
        if piece not in allowed(model):
            assert len(text) > budget
            return
        model._append(model.context.follower.pieces.index(piece))
    assert len(text) <= budget and mask.left == budget - len(text)
    assert str(model) == text


@given(
    st.lists(st.sampled_from("aé€\U00040000"), min_size=1, max_size=4),
    st.integers(1, 6),
    st.data(),
)
def test_whatever_the_mask_allows_is_valid_and_within_the_budget(
    chars: list[str], budget: int, data: st.DataObject
) -> None:
    whole = "".join(chars).encode()
    pieces = {
        whole[i:j] for i in range(len(whole)) for j in range(i + 1, min(i + 4, len(whole)) + 1)
    }
    model = particle(sorted(pieces))
    mask = MaxCharsMask(model, budget)
    mask.enter()
    model.masks.masks.append(mask)
    for _ in range(8):
        choices = sorted(allowed(model))
        if not choices:
            break
        model._append(model.context.follower.pieces.index(data.draw(st.sampled_from(choices))))
        said = bytes(model.masks.text)
        assert len(said.decode("utf-8", errors="ignore")) <= budget
        if not mask.begun:
            said.decode("utf-8", errors="strict")
        assert "\ufffd" not in str(model)
        assert len(model) <= budget


@given(TEXT, TEXT)
def test_a_budget_that_begins_inside_a_code_point_does_not_count_it_again(
    before: str, after: str
) -> None:
    data = before.encode()
    assume(len(before[-1].encode()) > 1)
    head, tail = data[:-1], data[-1:]
    model = particle([head, tail, after.encode()], [head])
    mask = MaxCharsMask(model, len(after))
    mask.enter()
    model.masks.masks.append(mask)
    assert tail in allowed(model)
    model._append(1)
    assert mask.left == len(after) and str(model) == before
    assert after.encode() in allowed(model)
    model._append(2)
    assert mask.left == 0 and allowed(model) == set()


def test_bytes_that_no_code_point_has_are_ruled_out() -> None:
    model = particle([b"\xf0", b"\x84", b"\x9d", b"\x84\x9e"])
    mask = MaxCharsMask(model, 1)
    mask.enter()
    model.masks.masks.append(mask)
    model._append(0)
    assert allowed(model) == {b"\x9d"}  # F0 84 begins nothing; F0 9D 84 9E is one character
    model._append(2)
    assert b"\x84\x9e" in allowed(model)
    model._append(3)
    assert len(model) == 1 and allowed(model) == set()
