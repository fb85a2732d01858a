"""One sentence from a few concepts, as in CommonGen: a domain for disciple-ext's evaluation.

The page "Add a domain" of disciple-ext's documentation walks through this file.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from disciple_ext import Program, TaskNotUnderstood, hookimpl
from disciple_ext.evaluation.suites.base import Budget, Instance, Suite
from disciple_ext.planner.base import Plan
from disciple_ext.text import units

__all__ = ["forms", "instances", "verify", "write_program"]

KINDS = {"N": "noun", "V": "verb"}
IRREGULAR = {
    **{
        "child": "children",
        "man": "men",
        "woman": "women",
        "knife": "knives",
        "fish": "fish fishes",
    },
    **{
        "bring": "brought",
        "build": "built",
        "catch": "caught",
        "cut": "cut",
        "drink": "drank drunk",
    },
    **{"drive": "drove driven", "eat": "ate eaten", "find": "found", "fly": "flew flown"},
    **{"give": "gave given", "hang": "hung", "hold": "held", "leave": "left", "read": "read"},
    **{"ride": "rode ridden", "run": "ran", "see": "saw seen", "sell": "sold", "sing": "sang sung"},
    **{"sit": "sat", "sleep": "slept", "speak": "spoke spoken", "stand": "stood"},
    **{"swim": "swam swum", "throw": "threw thrown", "wear": "wore worn", "write": "wrote written"},
}
DOUBLED = ("cut", "run", "sit", "swim")


def forms(word, kind):
    """The inflections of a noun or a verb, the word itself first."""
    plural = re.sub("(?<=[^aeiou])y$", "ie", word) + "s"
    if re.search("(s|x|z|ch|sh)$", word):
        plural = word + "es"
    irregular = IRREGULAR.get(word, "").split()
    if kind == "noun":
        return list(dict.fromkeys([word, *(irregular or [plural])]))
    stem = word + word[-1] if word in DOUBLED else re.sub("e$", "", word)
    past = irregular or [re.sub("(?<=[^aeiou])y$", "i", stem) + "ed"]
    ing = (word if word == "see" else stem) + "ing"
    return list(dict.fromkeys([word, plural, *past, ing]))


def instances(path=None):
    """The concept sets of a file, one a line, such as ``dog_N catch_V ball_N``; ours if None."""
    text = Path(path).read_text("utf-8") if path else _ours("concepts.txt")
    found = []
    for number, line in enumerate(text.split("\n")):
        concepts = [(w, KINDS[k]) for w, k in (c.rsplit("_", 1) for c in line.split())]
        if concepts:
            task = f"concepts_{len(concepts)}"
            named = ", ".join(f"{word} ({kind})" for word, kind in concepts)
            prompt = f"Write one sentence that uses all of these words, in any form: {named}."
            found.append(Instance(f"{task}/{number:03}", task, prompt, targets=concepts))
    return found


def _ours(name):
    return files("disciple_keywords").joinpath(name).read_text("utf-8")


def verify(instance, text):
    """One sentence, in which each concept stands in one of its forms."""
    words = units.words(text)
    used = [
        any(units.same_word(word, form) for word in words for form in forms(*concept))
        for concept in instance.targets
    ]
    return all(used) and len(units.sentences(text)) == 1


def write_program(instruction):
    """The program in ``program.py`` for the concepts that a task names."""
    concepts = re.findall(r"(\w+) \((noun|verb)\)", instruction)
    if not concepts:
        raise TaskNotUnderstood("no word with (noun) or (verb) behind it in the task")
    given = repr([forms(*concept) for concept in concepts])
    named = ", ".join(repr(word) for word, _ in concepts)
    source = _ours("program.py").replace(EXAMPLE_FORMS, given)
    return source.replace("'dog', 'catch', 'ball'", named)


EXAMPLE_FORMS = '[["dog", "dogs"], ["catch", "catches", "caught"], ["ball", "balls"]]'
"""What stands in ``program.py``, which is a whole program, for the concepts of a task."""


class KeywordsPlanner:
    """Writes the expert program of this domain, without a model."""

    name = "keywords"

    async def plan(self, task, feedback):
        """The same program for the same task, whatever became of it before."""
        return Plan(Program(write_program(task.instruction), planner=self.name), cost=0.0)


def suite():
    """The suite, with the budgets that the paper gives sentences."""
    budget = Budget("sentence", n=32, timeout=120.0, tokens=32, prior_prompt="Write a sentence.")
    return Suite(
        name="keywords",
        budgets={f"concepts_{count}": budget for count in (3, 4, 5)},
        instances=instances,
        verify=verify,
        prescribed=lambda i: [form for concept in i.targets for form in forms(*concept)],
    )


@hookimpl
def register_suites():
    """The suite ``keywords``: ``disciple eval keywords``."""
    return {"keywords": suite}


@hookimpl
def register_planners():
    """The planner ``keywords``: ``--planner keywords``."""
    return {"keywords": lambda argument="": KeywordsPlanner()}
