"""What a photograph's light and weather may become without weights: values by type of edit (engine/edit.py)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Types stand in the order of the physics: the sun, the air, what shines into the lens, the camera.
MENU: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "time": ("at sunset", "at dusk", "at night"),
        "weather": ("overcast", "hazy", "foggy", "rainy", "snowy"),
        "light": ("in glare",),
        "camera": ("out of focus", "in motion", "discoloured", "noisy", "compressed"),
    }
)
# Two that cannot be in one picture: no low sun shines through clouds, and nobody sees at night whether there are any.
EXCLUSIVE: frozenset[frozenset[str]] = frozenset(
    frozenset(pair) for pair in (("at sunset", "overcast"), ("at night", "overcast"), ("in glare", "overcast"))
)
