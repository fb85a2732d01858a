"""genlm-control and disciple-ext, both ways. It needs the extra ``control``.

- :class:`PotentialService`: a potential of genlm-control as a service, which programs ``weigh``
  their texts by and ``draw_with``.
- :class:`FollowerPotential`: a follower under a prompt, as genlm-control sees a language model.
- :class:`ProgramSampler`: a program as a token sampler of genlm-control's, a unit of which is what
  one step of the program writes.
- :class:`ProgramSequences`: a program as a whole sampler of sequences.

All of it is host side: genlm-control imports torch and compiles with numba.
"""

from __future__ import annotations

from ..errors import UsageError

try:
    import genlm.control  # noqa: F401
except ImportError as error:
    raise UsageError(
        "disciple_ext.control needs genlm-control: pip install 'disciple-ext[control]'"
    ) from error

from .coercion import units_of
from .follower import FollowerPotential
from .program import ProgramSampler, ProgramSequences
from .service import PotentialService

__all__ = [
    "FollowerPotential",
    "PotentialService",
    "ProgramSampler",
    "ProgramSequences",
    "units_of",
]
