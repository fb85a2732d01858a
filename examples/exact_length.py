"""A sentence of exactly 60 characters, with the program that wrote it. Takes some seconds.

Run it with: python examples/exact_length.py
"""

from disciple_ext import Task, self_steer

TASK = Task(
    "Please generate a sentence with exactly 60 characters. "
    "Include whitespace into your character count.",
    n=8,
    verify=lambda text: len(text) == 60,
)

result = self_steer(TASK, seed=0)
print(result.text)
print(f"check: {result.check}, verified: {result.verified}, ESS: {result.ess:.1f} of {TASK.n}")
print()
for particle in sorted(result.particles, key=lambda p: -p.log_weight):
    print(f"{particle.weight:6.3f}  {particle.finish_reason:10}  {particle.text}")
print()
print(result.program["source"])
