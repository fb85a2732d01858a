"""From a sentence or paragraph under constraints to a program that meets them by construction.

All programs are cut from one machine: it writes a word (a given one, one that is still missing,
or a free one), asks whether the sentence may end here, and then whether the text may. Each line
of it is emitted only where a constraint needs it.
"""

from __future__ import annotations

from .constraints import LAST, Range, Writing
from .emit import Sketch, assign, listed, quoted
from .layout import Layout, lay_out

__all__ = ["emit_writing"]


def emit_writing(writing: Writing) -> str:
    """The program for a sentence or a paragraph.

    Raises:
        TaskNotUnderstood: the task can be read, but the expert has no program for this mix.
    """
    layout = lay_out(writing)
    sketch = Sketch(
        summary=_summary(writing),
        max_tokens=layout.max_tokens,
        prior=_prompt(writing, layout, constrained=False),
        proposal=_prompt(writing, layout, constrained=True),
    )
    _state(sketch, layout)
    if layout.plain:
        _sentence_steps(sketch, layout)
    else:
        _word_steps(sketch, layout)
    _check(sketch, writing, layout)
    return sketch.source()


# Words about the task ------------------------------------------------------------------------


def _summary(writing: Writing) -> str:
    parts = []
    for limit, unit in (
        (writing.characters, "characters"),
        (writing.words, "words"),
        (writing.sentences, "sentences"),
    ):
        if limit:
            parts.append(f"with {limit.phrase(unit)}")
    if writing.sentence_words:
        parts.append(f"with sentences of {writing.sentence_words.phrase('words')}")
    if writing.word_chars:
        parts.append(f"with words of {writing.word_chars.phrase('characters')}")
    for places, scope in ((writing.placed, ""), (writing.every_placed, " of every sentence")):
        if places:
            where = listed([_ordinal(place) for place, _ in places])
            plural = "words" if len(places) > 1 else "word"
            parts.append(f"with {quoted(w for _, w in places)} as the {where} {plural}{scope}")
    if writing.first_words:
        parts.append(f"whose sentences start with {quoted(writing.first_words)}")
    if writing.last_words:
        parts.append(f"whose sentences end with {quoted(writing.last_words)}")
    if writing.contains:
        parts.append(f"that contains {quoted(writing.contains)}")
    if writing.avoids:
        parts.append(f"without the words {quoted(writing.avoids)}")
    about = f" about {writing.topic}" if writing.topic else ""
    return f"Writes a {writing.level}{about} {', '.join(parts)}".rstrip() + "."


def _ordinal(place: int) -> str:
    if place == LAST:
        return "last"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{'th' if 10 < place % 100 < 14 else ending}"


def _prompt(writing: Writing, layout: Layout, *, constrained: bool) -> str:
    """A prompt of the kinds that the embedded follower was tuned on."""
    parts = [f"Write a {writing.level}"]
    if writing.topic:
        parts.append(f"about {writing.topic}")
    if not constrained:
        return " ".join(parts) + "."
    sentence = writing.level == "sentence"
    exact = writing.characters.exact
    if sentence and exact is not None:
        parts.append(f"with {exact} characters")
    elif sentence and writing.words.exact is not None:
        parts.append(f"with {writing.words.exact} words")
    elif not sentence and writing.sentences.exact is not None:
        parts.append(f"with {writing.sentences.exact} sentences")
    if layout.lasts and all(layout.lasts):
        parts.append(f"that end with {quoted(layout.lasts)}")
    elif not sentence and layout.firsts and len(set(layout.firsts)) == 1:
        parts.append(f"where every sentence starts with '{layout.firsts[0]}'")
    words = [*dict(sorted(layout.given.items())).values(), *writing.contains]
    if words:
        parts.append(f"with the word{'s' * (len(words) > 1)} {quoted(words)}")
    elif sentence and layout.last:
        parts.append(f"that ends with '{layout.last}'")
    elif not sentence and len(parts) == 1 and layout.sentence_words.low >= 17:
        parts.append("with long sentences")
    return " ".join(parts) + "."


