"""The machine that writes word by word: a given word, a missing one, or a free one.

A sentence is written one word a step, or up to its next given word; a paragraph one sentence a
step. Each function gives the statements of one part of the step, and only those that the task
needs.
"""

from __future__ import annotations

from .layout import Layout

__all__ = ["break_lines", "finish_lines", "hint_lines", "indented", "mark_lines", "word_lines"]


def indented(lines: list[str]) -> list[str]:
    """The statements one level deeper."""
    return [f"    {line}" for line in lines]


# Writing one word ---------------------------------------------------------------------------


def word_lines(layout: Layout) -> list[str]:
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
        lines += [f"{'elif' if number else 'if'} {condition}:", *indented(body)]
    return [*lines, "else:", *indented(free)] if lines else free


def _force(layout: Layout, word: str, *, first: bool) -> str:
    """A given word with the space before it; only a first word may stand without one."""
    # A paragraph's given place may be the first of the text, or in its middle: seen at run time.
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
    # After six free words a missing one is forced, so that none waits for ever.
    must = "self.free == 6"
    if layout.level == "sentence":
        taken = " - sum(p >= place for p in self.given)" if layout.given else ""
        # Or as soon as the places that are left are only just enough for the missing words.
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
        *indented(_room(layout)),
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
            f"least = max({layout.word_chars.low or 1}, room - {longest + 1} * rest)",
            f"most = {_at_most(layout, 'room - 3 * rest')}",
            'marks = "," if rest > 1 else ""',
        ]
    least = layout.word_chars.low or 1
    if layout.length.exact is None:
        most = _at_most(layout, "room")
        return [*lines, f'least, most, marks = {least}, {most}, "," if room > 12 else ""']
    fits = min(longest, 7)
    coin = f" or room <= {min(longest, 10)} and self.random.random() < 0.5"
    return [
        *lines,
        f"fits = room <= {fits}{coin if longest > fits else ''}  # the last word fills it",
        f"least, most = (room, room) if fits else ({least}, {_at_most(layout, 'room - 4')})",
        'marks = "," if room > 12 else ""',
    ]


def _at_most(layout: Layout, room: str) -> str:
    longest = layout.word_chars.high
    return room if longest is None else f"min({longest}, {room})"


# Ending a sentence --------------------------------------------------------------------------


def finish_lines(layout: Layout, steered: bool) -> list[str]:
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
    lines += [f"if {over}:", *indented(end)]
    if layout.given:
        lines += ["if place in self.given:", "    return"]
    return lines


def hint_lines(layout: Layout) -> list[str]:
    """Statements that tell the proposal which sentence comes, and how it ends."""
    most = layout.sentences.high
    return [
        f'number = f"Write sentence {{self.sentence + 1}} of {most}."',
        "await self.hint(f\"{number} End the sentence with '{last}'.\")",
    ]


def break_lines(layout: Layout) -> list[str]:
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


def mark_lines(layout: Layout) -> list[str]:
    """Statements that draw a mark at which every splitter ends a sentence."""
    return [
        "safe = units.ends_safely(self.text) or self.text[-2:].isdigit()",
        'await self.end_sentence(".!?" if safe else "!?")',
    ]
