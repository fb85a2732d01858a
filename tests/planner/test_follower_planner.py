"""One model plans and follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from disciple_ext import self_steer
from disciple_ext.errors import FollowerError, PlannerError, UsageError
from disciple_ext.follower.hf import from_model
from disciple_ext.planner.chat.follower import FollowerChat, FollowerPlanner
from disciple_ext.planner.chat.recording import RecordedPlanner
from disciple_ext.records.task import Task
from disciple_ext.testing import ToyFollower

PROGRAM = (
    "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.next_token()\n"
    "        if self.context.token_count == 3:\n            await self.end()\n"
)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>"
    "{% endfor %}<|assistant|>"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}"
CONVERSATION = [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]


def tokenizer(template: str | None) -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    vocab = {token: i for i, token in enumerate([*special, *alphabet])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=special[2:],
    )
    made.chat_template = template
    return made


def llama(template: str | None = TEMPLATE, context: int = 65_536) -> Any:
    """A tiny model with random weights."""
    tokens = tokenizer(template)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=context,
        bos_token_id=0,
        eos_token_id=1,
    )
    return from_model(LlamaForCausalLM(config).eval(), tokens, name="hf:tiny")


async def test_a_random_model_writes_no_program() -> None:
    follower = llama()
    chat = FollowerChat(follower, max_output_tokens=24)
    first, again, other = [await chat.ask(CONVERSATION, retry=k) for k in (0, 0, 1)]
    assert first.text == again.text != other.text
    assert (first.finish_reason, first.cost, first.model) == ("length", 0.0, "hf:tiny")
    assert first.usage is not None and first.usage.planner_output == 24
    assert first.usage.planner_input == len(follower.conversation(CONVERSATION))


def test_a_random_model_is_a_planner_error() -> None:
    follower = llama(context=5_000)
    told = len(follower.conversation([{"role": "user", "content": "x"}]))
    assert told < 20
    with pytest.raises(PlannerError, match="takes [0-9,]+ tokens.*longer context") as caught:
        self_steer("a task", planner="follower", follower=follower, sandbox="none")
    assert caught.value.cost == 0.0


@pytest.mark.slow
def test_a_whole_run_of_a_random_model_ends_in_a_planner_error() -> None:
    with pytest.raises(PlannerError, match="cut off|holds no program") as caught:
        self_steer("a task", planner="follower", follower=llama(), sandbox="none")
    (attempt,) = caught.value.attempts
    assert attempt.usage.planner_output > 0 and caught.value.cost == 0.0


def test_the_template_gets_the_whole_conversation() -> None:
    follower = llama()
    ids = follower.conversation(CONVERSATION)
    text = follower._prompt.tokenizer.decode(ids)
    assert text == "<s><|system|>be<|end|><|user|>hi<|end|><|assistant|>"
    merged = llama(NO_SYSTEM + TEMPLATE).conversation(CONVERSATION)
    assert follower._prompt.tokenizer.decode(merged) == "<s><|user|>be\n\nhi<|end|><|assistant|>"
    with pytest.raises(FollowerError, match="chat template"):
        llama("{{ raise_exception('never') }}").conversation(CONVERSATION)


def test_a_model_without_a_template_cannot_plan() -> None:
    for follower in (llama(None), ToyFollower.random(1, ["a"])):
        with pytest.raises(UsageError, match="no chat template"):
            self_steer("a task", planner="follower", follower=follower, sandbox="none")


async def test_unbound_it_has_nobody_to_ask() -> None:
    with pytest.raises(UsageError, match="bind"):
        await FollowerPlanner().plan(Task("a task"), ())


class Scripted(ToyFollower):
    """A follower that answers a conversation with a program, and writes letters otherwise."""

    def __init__(self, answers: Sequence[str]) -> None:
        said = [f"```\n{answer}```" for answer in answers]
        self.told: list[Any] = []

        def distribution(prompt: str, text: tuple[str, ...]) -> dict[str, float]:
            if not prompt.startswith("plan"):
                return {"a": 1.0, "b": 1.0, "": 0.5}
            answer, done = said[int(prompt[4:])], "".join(text)
            return {answer[len(done)]: 1.0} if len(done) < len(answer) else {"": 1.0}

        super().__init__(distribution, sorted({*"ab", *"".join(said)}))

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        self.told.append(messages)
        return self.prompt(f"plan{len(self.told) - 1}")


def test_one_model_plans_is_told_and_follows(tmp_path: Path) -> None:
    broken = PROGRAM.replace("self.next_token()", "self.next_tokken()")
    follower = Scripted([broken, PROGRAM])
    options: dict[str, Any] = {"sandbox": "none", "n": 3, "max_cost": 0.0}
    planner = FollowerPlanner(record=tmp_path)
    result = self_steer("letters", planner=planner, follower=follower, **options)
    assert [a.outcome for a in result.attempts] == ["ProgramCrashed", "ok"]
    assert result.program["source"] == PROGRAM and result.program["planner"] == "follower"
    assert result.cost == 0.0 and result.usage.planner_output > len(PROGRAM)
    assert result.text is not None and set(result.text) <= set("ab")
    assert "next_tokken" in follower.told[1][-1]["content"]
    again = self_steer("letters", planner=RecordedPlanner(tmp_path), follower=follower, **options)
    assert again.text == result.text
