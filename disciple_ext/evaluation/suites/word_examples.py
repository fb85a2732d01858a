"""Ordinary English words that meet COLLIE's constraints on words, for the suite's instances.

COLLIE draws its own from a word list; these were written down for this package. The programs never
see them: an instance tells a length and some letters.
"""

from __future__ import annotations

__all__ = ["ENDINGS", "LONG"]

LONG = tuple(
    """accommodation acknowledgement acquaintance administration agricultural approximately
    architecture championship characteristic circumstances civilization commissioner communication
    concentration consequently considerable constitutional construction contribution conversation
    determination disappointed distribution encyclopedia entertainment environmental experimental
    extraordinary headquarters increasingly independence intellectual intelligence international
    introduction investigation jurisdiction manufacturing mathematician metropolitan neighborhood
    nevertheless opportunities organization particularly philosophical photographer presentation
    professional psychological recommendation refrigerator registration relationship representative
    responsibility revolutionary satisfaction significantly simultaneously sophisticated
    straightforward successfully superintendent technological transportation undergraduate
    understanding unfortunately vulnerability""".split()
)
"""Words of 12 letters or more, for word_01 and word_02."""

ENDINGS = tuple(
    """academic allergic aquatic artistic athletic authentic automatic classic cosmetic democratic
    diplomatic domestic dramatic dynamic economic elastic electric electronic energetic enthusiastic
    epidemic fantastic genetic geographic gigantic graphic historic hydraulic magnetic majestic
    mechanic metallic microscopic optimistic organic pacific patriotic plastic realistic republic
    romantic scientific specific strategic symbolic systematic terrific traffic volcanic broccoli
    confetti graffiti macaroni ravioli spaghetti tsunami zucchini appendix complex equinox mailbox
    orthodox paradox phoenix bathtub disturb honeycomb nightclub showbiz""".split()
)
"""Words of 7 letters or more that end with a rare letter, for word_03."""