# The machine ---------------------------------------------------------------------------------


def _state(sketch: Sketch, layout: Layout) -> None:
    if layout.given:
        sketch.state += assign("given", layout.given)
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
        body = ["place = len(self.words) + 1", *_write(layout), *_finish_sentence(layout, steered)]
        sketch.step = ["while True:", *_in(body)] if steered and layout.given else body
        sketch.granularity = "up to and including the next given word" if layout.given else "word"
        sketch.end = "the sentence has its words, and its final mark."
    else:
        if layout.lasts:
            sketch.step.append("last = self.lasts[self.sentence]")
            sketch.step += _hint(layout)
        sketch.step += ["place = 0", "while True:"]
        sketch.step += _in(["place += 1", *_write(layout), *_break(layout)])
        sketch.step += _mark(layout)
        _close_sentence(sketch, layout)
        sketch.granularity = "sentence"
    sketch.strategy = _strategy(layout)


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


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


# Writing one word ---------------------------------------------------------------------------


def _write(layout: Layout) -> list[str]:
    """Statements that write the word at ``place``."""
    cases: list[tuple[str, list[str]]] = []
    single = layout.level == "sentence"
    if layout.firsts:
        cases.append(("place == 1", [_force(layout, "self.firsts[self.sentence]", first=True)]))
    for name, places in (("given", layout.given), ("every", layout.every)):
        if places:
            where = "place" if single or name == "every" else "len(self.words) + 1"
            force = _force(layout, f"self.{name}[{where}]", first=1 in places)
            cases.append((f"{where} in self.{name}", [force]))
    starts_free = not (layout.firsts or 1 in layout.given or 1 in layout.every)
    if layout.contains:
        if starts_free:
            draw = [*_room(layout), f"word = await {_call(layout, 'True')}"]
            cases.append(("place == 1", [*draw, *_found()]))
        free = [*_missing(layout), *_found()]
    else:
        free = [*_room(layout), f"await {_call(layout, 'place == 1' if starts_free else '')}"]
    lines: list[str] = []
    for number, (condition, body) in enumerate(cases):
        lines += [f"{'elif' if number else 'if'} {condition}:", *_in(body)]
    return [*lines, "else:", *_in(free)] if lines else free


def _force(layout: Layout, word: str, *, first: bool) -> str:
    """A given word with the space before it; only a first word may stand without one."""
    if first or layout.level == "paragraph" and layout.given:
        return f'await self.force((" " if self.text else "") + {word})'
    return f'await self.force(" " + {word})'


def _call(layout: Layout, capital: str) -> str:
    """The call that draws a free word."""
    arguments = []
    longest = layout.word_chars.high
    if layout.length.high is not None:
        arguments += ["min_chars=least", "max_chars=most", "punctuation=marks"]
    elif longest is not None:
        arguments.append(f"max_chars={longest}")
    if layout.word_chars.low > 1 and layout.length.high is None:
        arguments.append(f"min_chars={layout.word_chars.low}")
    if layout.avoids:
        arguments.append("avoid=self.avoid")
    if capital:
        arguments.append(f"capital={capital}")
    return f"self.next_word({', '.join(arguments)})"


def _missing(layout: Layout) -> list[str]:
    """Statements that write a word that must still come in, or else a free one."""
    must = "self.free == 6"
    if layout.level == "sentence":
        taken = " - sum(p >= place for p in self.given)" if layout.given else ""
        must += f" or len(self.missing) > {layout.sentence_words.high} - place{taken}"
    elif layout.sentences.low:
        must = f"self.free == {max(6, layout.sentence_words.low)}"
    return [
        f"must = {must}",
        "for word in self.missing:",
        "    if must or await self.wants_word(word):",
        '        await self.force(" " + word)',
        "        self.free = 0",
        "        break",
        "else:",
        *_in(_room(layout)),
        f"    word = await {_call(layout, '')}",
        "    self.free += 1",
    ]


def _found() -> list[str]:
    return ["self.missing = [w for w in self.missing if not units.same_word(w, word)]"]


