"""Who paints: one interface for all painters. A new one is a row here, a kind in profile/painter.py, and its file.

A painter takes the run, the variants to paint, the maps of their sources, and the sources' pictures, and gives the
suite's rows; what is on record is not painted again (`record_pictures`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ...profile.painter import Painter
from ...sources.source import Pictures
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import MapsOf
from ..run import Run
from .edit_variants import edit_variants
from .paint_by_server import paint_by_server
from .paint_given import paint_given
from .paint_light import paint_light
from .paint_variants import paint_variants

Paint = Callable[[Run, Sequence[Variant], MapsOf, Pictures], dict[Variant, PaintedRow]]

PAINTERS: Mapping[Painter, Paint] = MappingProxyType(
    {
        "diffusion": paint_variants,
        "inversion": edit_variants,
        "light": paint_light,
        "given": paint_given,
        "server": paint_by_server,
    }
)
