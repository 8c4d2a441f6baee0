"""A variant: one image to be made from a source, with everything that decides its bytes but the paint settings.

A control is one as well, without edits: the source's own caption painted over its edges. What the painter does to a
model whatever the caption says shows in controls, so that it is not taken for an edit's doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .edit import Edit
from .sources.given import GivenPicture
from .sources.source import Source

# What a suite's picture is: the source as the painter saw it, its own caption painted anew, an edited one, or the
# source with a variant's weather and light drawn by rule, to compare that with.
Kind = Literal["original", "control", "variant", "baseline"]
KINDS: tuple[Kind, ...] = ("original", "control", "variant", "baseline")
# Those that every figure is of; baselines are in the figures of their own alone.
COMPARED: tuple[Kind, ...] = ("original", "control", "variant")


@dataclass(frozen=True)
class Variant:
    """Variant number `index` (from 0) of a source, or its control of that number.

    `caption` is the source's, `edited_caption` what to paint. `dropped` gives the reason when the text breaks the
    task's rules; such a variant is recorded and never painted. `key` names it by content. `protected` are the words of
    the source's caption that no edit may touch, since they name what it is labelled with.
    `repeat` counts the source's variants with the same edits before it: from 1 on it differs from them in its noise.
    Of `levels` at which the same edits are painted, from faint to full, it is number `level`; `series` is the key of
    that at the last level where it is another one. `given` is its picture where somebody painted it already.
    """

    key: str
    source: Source
    index: int
    caption: str
    edits: tuple[Edit, ...]
    edited_caption: str
    seed: int
    dropped: str | None
    kind: Literal["control", "variant"] = "variant"
    protected: tuple[str, ...] = ()
    repeat: int = 0
    level: int = 1
    levels: int = 1
    series: str | None = None
    given: GivenPicture | None = None

    @property
    def noise_key(self) -> str:
        """What its noise is drawn by: the same at all levels of the same edits, so that nothing else differs."""
        return self.series or self.key
