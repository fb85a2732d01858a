"""Quantised checkpoints in ``hf:``, and the options behind a follower's path."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from disciple_ext import cli
from disciple_ext.errors import FollowerError, UsageError
from disciple_ext.evaluation.logs.model_size import ModelSize, size_of
from disciple_ext.evaluation.logs.provenance import weights_hash
from disciple_ext.follower.engine.kv import KVBackend
from disciple_ext.follower.hf import EMBEDDED, from_pretrained
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import run_sampler

from . import gguf_files

SOURCE = """
class InferenceModel(BaseModel):
    async def step(self):
        async with AvoidCharsMask(self, "e"), MaxCharsMask(self, max_chars=4):
            await self.next_token()
        if self.context.token_count == 6:
            await self.end()
"""


def make(spec: str) -> Any:
    return load_plugins(installed=False).make("followers", spec)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Llama on disk, in float32."""
    folder = tmp_path_factory.mktemp("models") / "plain"
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data.mul_(10.0)
    model.save_pretrained(folder)
    return folder


def by_config(plain: Path, config: Any) -> Path:
    """The model, quantised by transformers."""
    folder = plain.with_name("quantised")
    AutoTokenizer.from_pretrained(plain).save_pretrained(folder)
    AutoModelForCausalLM.from_pretrained(
        plain, quantization_config=config, dtype=torch.float32
    ).save_pretrained(folder)
    return folder


def four_bits(plain: Path) -> Path:
    return by_config(
        plain,
        BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
        ),
    )


def eight_bits(plain: Path) -> Path:
    # A threshold of 0: no column of a product is kept out for outliers in another row.
    return by_config(plain, BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0))


def torchao(plain: Path) -> Path:
    pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    from torchao.quantization import Int8WeightOnlyConfig
    from transformers import TorchAoConfig

    return by_config(plain, TorchAoConfig(Int8WeightOnlyConfig()))


def rewritten(plain: Path, name: str, config: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """A copy with a quantization_config, and its weights, yet to be saved."""
    folder = plain.with_name(name)
    folder.mkdir(exist_ok=True)
    for path in plain.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    described = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**described, "quantization_config": config}))
    return folder, load_file(folder / "model.safetensors")


def compressed_tensors(plain: Path) -> Path:
    """int8 weights, a scale for each row, activations quantised as they come."""
    pytest.importorskip("compressed_tensors", reason="compressed-tensors is not installed")
    eight = {"num_bits": 8, "type": "int", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**eight, "strategy": "channel"},
        "input_activations": {**eight, "strategy": "token", "dynamic": True},
    }
    config = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }
    folder, weights = rewritten(plain, "compressed", config)
    for name in [name for name in weights if "_proj." in name]:
        scale = weights[name].abs().amax(1, keepdim=True) / 127
        weights[name] = (weights[name] / scale).round().to(torch.int8)
        weights[name.replace("weight", "weight_scale")] = scale
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def fp8(plain: Path) -> Path:
    """8-bit floats with a scale for each block of 128 by 128: without a GPU, taken apart."""
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    folder, weights = rewritten(plain, "fp8", config)
    for name in [name for name in weights if "_proj." in name]:
        scale = weights[name].abs().amax() / 448  # no matrix of this model exceeds one block
        weights[name] = (weights[name] / scale).to(torch.float8_e4m3fn)
        weights[f"{name}_scale_inv"] = scale.reshape(1, 1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@torch.inference_mode()
def by_transformers(model: Any, contexts: list[Prefix]) -> torch.Tensor:
    rows = [model(torch.tensor([c.tokens]), use_cache=False).logits[0, -1] for c in contexts]
    return torch.stack(rows).float().log_softmax(-1)


@pytest.mark.filterwarnings("ignore")  # the quantisers' own
@pytest.mark.parametrize("quantised", [four_bits, eight_bits, torchao, compressed_tensors, fp8])
def test_packed_weights_give_what_transformers_gives(
    quantised: Callable[[Path], Path], plain: Path
) -> None:
    folder = quantised(plain)
    spec = f"hf:{folder}"
    follower = make(spec)
    assert follower.name == spec and isinstance(follower.backend, KVBackend)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    # 8-bit products of bitsandbytes compute in halves whatever goes in.
    atol = {eight_bits: 0.1, fp8: 0.1}.get(quantised, 1e-3)
    contexts = [Prefix.of([2, *range(50, 50 + n)]) for n in (3, 30, 31)]
    for some in (contexts, [c.then(9) for c in contexts]):
        rows = asyncio.run(follower.backend.logits(some)).log_softmax(-1)
        torch.testing.assert_close(rows, by_transformers(model, some), atol=atol, rtol=0)
    # It is the quantised model, not the plain one, and near to it.
    apart = rows - by_transformers(AutoModelForCausalLM.from_pretrained(plain).eval(), some)
    assert 1e-4 < float(apart.abs().mean()) < 0.5
    assert len(str(weights_hash(follower))) == 64
    # Packed ones cannot be counted; those of fp8 were taken apart where there is no GPU.
    taken_apart = quantised is fp8 and not torch.cuda.is_available()
    count = sum(p.numel() for p in LlamaForCausalLM.from_pretrained(plain).parameters())
    assert size_of(follower) == ModelSize(count if taken_apart else None, "llama")
    population = run_sampler(SMCSampler(), SOURCE, follower, 4, seed=5)
    texts = [str(p) for p in population.particles]
    assert len(texts) == 4 and not any("e" in text for text in texts)


def test_they_take_no_dtype_but_their_own(plain: Path) -> None:
    folder = four_bits(plain)
    with pytest.raises(UsageError, match="'bitsandbytes' .* leave dtype=bfloat16 out"):
        make(f"hf:{folder},dtype=bfloat16")
    assert make(f"hf:{folder},dtype=auto,device=cpu").backend.dtype == torch.float32


def test_8_bit_products_do_not_talk_in_every_forward(
    plain: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("bitsandbytes"), "level", logging.NOTSET)
    follower = from_pretrained(str(eight_bits(plain)))
    caplog.clear()
    asyncio.run(follower.backend.logits([Prefix.of([2, 3, 4])]))
    assert not caplog.records


@pytest.mark.parametrize(
    ("method", "package"),
    [
        ("gptq", "gptqmodel optimum"),
        ("awq", "gptqmodel accelerate"),
        ("quanto", "optimum-quanto"),
        ("aqlm", "accelerate 'aqlm"),
    ],
)
def test_a_missing_package_is_named(method: str, package: str, plain: Path) -> None:
    if method == "quanto" and find_spec("optimum") is not None:
        pytest.skip("optimum-quanto is installed")
    config = {"quant_method": method, "bits": 4, "group_size": 64, "weights": "int8"}
    folder, weights = rewritten(plain, "needs", config)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FollowerError, match=f"quantised with '{method}'") as raised:
        make(f"hf:{folder}")
    assert f"pip install {package}" in str(raised.value)


