"""A result in a notebook: a short summary in HTML, and a data frame.

Texts come from programs that nobody trusts: each is escaped.
"""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    from pandas import DataFrame

    from .result import Result

__all__ = ["dataframe", "summary"]

_SHOWN = 5
_LONGEST = 400
_SAID = {True: "passed", False: "failed", None: "no check"}


def summary(result: Result) -> str:
    """The answer and the texts with the most weight, as HTML that needs no script."""
    facts = [f"check: {_SAID[result.check]}"]
    if result.verified is not None:
        facts.append(f"verifier: {_SAID[result.verified]}")
    facts.append(f"ESS {result.ess:.1f} of {len(result.particles)}")
    if result.log_evidence is not None:
        facts.append(f"log evidence {result.log_evidence:.2f}")
    facts.append(f"seed {result.seed}")
    shares: dict[str, float] = {}
    for particle in result.particles:
        if particle.weight > 0.0:
            shares[particle.text] = shares.get(particle.text, 0.0) + particle.weight
    best = sorted(shares.items(), key=lambda pair: -pair[1])
    rows = "".join(
        f'<tr><td style="text-align:right;vertical-align:top">{share:.3f}</td>'
        f'<td style="text-align:left;white-space:pre-wrap">{_shown(text)}</td></tr>'
        for text, share in best[:_SHOWN]
    )
    more = f"<p>and {len(best) - _SHOWN} more texts</p>" if len(best) > _SHOWN else ""
    answer = "no particle is alive" if result.text is None else _shown(result.text)
    traced = "; <code>.show()</code> shows how it came" if result.record is not None else ""
    return (
        f'<div><blockquote style="white-space:pre-wrap">{answer}</blockquote>'
        f"<p><small>{escape(', '.join(facts))}{traced}</small></p>"
        '<table><thead><tr><th>weight</th><th style="text-align:left">text</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}</div>"
    )


def dataframe(result: Result) -> DataFrame:
    """The particles, the heaviest first."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("to_dataframe() needs pandas: pip install pandas") from error
    frame = pandas.DataFrame([asdict(particle) for particle in result.particles])
    if frame.empty:
        return frame
    return frame.sort_values("log_weight", ascending=False, kind="stable", ignore_index=True)


def _shown(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(cut)