def _room(layout: Layout) -> list[str]:
    """Statements that say how long the next word may be in a text of a given length."""
    if layout.length.high is None:
        return []
    length, words = layout.length.high, layout.sentence_words
    longest = min(layout.word_chars.high or 11, 11)
    lines = [f"room = {length - 1} - len(self) - bool(self.text)  # letters, before the mark"]
    if layout.given:
        lines.append("room -= sum(len(w) + 1 for p, w in self.given.items() if p > place)")
    if layout.contains:
        lines.append("room -= sum(len(w) + 1 for w in self.missing)")
    if words.exact is not None and layout.length.exact is not None:
        rest = f"{words.exact} - place"
        if layout.given:
            rest += " - sum(p > place for p in self.given)"
        if layout.contains:
            rest += " - len(self.missing)"
        return [
            *lines,
            f"rest = {rest}  # free words after this one",
            f"least, most = max(1, room - {longest + 1} * rest), room - 3 * rest",
            'marks = "," if rest > 1 else ""',
        ]
    least = layout.word_chars.low or 1
    if layout.length.exact is None:
        return [*lines, f'least, most, marks = {least}, room, "," if room > 12 else ""']
    fits = min(longest, 7)
    coin = f" or room <= {min(longest, 10)} and self.random.random() < 0.5"
    return [
        *lines,
        f"fits = room <= {fits}{coin if longest > fits else ''}  # the last word fills it",
        f"least, most = (room, room) if fits else ({least}, room - 4)",
        'marks = "," if room > 12 else ""',
    ]


# Ending a sentence --------------------------------------------------------------------------


def _finish_sentence(layout: Layout, steered: bool) -> list[str]:
    """Statements that end a single sentence, and the text with it."""
    words, length = layout.sentence_words, layout.length
    lines: list[str] = []
    over: str
    if layout.length.exact is not None:
        over = f"len(self) == {layout.length.exact - 1}"
    elif layout.last:
        over = f"place >= {words.low - 1} and "
        wanted = f"await self.wants_word({layout.last!r})"
        over += f"(place == {words.high} - 1 or {wanted})" if words.high else wanted
        lines = []
    elif words.exact is not None:
        over = f"place == {words.exact}"
    else:
        conditions = []
        if words.low > 1:
            conditions.append(f"place >= {words.low}")
        if length.low:
            conditions.append(f"len(self) >= {length.low - 1}")
        if layout.contains:
            conditions.append("not self.missing")
        ends = f"place == {words.high}"
        if length.high is not None:
            ends += f" or len(self) > {length.high - 9}"
        over = " and ".join([*conditions, f'({ends} or await self.wants(".!?"))'])
    end = ["await self.end_sentence()", "await self.end()"]
    if layout.last:
        end.insert(0, f"await self.force({' ' + layout.last!r})")
    if layout.given:
        end.append("return")
    lines += [f"if {over}:", *_in(end)]
    if layout.given:
        lines += ["if place in self.given:", "    return"]
    return lines


def _hint(layout: Layout) -> list[str]:
    most = layout.sentences.high
    return [
        f'number = f"Write sentence {{self.sentence + 1}} of {most}."',
        "await self.hint(f\"{number} End the sentence with '{last}'.\")",
    ]


def _break(layout: Layout) -> list[str]:
    """Statements that leave the loop when a paragraph's sentence is over."""
    if layout.length:
        return _break_at_length(layout)
    words = layout.sentence_words
    last = "last" if layout.lasts else repr(layout.last) if layout.last else ""
    if last:
        named = "last and " if None in layout.lasts else ""
        lines = [
            f"if {named}place >= {words.low - 1} and "
            f"(place == {(words.high or 0) - 1} or await self.wants_word({last})):",
            f'    await self.force(" " + {last})',
            "    break",
        ]
        if not named:
            return lines
        return [*lines, *_break_freely(layout, "not last and ")]
    return _break_freely(layout, "")


