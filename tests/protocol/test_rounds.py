"""Easy requests first, and not for ever."""

from __future__ import annotations

from disciple_ext.protocol.rounds import Rounds


def easy(item: str) -> bool:
    return item.startswith("easy")


def test_easy_ones_go_first_and_the_rest_keeps_its_order() -> None:
    rounds = Rounds()
    assert rounds.next(["hard 1", "easy 1", "hard 2", "easy 2"], easy) == (
        ["easy 1", "easy 2"],
        ["hard 1", "hard 2"],
    )
    assert rounds.next(["hard 1", "hard 2"], easy) == (["hard 1", "hard 2"], [])


def test_who_only_asks_easy_ones_does_not_starve_the_others() -> None:
    rounds = Rounds()
    for _ in range(16):
        assert rounds.next(["easy", "hard"], easy) == (["easy"], ["hard"])
    assert rounds.next(["easy", "hard"], easy) == (["easy", "hard"], [])
    assert rounds.next(["easy", "hard"], easy) == (["easy"], ["hard"])
