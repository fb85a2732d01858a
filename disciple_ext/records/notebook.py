"""A result in a notebook: a short summary in HTML, and a data frame.

Texts come from programs that nobody trusts: each is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING

from ..errors import UsageError
from .particle import Particle

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["dataframe", "summary"]

_SHOWN = 5
_LONGEST = 400


def summary(
    text: str | None, facts: Sequence[str], particles: Sequence[Particle], *, traced: bool
) -> str:
    """The answer and the texts with the most weight, as HTML that needs no script."""
    shares: dict[str, float] = {}
    for particle in particles:
        if particle.weight > 0.0:
            shares[particle.text] = shares.get(particle.text, 0.0) + particle.weight
    best = sorted(shares.items(), key=lambda pair: -pair[1])
    rows = "".join(
        f'<tr><td style="text-align:right;vertical-align:top">{share:.3f}</td>'
        f'<td style="text-align:left;white-space:pre-wrap">{_shown(best_text)}</td></tr>'
        for best_text, share in best[:_SHOWN]
    )
    more = f"<p>and {len(best) - _SHOWN} more texts</p>" if len(best) > _SHOWN else ""
    answer = "no particle is alive" if text is None else _shown(text)
    show = "; <code>.show()</code> shows how it came" if traced else ""
    return (
        f'<div><blockquote style="white-space:pre-wrap">{answer}</blockquote>'
        f"<p><small>{escape(', '.join(facts))}{show}</small></p>"
        '<table><thead><tr><th>weight</th><th style="text-align:left">text</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}</div>"
    )


def dataframe(particles: Sequence[Particle]) -> DataFrame:
    """The particles, the heaviest first."""
    try:
        # Here, because disciple-ext does not require it.
        import pandas
    except ImportError as error:
        raise UsageError("to_dataframe() needs pandas: pip install pandas") from error
    frame = pandas.DataFrame([asdict(particle) for particle in particles])
    if frame.empty:
        return frame
    # Stable, so that equal weights stay in the sampler's order.
    return frame.sort_values("log_weight", ascending=False, kind="stable", ignore_index=True)


def _shown(text: str) -> str:
    # Cut before it is escaped: a cut inside of `&lt;` would leave half of it.
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(cut)
