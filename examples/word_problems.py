"""Grade-school word problems, solved line by line under a step scorer. Takes some seconds.

The follower cannot add: it guesses each result. The step scorer looks at each line as it is
finished, and particles with wrong lines lose their weight. Run it with:

    python examples/word_problems.py
"""

import random
import re
from pathlib import Path

from disciple_ext import run_program
from disciple_ext.services import Score, Steps

PROGRAM = (Path(__file__).parent / "programs" / "word_problem.py").read_text()
STEP = re.compile(r"(\d+) ([+-]) (\d+) = (-?\d+)")


def problem(seed: int) -> tuple[str, int]:
    """A problem in words, and its answer."""
    rng = random.Random(seed)
    name, things = rng.choice(["Mia", "Tom", "Ada"]), rng.choice(["apples", "coins", "cards"])
    total = rng.randint(10, 19)
    told = [f"{name} has {total} {things}."]
    for _ in range(2):
        moves = [("finds", 1), ("buys", 1), ("gives away", -1), ("loses", -1)]
        steps = [(v, n, s) for v, s in moves for n in range(2, 8) if 10 <= total + s * n <= 19]
        verb, number, sign = rng.choice(steps)
        told.append(f"Then {name} {verb} {number}.")
        total += sign * number
    return " ".join([*told, f"How many {things} does {name} have now?"]), total


def right(line: str) -> float:
    """Whether the arithmetic of a line is right: 0, or -1."""
    sums = STEP.findall(line)
    return -sum(int(c) != (int(a) + int(b) if op == "+" else int(a) - int(b))
                for a, op, b, c in sums)  # fmt: skip


steps = Steps(Score(right, temperature=0.1))
# A process reward model in its place: steps = Steps(Reward("PATH", temperature=0.5))


def solved(services: dict) -> float:
    """The share of the weight that is on right answers, over some problems."""
    shares = []
    for seed in range(3):
        task, answer = problem(seed)
        result = run_program(PROGRAM, task, n=128, seed=seed, services=services)
        good = [p.weight for p in result.particles if p.text.endswith(f"Answer: {answer}")]
        shares.append(sum(good))
        print(f"{task}\n    {result.text!r}; {answer} has {sum(good):.2f} of the weight")
    return sum(shares) / len(shares)


if __name__ == "__main__":
    print(f"with the step scorer: {solved({'steps': steps}):.2f} of the weight is on right answers")
    nothing = Score(lambda text: 0.0)
    print(f"without: {solved({'steps': nothing}):.2f}")
