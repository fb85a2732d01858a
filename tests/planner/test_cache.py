"""The planner's answers are paid for once."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import PlannerError, UsageError
from disciple_ext.folders import cache_directory
from disciple_ext.planner.base import Feedback
from disciple_ext.planner.chat.base import Answer, digest
from disciple_ext.planner.chat.cache import AnswerStore
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.records.program import Program
from disciple_ext.records.result import Usage
from disciple_ext.records.task import Task

TASK = Task("Write a haiku.")
USAGE = Usage(planner_input=3, planner_output=2)
ANSWER = Answer("```\nx = 1\n```", "stop", None, USAGE, 0.25, "gpt-4o-2024-08-06")


async def test_an_answer_is_asked_for_once(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    first = await OpenAIPlanner("gpt-4o").plan(TASK, ())
    again = await OpenAIPlanner("gpt-4o").plan(TASK, ())
    assert again.program == first.program and not again.program.trusted
    assert (first.cached_answer, again.cached_answer) == (False, True)
    assert (again.usage, again.cost) == (Usage(), 0.0)
    assert len(endpoint.requests) == 1


async def test_everything_that_matters_is_in_the_key(endpoint: Any) -> None:
    failed = Feedback(Program("x = 1\n"), "no class", "", attempt=1)
    asked: list[tuple[dict[str, Any], Task, tuple[Feedback, ...]]] = [
        ({}, TASK, ()),
        ({"temperature": 0.5}, TASK, ()),
        ({"max_output_tokens": 1000}, TASK, ()),
        ({"effort": "low"}, TASK, ()),
        ({"base_url": endpoint.url.replace("127.0.0.1", "localhost")}, TASK, ()),
        ({}, Task("Write a sonnet."), ()),
        ({}, TASK, (failed,)),
    ]
    endpoint.script(*[endpoint.program(finish="stop") for _ in range(len(asked) + 2)])
    for options, task, feedback in asked:
        assert not (await OpenAIPlanner("a", **options).plan(task, feedback)).cached_answer
    assert not (await OpenAIPlanner("b").plan(TASK, ())).cached_answer
    assert not (await OpenAIPlanner("a", cache=False).plan(TASK, ())).cached_answer
    for options, task, feedback in asked:
        assert (await OpenAIPlanner("a", **options).plan(task, feedback)).cached_answer
    conversation = [{"role": "user", "content": "x"}]
    assert digest(conversation, 0) != digest(conversation, 1)


async def test_only_whole_answers_with_a_program_are_kept(endpoint: Any) -> None:
    whole = f"```\n{endpoint.code}```"
    for reply in (
        endpoint.stream("Sorry, I cannot."),
        endpoint.stream(whole, finish="length"),
        endpoint.stream(whole, finish=None),
        endpoint.plain(whole, refusal="no"),
        endpoint.failure(401),
    ):
        endpoint.script(reply)
        try:
            await OpenAIPlanner("m").plan(TASK, ())
        except PlannerError:
            pass
    assert AnswerStore().holdings().entries == 0


async def test_runs_side_by_side_pay_once(endpoint: Any) -> None:
    planner = OpenAIPlanner("m")
    endpoint.script(endpoint.program(pause=0.02))
    plans = await asyncio.gather(*(planner.plan(TASK, ()) for _ in range(4)))
    assert sorted(p.cached_answer for p in plans) == [False, True, True, True]


def test_the_key_is_not_kept(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    asyncio.run(OpenAIPlanner("m").plan(TASK, ()))
    files = list(cache_directory().iterdir())
    assert files and not any(b"sk-secret" in file.read_bytes() for file in files)


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCIPLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/disciple-ext")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "disciple-ext"


def test_what_is_held_and_forgotten(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "new")
    assert store.holdings().entries == 0 and store.clear() == 0
    assert not store.path.exists()
    for key, model in (("1", "a"), ("2", "a"), ("3", "b")):
        store.put(key, model, ANSWER)
    held = store.holdings()
    assert (held.entries, held.models) == (3, {"a": 2, "b": 1}) and held.bytes > 0
    got = store.get("1")
    assert got is not None and got.origin == "cache"
    assert got.to_dict() == ANSWER.to_dict()
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE answers SET created = ? WHERE key = '1'", (time.time() - 9e5,))
    database.close()
    assert store.clear(older_than=30) == 0
    assert store.clear(older_than=10) == 1
    assert store.clear() == 2
    with pytest.raises(UsageError, match="days"):
        store.clear(older_than=-1)


def test_others_cannot_read_the_store(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    store.put("k", "m", ANSWER)
    assert store.path.stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_moved_aside(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    store.path.write_bytes(b"this is no database" * 500)
    with pytest.warns(RuntimeWarning, match="damaged.*moved to"):
        store.put("1", "m", ANSWER)
    assert store.get("1") is not None  # what was to be kept is kept
    (aside,) = tmp_path.glob("*.damaged-*")
    assert aside.read_bytes().startswith(b"this is no database")


async def test_a_damaged_file_loses_no_answer(endpoint: Any) -> None:
    AnswerStore().put("1", "m", ANSWER)
    AnswerStore().path.write_bytes(b"rubbish" * 2000)
    endpoint.script(endpoint.program())
    with pytest.warns(RuntimeWarning, match="damaged"):
        made = await OpenAIPlanner("m").plan(TASK, ())
    assert made.program.source == endpoint.code
    assert (await OpenAIPlanner("m").plan(TASK, ())).cached_answer


def test_an_entry_of_another_version_is_not_used(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    store.put("1", "m", ANSWER)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE answers SET answer = '{}'")
    database.close()
    assert store.get("1") is None


async def test_a_place_that_cannot_be_written_is_a_warning(endpoint: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    endpoint.script(endpoint.program())
    planner = OpenAIPlanner("m", cache=AnswerStore(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        made = await planner.plan(TASK, ())
    assert made.program.source == endpoint.code


def _put_many(directory: str, first: int) -> None:
    warnings.simplefilter("error")
    store = AnswerStore(directory)
    for number in range(first, first + 25):
        store.put(str(number), "m", ANSWER)
        assert store.get(str(number)) is not None


def test_processes_share_a_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_put_many, args=(str(tmp_path), 100 * k)) for k in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert AnswerStore(tmp_path).holdings().entries == 50