def _break_at_length(layout: Layout) -> list[str]:
    """Statements that share a length among the sentences; the last one fits exactly."""
    length, most, words = layout.length.high or 0, layout.sentences.high or 1, layout.sentence_words
    last = [f"if len(self) == {length - 1}:", "    break"]
    if most == 1:
        return last
    return [
        f"goal = {length} * (self.sentence + 1) // {most}",
        *last,
        f"if self.sentence < {most - 1} and place >= {words.low} and units.ends_safely(self.text):",
        f"    if place >= {words.high} or len(self) > goal - 12:",
        "        break",
        '    if len(self) > goal - 50 and await self.wants(".!?"):',
        "        break",
    ]


def _break_freely(layout: Layout, condition: str) -> list[str]:
    words = layout.sentence_words
    enough = f"{condition}place >= {words.low}"
    if layout.contains:
        enough += f" and (not self.missing or self.sentence < {layout.sentences.low - 1})"
    wants = 'units.ends_safely(self.text) and await self.wants(".!?")'
    return [f"if {enough} and (place >= {words.high} or {wants}):", "    break"]


def _mark(layout: Layout) -> list[str]:
    """Statements that draw a mark at which every splitter ends a sentence."""
    return [
        "safe = units.ends_safely(self.text) or self.text[-2:].isdigit()",
        'await self.end_sentence(".!?" if safe else "!?")',
    ]


# The check ----------------------------------------------------------------------------------


def _check(sketch: Sketch, writing: Writing, layout: Layout) -> None:
    """COLLIE's own conditions on a finished text."""
    lines: list[str] = []
    tests: list[str] = []
    every = writing.sentence_words or writing.every_placed or writing.first_words
    if writing.sentences or every or writing.last_words:
        cut = "[units.words(s) for s in units.sentences(text)]"
        lines.append(f"sentences = {cut}")
    if writing.words or writing.word_chars or writing.placed or writing.contains or writing.avoids:
        lines.append("words = units.words(text)")
    if writing.characters:
        tests.append(_within("len(text)", writing.characters))
    if writing.words:
        tests.append(_within("len(words)", writing.words))
    if writing.sentences:
        tests.append(_within("len(sentences)", writing.sentences))
    if writing.sentence_words:
        tests.append(f"all({_within('len(s)', writing.sentence_words)} for s in sentences)")
    if writing.word_chars:
        tests.append(f"all({_within('len(w)', writing.word_chars)} for w in words)")
    for place, word in writing.placed:
        tests.append(_same("words", place, word))
    for place, word in writing.every_placed:
        tests.append(f"all({_same('s', place, word)} for s in sentences)")
    for index, ends in ((0, writing.first_words), (-1, writing.last_words)):
        if ends:
            name = "self.firsts" if index == 0 else "self.lasts"
            tests.append(f"len(sentences) == {len(ends)}")
            tests.append(
                f"all(s and units.same_word(s[{index}], w) for s, w in zip(sentences, {name}))"
            )
    if writing.contains:
        tests.append(
            f"all(any(units.same_word(w, x) for x in words) for w in {list(writing.contains)!r})"
        )
    if writing.avoids:
        tests.append("not any(units.same_word(w, x) for w in self.avoid for x in words)")
    if not tests:
        tests = ["bool(text)"]
    if len(tests) == 1:
        lines.append(f"return {tests[0]}")
    else:
        lines += ["return (", f"    {tests[0]}", *(f"    and {test}" for test in tests[1:]), ")"]
    sketch.check = lines


def _within(count: str, limit: Range) -> str:
    if limit.exact is not None:
        return f"{count} == {limit.exact}"
    if limit.high is None:
        return f"{count} >= {limit.low}"
    if not limit.low:
        return f"{count} <= {limit.high}"
    return f"{limit.low} <= {count} <= {limit.high}"


def _same(words: str, place: int, word: str) -> str:
    index = place if place == LAST else place - 1
    length = f"{words}" if place == LAST else f"len({words}) > {index}"
    return f"{length} and units.same_word({words}[{index}], {word!r})"