def test_the_command_line_exits_with_4(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, weights = rewritten(plain, "needs", {"quant_method": "gptq", "bits": 4})
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    task = "Please generate a sentence with exactly 9 words."
    assert cli.run(["run", task, "--follower", f"hf:{folder}"]) == 4
    assert "pip install gptqmodel optimum" in capsys.readouterr().err


def test_a_method_that_nobody_knows_is_refused(plain: Path) -> None:
    folder, weights = rewritten(plain, "unknown", {"quant_method": "wizardry"})
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FollowerError, match="'wizardry'.*does not know.*update transformers"):
        make(f"hf:{folder}")


def test_weights_that_are_not_there_are_refused(plain: Path) -> None:
    """Transformers would make random numbers of them."""
    folder, weights = rewritten(plain, "part", {})
    for path in (folder / "config.json",):
        path.write_bytes((plain / path.name).read_bytes())
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FollowerError, match=r"lacks weights.*layers\.1\.mlp\.up_proj\.weight"):
        make(f"hf:{folder}")


# Options --------------------------------------------------------------------------------------


def test_dtype_and_device_stand_behind_the_path(plain: Path) -> None:
    assert make(f"hf:{plain}").backend.dtype == torch.float32
    spec = f"hf:{plain},dtype=bfloat16,device=cpu"
    follower = make(spec)
    assert follower.backend.dtype == torch.bfloat16 and follower.name == spec
    assert make(f"hf:{plain},dtype=auto").backend.dtype == torch.float32


def test_a_device_map_spreads_the_model(plain: Path) -> None:
    contexts = [Prefix.of([2, *range(50, 50 + n)]) for n in (3, 30, 31)]
    wanted = asyncio.run(make(f"hf:{plain}").backend.logits(contexts))
    parts = {"model.embed_tokens": "disk", "model.layers.0": "cpu", "model.layers.1": "disk"}
    rest = {"model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    follower = from_pretrained(str(plain), device_map={**parts, **rest})
    assert follower.backend.device == torch.device("cpu")
    assert weights_hash(follower) is None  # most of them lie on the disk
    rows = asyncio.run(follower.backend.logits(contexts))
    torch.testing.assert_close(rows, wanted, atol=1e-4, rtol=0)
    rows = asyncio.run(make(f"hf:{plain},device_map=auto").backend.logits(contexts))
    torch.testing.assert_close(rows, wanted, atol=1e-4, rtol=0)


def test_gguf_files_take_them_too(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "tiny, a.gguf")
    follower = make(f"gguf:{path},dtype=bfloat16,device=cpu")
    assert follower.backend.dtype == torch.bfloat16
    assert follower.name == f"gguf:{path},dtype=bfloat16,device=cpu"
    assert make(f"gguf:{path}").backend.dtype == torch.float32


def test_a_path_may_have_commas_and_equals_signs(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "a,dtype=float64.gguf")
    assert make(f"gguf:{path}").vocabulary.size
    with pytest.raises(UsageError, match="'dtype' is given twice"):
        make(f"gguf:{path},dtype=float16")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("hf:{},dtype=float64", "'float64' is no dtype of a follower; take float32, bfloat16"),
        ("hf:{},dtype=16", "16 is no dtype"),
        ("hf:{},device=tpu9", "'tpu9' is no device"),
        ("hf:{},device=cpu,device_map=auto", "a device or a device_map, not both"),
        ("hf:{},color=red", r"no option 'color'; .* hf:PATH,dtype=null,device=null,device_map"),
        ("hf:{},dtype=", r"'dtype=' is no option"),
        ("hf:,dtype=float32", "name the follower's model"),
        ("gguf:,dtype=float32", "name the follower's file"),
        ("embedded,dtype=bfloat16", "'embedded' takes no argument"),
        ("smollm2,color=red", r"no option 'color'; .* smollm2,dtype=null,device=null"),
    ],
)
def test_wrong_options_are_named(spec: str, said: str, plain: Path) -> None:
    with pytest.raises(UsageError, match=said):
        make(spec.format(plain))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("spec", ["hf:{},device=cuda", "hf:{},device=0"])
def test_a_device_that_is_not_here_is_a_followers_error(spec: str, plain: Path) -> None:
    with pytest.raises(FollowerError, match="cannot be used: .* 'disciple doctor'"):
        make(spec.format(plain))


def test_an_unusable_device_map_is_a_followers_error(plain: Path) -> None:
    with pytest.raises(FollowerError, match="cannot be loaded: .*device_map"):
        make(f"hf:{plain},device_map=everywhere")
