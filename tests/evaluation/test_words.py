"""COLLIE's words and passages: the ground truth, the instances made here, and COLLIE's own file."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli
from disciple_ext.errors import EvaluationError, UsageError
from disciple_ext.evaluation.suites import collie
from disciple_ext.evaluation.suites.convert import COLLIE_NAMES, convert
from disciple_ext.evaluation.suites.unpickling import PickledObject, read_pickle
from disciple_ext.evaluation.suites.words import PLACES, word_instances
from disciple_ext.planner.expert.planner import write_program
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.sandbox.check.check import check

# The ground truth -----------------------------------------------------------------------------

PASSAGE = "It was so. He left.\n\nShe came. She said: all is well!"
ENDS = ["He left.", "She said: all is well!"]
CASES: list[tuple[str, Any, str, bool]] = [
    ("word_01", 10, "government", True),
    ("word_01", 11, "government", False),
    ("word_01", 10, "any ten characters, words or not", True),
    ("word_02", [13, ["e", "a", "o"]], "international", False),
    ("word_02", [13, ["e", "t", "n"]], "international", True),
    ("word_02", [13, ["E", "T", "N"]], "INTERNATIONAL", True),
    ("word_02", [13, ["e", "t", "n"]], "international ", False),
    ("word_02", [3, ["e", "t", "n"]], "int", False),
    ("word_03", [9, "c"], "fantastic", True),
    ("word_03", [9, "C"], "fantastic", True),
    ("word_03", [10, "c"], "fantastic.", False),
    ("word_03", [0, "c"], "", False),
    ("pass_01", [ENDS, 2], PASSAGE, True),
    ("pass_01", [[e.upper() for e in ENDS], 2], PASSAGE, True),
    ("pass_01", [ENDS, 3], PASSAGE, False),
    ("pass_01", [ENDS[:1], 2], PASSAGE, False),
    ("pass_01", [ENDS, 2], PASSAGE.replace("\n\n", "\n"), False),
    ("pass_01", [[""], 1], "", False),
]


@pytest.mark.parametrize(("task", "targets", "text", "passes"), CASES)
def test_verdicts(task: str, targets: Any, text: str, passes: bool) -> None:
    assert collie.verify(task, targets, text) is passes


def official_constraints() -> dict[str, Any]:
    c = pytest.importorskip("collie.constraints", reason="collie-bench is not installed")

    def on(target: str, what: Any, relation: str = "==", each: str | None = None) -> Any:
        return c.Constraint(
            input_level=c.InputLevel(each) if each else None,
            target_level=c.TargetLevel(target),
            transformation=c.ForEach(what) if each else what,
            relation=c.Relation(relation),
            reduction=c.Reduction("all") if each else None,
        )

    count = on("character", c.Count())
    return {
        "word_01": on("character", c.Count(), ">="),
        "word_02": c.All(count, on("character", c.Position([3, 7, 10]))),
        "word_03": c.All(count, on("character", c.Position(-1))),
        "pass_01": c.All(
            on("sentence", c.Position(-1), "==", "paragraph"),
            on("sentence", c.Count(), ">=", "paragraph"),
        ),
    }


def test_the_official_checker_gives_the_same_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    official = official_constraints()
    import collie.constraints as c

    cut = collie.default_splitter().cut  # what finds sentences is tested elsewhere
    monkeypatch.setattr(c, "sent_tokenize", cut)
    draw = random.Random(4)
    texts = [text for _, _, text, _ in CASES]
    texts += [
        draw.choice(texts) + draw.choice(("", " ", ".", "\n\n", "é", "\n\nNo. 2 left."))
        for _ in range(60)
    ]
    texts += ["".join(draw.choices("abcE. -'é\n", k=draw.randrange(15))) for _ in range(100)]
    passed: Counter[tuple[str, bool]] = Counter()
    for text in texts:
        last = [(cut(p) or [""])[-1] for p in text.split("\n\n")]
        chars = [text[place - 1 : place] or "x" for place in PLACES]
        for task, targets in (
            *((task, targets) for task, targets, _, _ in CASES),
            ("word_01", len(text)),
            ("word_02", [len(text), [char.upper() for char in chars]]),
            ("word_03", [len(text), text[-1:] or "x"]),
            ("pass_01", [last, draw.randrange(3)]),
        ):
            theirs = bool(official[task].check(text, targets))
            assert collie.verify(task, targets, text) is theirs, (task, targets, text)
            passed[task, theirs] += 1
    assert min(passed[task, verdict] for task in official for verdict in (True, False)) > 5


# The instances ----------------------------------------------------------------------------------


def test_there_are_200_instances_whose_examples_meet_them() -> None:
    instances = word_instances()
    assert Counter(i.task for i in instances) == {"word_01": 67, "word_02": 67, "word_03": 66}
    assert len({i.id for i in instances}) == 200 and instances == word_instances()
    suite = load_plugins(installed=False).make("suites", "words")
    assert list(suite.instances(None)) == instances
    assert set(suite.budgets) == set(collie.WORD_TASKS)
    for i in instances:
        assert suite.verify(i, i.example) and i.example.isalpha() and i.example.islower()
        source = write_program(i.prompt)
        assert check(source) == [] and i.example not in source
    with pytest.raises(UsageError, match="leave --data out"):
        suite.instances("there")


def test_the_wording_is_collies(monkeypatch: pytest.MonkeyPatch) -> None:
    official = official_constraints()
    # The renderer imports a client that only its polishing uses.
    monkeypatch.setitem(sys.modules, "openai", type(sys)("openai"))
    render = pytest.importorskip("collie.constraint_renderer").ConstraintRenderer
    for i in word_instances():
        theirs = render(official[i.task], i.targets).prompt
        assert i.prompt == theirs, i.id


# COLLIE's own file ------------------------------------------------------------------------------


def own_file(path: Path, instances: list[collie.Instance], dump: Any) -> None:
    """A file of the shape of ``all_data.dill``, with the official constraints in it."""
    official = official_constraints()
    names = {ours: theirs for theirs, ours in COLLIE_NAMES.items()}
    data: dict[str, list[dict[str, Any]]] = {"wiki_c99": []}
    for i in instances:
        corpus = "english" if i.task.startswith("word") else i.corpus
        row = {"example": i.example, "prompt": i.prompt, "metadata": {"title": "x"}}
        row["targets"] = [i.targets] if i.task in ("sent_01", "word_01") else i.targets
        row["constraint"] = official.get(i.task, official["word_01"])
        row["oneshot_example"] = ...
        data.setdefault(f"{corpus}_{names[i.task]}", []).append(row)
    with path.open("wb") as file:
        dump(data, file)


def converted(tmp_path: Path, collie_dir: Path, dump: Any) -> None:
    wiki = collie.load_instances(collie_dir / "wiki.jsonl")
    passage = collie.Instance("", "pass_01", "Write.", [ENDS, 2], "guten", PASSAGE)
    own_file(tmp_path / "all_data.dill", [*wiki, *word_instances(), passage], dump)
    counts = convert(tmp_path / "all_data.dill", tmp_path / "out")
    assert counts["wiki/sent_01"] == 38 and counts["english/word_02"] == 67
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "wiki.jsonl",
        "english.jsonl",
        "guten.jsonl",
    }
    assert collie.load_instances(tmp_path / "out") == wiki
    words = collie.load_instances(tmp_path / "out" / "english.jsonl")
    assert [(w.prompt, w.targets) for w in words] == [
        (w.prompt, w.targets) for w in word_instances()
    ]
    (found,) = collie.load_instances(tmp_path / "out" / "guten.jsonl")
    assert found.id == "guten/pass_01/000" and collie.verify("pass_01", found.targets, PASSAGE)
    with pytest.raises(EvaluationError, match="is there already"):
        convert(tmp_path / "all_data.dill", tmp_path / "out")


def test_collies_file_is_converted(tmp_path: Path, collie_dir: Path) -> None:
    dill = pytest.importorskip("dill", reason="dill is not installed")
    converted(tmp_path, collie_dir, dill.dump)


def test_a_plain_pickle_of_it_is_converted_too(tmp_path: Path, collie_dir: Path) -> None:
    converted(tmp_path, collie_dir, pickle.dump)


class Runs:
    """What a pickle asks to be called."""

    def __init__(self, call: Any, *args: Any) -> None:
        self.what = (call, args)

    def __reduce__(self) -> Any:
        return self.what


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.check_output", "eval", "getattr", "exec"]
)
def test_a_file_that_would_run_something_is_refused_and_runs_nothing(
    tmp_path: Path, name: str
) -> None:
    witness = tmp_path / "ran"
    import os

    call = {
        "os.system": Runs(os.system, f"touch {witness}"),
        "subprocess.check_output": Runs(subprocess.check_output, ["touch", str(witness)]),
        "eval": Runs(eval, f"open({str(witness)!r}, 'w')"),
        "getattr": Runs(getattr, "x", "upper"),
        "exec": Runs(exec, f"open({str(witness)!r}, 'w')"),
    }[name]
    file = tmp_path / "all_data.dill"
    file.write_bytes(pickle.dumps({"wiki_c04": [{"targets": call}]}))
    with pytest.raises(EvaluationError, match="names .*, which is no data. Nothing of it was run"):
        convert(file, tmp_path / "out")
    assert not witness.exists() and not (tmp_path / "out").exists()


def test_dills_way_to_evaluate_is_refused_but_for_three_names(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    code = f"open({str(witness)!r}, 'w')".encode()
    file = tmp_path / "x.dill"
    file.write_bytes(b"cdill._dill\n_eval_repr\n(V" + code + b"\ntR.")
    with pytest.raises(EvaluationError, match="evaluates"):
        read_pickle(file)
    assert not witness.exists()
    file.write_bytes(b"cdill._dill\n_eval_repr\n(VEllipsis\ntR.")
    assert read_pickle(file) is ...


def test_objects_of_known_packages_come_out_as_records(tmp_path: Path) -> None:
    file = tmp_path / "x.pickle"
    file.write_bytes(pickle.dumps({"made": __import__("datetime").date(2024, 1, 2)}))
    made = read_pickle(file)["made"]
    assert isinstance(made, PickledObject) and made.name == "datetime.date"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no pickle", "no data file that can be read safely"),
        (pickle.dumps([1, 2]), "it holds a list"),
        (pickle.dumps({"wiki_c99": []}), "no entries such as 'wiki_c04'"),
        (pickle.dumps({"wiki_c04": [{"prompt": "x"}]}), "wiki/sent_01/000 is no instance"),
        (
            pickle.dumps({"wiki_c04": [{"prompt": 1, "targets": 1, "example": ""}]}),
            "should be texts",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "all_data.dill"
    file.write_bytes(content)
    with pytest.raises(EvaluationError, match=message):
        convert(file, tmp_path / "out")
    with pytest.raises(EvaluationError, match="cannot be read"):
        convert(tmp_path / "absent", tmp_path / "out")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "all_data.dill", tmp_path / "out"
    row = {"prompt": "Write.", "targets": [82], "example": "x"}
    file.write_bytes(pickle.dumps({"ccnews_c04": [row]}))
    assert cli.run(["eval", "convert", str(file), str(out)]) == 0
    assert "ccnews/sent_01: 1 instances" in capsys.readouterr().err
    assert json.loads((out / "ccnews.jsonl").read_text())["targets"] == 82
    assert cli.run(["eval", "convert", str(file), str(out)]) != 0
    assert "is there already" in capsys.readouterr().err


# The claim: most answers are words of a list that no program has seen ----------------------------

WORD_LIST = Path("/usr/share/dict/american-english-large")


@pytest.mark.slow
def test_answers_pass_and_most_are_real_words(tmp_path: Path) -> None:
    if not WORD_LIST.exists():
        pytest.skip("Debian's wamerican-large is not installed")
    from disciple_ext.evaluation.run import evaluate

    real = {line.strip().lower() for line in WORD_LIST.read_text("utf-8").split("\n")}
    rows = evaluate(["is"], out=tmp_path, suite="words", limit=8)
    assert len(rows) == 24 and not any(row.error for row in rows)
    assert sum(row.pass_at_1 for row in rows) / len(rows) >= 0.95
    shares = [sum(w for w, s in weighted(row) if s.text.lower() in real) for row in rows]
    assert sum(shares) / len(shares) >= 0.6, shares


def weighted(row: Any) -> list[tuple[float, Any]]:
    from disciple_ext.evaluation.scores.metrics import sample_weights

    return list(zip(sample_weights([s.log_weight for s in row.samples]), row.samples, strict=True))
