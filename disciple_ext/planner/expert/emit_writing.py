"""From a sentence or paragraph under constraints to a program that meets them by construction.

All programs are cut from one machine: it writes a word (a given one, one that is still missing,
or a free one), asks whether the sentence may end here, and then whether the text may. Each line
of it is emitted only where a constraint needs it.
"""

from __future__ import annotations

from .constraints import Writing
from .emit import Sketch, assign
from .emit_check import check_lines
from .emit_words import break_lines, finish_lines, hint_lines, indented, mark_lines, word_lines
from .layout import Layout, lay_out
from .prompts import prompt, summary

__all__ = ["emit_writing"]


def emit_writing(writing: Writing) -> str:
    """The program for a sentence or a paragraph.

    Raises:
        TaskNotUnderstood: the task can be read, but the expert has no program for this mix.
    """
    layout = lay_out(writing)
    sketch = Sketch(
        summary=summary(writing),
        max_tokens=layout.max_tokens,
        prior=prompt(writing, layout, constrained=False),
        proposal=prompt(writing, layout, constrained=True),
    )
    _state(sketch, layout)
    if layout.plain:
        _sentence_steps(sketch, layout)
    else:
        _word_steps(sketch, layout)
    sketch.check = check_lines(writing)
    return sketch.source()


# The machine ---------------------------------------------------------------------------------


def _state(sketch: Sketch, layout: Layout) -> None:
    if layout.given:
        sketch.state += assign("given", layout.given)
    # A plain paragraph forces its first word in the step itself, and needs no table.
    if set(layout.every) - {1} or (layout.every and not layout.plain):
        sketch.state += assign("every", layout.every)
    if layout.firsts:
        sketch.state += assign("firsts", list(layout.firsts))
    if layout.lasts:
        sketch.state += assign("lasts", list(layout.lasts))
    if layout.contains:
        sketch.state += [*assign("missing", list(layout.contains)), "self.free = 0"]
    if layout.avoids:
        sketch.state += assign("avoid", layout.avoids)
    if layout.level == "paragraph":
        sketch.state.append("self.sentence = 0")


def _sentence_steps(sketch: Sketch, layout: Layout) -> None:
    """A paragraph whose sentences are drawn whole."""
    step, words = sketch.step, layout.sentence_words
    sketch.granularity = "sentence"
    sketch.strategy = "the follower writes a sentence within the bounds and ends it where it likes."
    first = None
    if layout.firsts:
        first = "self.firsts[self.sentence]"
    elif 1 in layout.every:
        first = repr(layout.every[1])
    if first:
        sketch.strategy = "the first word is forced; the follower writes the rest of the sentence."
        if layout.firsts:
            step.append(f'await self.force((" " if self.text else "") + {first})')
        else:
            word = layout.every[1]
            step.append(f"await self.force({' ' + word!r} if self.text else {word!r})")
    low, high = str(words.low), str(words.high)
    if layout.total:
        low, high = _share(step, layout)
    arguments = [f"min_words={low}", f"max_words={high}"]
    if layout.avoids:
        arguments.append("avoid=self.avoid")
    if layout.word_chars.high is not None:
        arguments.append(f"max_word_chars={layout.word_chars.high}")
    step.append(f"await self.next_sentence({', '.join(arguments)})")
    _close_sentence(sketch, layout)


def _share(step: list[str], layout: Layout) -> tuple[str, str]:
    """Bounds of the next sentence that leave the others enough words, and not too many."""
    words, total = layout.sentence_words, layout.total
    step += [
        "written = len(self.words)",
        f"rest = {layout.sentences.low} - self.sentence - 1  # sentences after this one",
    ]
    low, high = str(words.low), str(words.high)
    if total.low:
        # What the others can take at most, this one need not; what they need at least, it must
        # leave.
        low = f"max({low}, {total.low} - written - {high} * rest)"
    if total.high is not None:
        high = f"min({high}, {total.high} - written - {words.low} * rest)"
    return low, high


def _close_sentence(sketch: Sketch, layout: Layout) -> None:
    """After a sentence of a paragraph: count it, and end the text if it is over."""
    fewest, most = layout.sentences.low, layout.sentences.high
    sketch.step.append("self.sentence += 1")
    if fewest == most:
        sketch.step.append(f"if self.sentence == {most}:")
        sketch.end = f"{most} sentence{'s' * (most != 1)}."
    else:
        sketch.step += [
            f"over = self.sentence == {most}",
            f"if over or self.sentence >= {fewest} and await self.wants_to_end():",
        ]
        sketch.end = f"the follower wants to end after {fewest} sentences, or there are {most}."
    sketch.step.append("    await self.end()")


def _word_steps(sketch: Sketch, layout: Layout) -> None:
    """A sentence, or a paragraph's sentence, written word by word."""
    single = layout.level == "sentence"
    steered = bool(layout.given or set(layout.every) - {1} or layout.lasts or layout.last)
    if single:
        body = ["place = len(self.words) + 1", *word_lines(layout), *finish_lines(layout, steered)]
        sketch.step = ["while True:", *indented(body)] if steered and layout.given else body
        sketch.granularity = "up to and including the next given word" if layout.given else "word"
        sketch.end = "the sentence has its words, and its final mark."
    else:
        if layout.lasts:
            sketch.step.append("last = self.lasts[self.sentence]")
            sketch.step += hint_lines(layout)
        sketch.step += ["place = 0", "while True:"]
        sketch.step += indented(["place += 1", *word_lines(layout), *break_lines(layout)])
        sketch.step += mark_lines(layout)
        _close_sentence(sketch, layout)
        sketch.granularity = "sentence"
    sketch.strategy = _strategy(layout)


def _strategy(layout: Layout) -> str:
    parts = ["free words are drawn one by one"]
    if layout.given or layout.every or layout.firsts:
        parts.append("given words are forced at their places")
    if layout.contains:
        parts.append("missing words come where the text wants them, or after six free words")
    if layout.lasts or layout.last:
        parts.append("the last word comes where the text wants it")
    if layout.length:
        parts.append("each word leaves room for those after it, and the last one fits exactly")
    return "; ".join(parts) + "."
