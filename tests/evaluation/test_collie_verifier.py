"""Our COLLIE verifier gives the official checker's verdicts."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from disciple_ext.errors import EvaluationError
from disciple_ext.evaluation.suites import collie
from disciple_ext.evaluation.suites.punkt import FALLBACK, default_splitter, read_punkt
from disciple_ext.text import sentence_rules, units

HERE = Path(__file__).parent


def _load_official() -> ModuleType:
    spec = importlib.util.spec_from_file_location("collie_official", HERE / "official.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


official = _load_official()


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(official.VERDICTS.read_text("utf-8"))
    return content


def _official_environment() -> None:
    pytest.importorskip("collie.constraints", reason="collie-bench is not installed")
    import nltk

    if not nltk.__version__.startswith("3.8."):
        pytest.skip(f"nltk {nltk.__version__} cuts words otherwise than COLLIE's nltk 3.8.1")


def test_the_562_instances_are_read(collie_dir: Path) -> None:
    instances = collie.load_instances()
    assert instances == collie.load_instances(collie_dir / "wiki.jsonl")
    assert Counter(i.task for i in instances) == {
        "sent_01": 38,
        "sent_02": 98,
        "sent_03": 29,
        "sent_04": 94,
        "para_01": 9,
        "para_02": 94,
        "para_03": 93,
        "para_04": 18,
        "para_05": 89,
    }


def test_every_example_and_its_variants_get_the_official_verdict(
    punkt_dir: Path, recorded: dict[str, Any]
) -> None:
    splitter = default_splitter()
    assert splitter.name == "punkt_tab" and splitter.source == punkt_dir
    instances = collie.load_instances()
    assert {i.id for i in instances} == set(recorded["instances"])
    for i in instances:
        ours = "".join(
            str(int(collie.verify(i.task, i.targets, variant(i.example))))
            for variant in official.VARIANTS
        )
        assert ours == recorded["instances"][i.id], i.id


def test_edge_texts_get_the_official_verdict(punkt_dir: Path, recorded: dict[str, Any]) -> None:
    splitter = default_splitter()
    assert len(recorded["texts"]) == len(official.EDGE_TEXTS) + len(official.made_texts())
    for row in recorded["texts"]:
        assert splitter.cut(row["text"]) == row["sentences"]
        for task, targets, verdict in row["verdicts"]:
            ours = collie.verify(task, targets, row["text"])
            assert ours == bool(verdict), (task, targets, row["text"])


def test_the_fallback_splitter_rarely_changes_a_verdict(
    collie_dir: Path, recorded: dict[str, Any]
) -> None:
    instances = collie.load_instances()
    wrong = [
        i.id
        for i in instances
        if collie.verify(i.task, i.targets, i.example, splitter=FALLBACK)
        != (recorded["instances"][i.id][0] == "1")
    ]
    assert len(wrong) <= 2, wrong


@pytest.mark.slow
def test_direct_comparison_with_collie_bench(punkt_dir: Path) -> None:
    _official_environment()
    again = official.official_verdicts(punkt_dir.parents[3])
    assert again == json.loads(official.VERDICTS.read_text("utf-8"))


def test_the_punkt_algorithm_is_nltks(punkt_dir: Path) -> None:
    punkt = pytest.importorskip("nltk.tokenize.punkt", reason="nltk is not installed")
    ours = read_punkt(punkt_dir)
    theirs = punkt.PunktParameters()
    theirs.abbrev_types = set(ours.abbreviations)
    theirs.collocations = set(ours.collocations)
    theirs.sent_starters = set(ours.starters)
    theirs.ortho_context.update(ours.contexts)
    tokenizer = punkt.PunktSentenceTokenizer(theirs)
    # NLTK 3.9 and later realign curly quotes too; COLLIE's 3.8.1 does not.
    texts = [t for t in (*official.EDGE_TEXTS, *official.made_texts(2000)) if t.isascii()]
    assert len(texts) > 900
    for text in texts:
        assert sentence_rules.split(text, ours) == tokenizer.tokenize(text)


@pytest.mark.parametrize(
    ("task", "targets", "text", "passes"),
    [
        ("sent_01", 5, "abcde", True),
        ("sent_01", 5, " abcd", True),
        ("sent_01", 5, "abcde\n", False),
        ("sent_02", [11, ["D", "h", "k"]], "a b c d e f g h i j k.", True),
        ("sent_02", [4, ["d", "h", "k"]], "a b c d.", False),
        ("sent_03", [3, 4], "This word fits.", True),
        ("sent_03", [3, 3], "This word fits.", False),
        ("sent_04", ["have"], "The have-nots.", False),
        ("sent_04", ["have"], "They haven't.", True),
        ("sent_04", ["HAVE", "the"], "The cats have it.", True),
        ("para_01", "He", "", True),
        ("para_01", "He", "...", False),
        ("para_01", "he", "He ran. He sat.", True),
        ("para_02", [2, "be", "to", "is"], "He ran. She sat.", True),
        ("para_02", [2, "be", "to", "is"], "He ran to. She sat.", False),
        ("para_03", [2, 2, 3], "He ran. She sat down.", True),
        ("para_03", [2, 2, 2], "He ran. She sat down.", False),
        ("para_04", [2, 2], "He ran. She sat. It fell.", True),
        ("para_04", [2, 3], "He ran. She sat. It fell.", False),
        ("para_05", [2, ["ran", "sat"]], "He ran. She sat!", True),
        ("para_05", [2, ["ran"]], "He ran. She sat.", False),
        ("para_05", [2, ["it", "sat"]], 'He saw "it". She sat.', False),
    ],
)
def test_worked_examples(task: str, targets: Any, text: str, passes: bool) -> None:
    assert collie.verify(task, targets, text, splitter=FALLBACK) is passes


def test_the_empty_text_passes_only_para_01_and_nothing_else(collie_dir: Path) -> None:
    passed = {i.task for i in collie.load_instances() if collie.verify(i.task, i.targets, "")}
    assert passed == {"para_01"}


def test_unknown_tasks_and_targets_of_another_form_are_refused() -> None:
    with pytest.raises(EvaluationError, match="sent_01"):
        collie.verify("sent_99", 1, "a")
    with pytest.raises(EvaluationError, match="form of sent_02"):
        collie.verify("sent_02", 5, "a")


def test_without_data_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DISCIPLE_COLLIE", raising=False)
    with pytest.raises(EvaluationError, match="Set DISCIPLE_COLLIE"):
        collie.load_instances()
    with pytest.raises(EvaluationError, match="no COLLIE data at"):
        collie.load_instances(tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "a"}', "7"])
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "wiki.jsonl"
    file.write_text(line + "\n", "utf-8")
    with pytest.raises(EvaluationError, match=r"wiki\.jsonl:1 "):
        collie.load_instances(file)


def test_an_instance_of_an_unknown_task_is_named(tmp_path: Path) -> None:
    row = dict.fromkeys(("id", "corpus", "prompt", "targets", "example"), "") | {"task": "x"}
    (tmp_path / "wiki.jsonl").write_text(json.dumps(row), "utf-8")
    with pytest.raises(EvaluationError, match="unknown task 'x'"):
        collie.load_instances(tmp_path)


def test_without_parameters_the_fallback_is_used_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "disciple_ext.evaluation.suites.punkt._data_directories", lambda: [tmp_path]
    )
    assert default_splitter().name == "fallback"
    assert default_splitter().cut is units.split


def test_broken_parameters_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_punkt(tmp_path)
