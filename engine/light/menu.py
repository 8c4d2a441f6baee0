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
# Those that no random number decides: drawn again they come to the same picture.
STILL: frozenset[str] = frozenset(("hazy", "out of focus", "compressed"))
# Two that are never in one picture, beside those of one type: the sun shines neither through clouds, rain or snow nor
# when it is down, glare and air are two veils over one scene, and nobody sees at night whether there are clouds.
EXCLUSIVE: frozenset[frozenset[str]] = frozenset(
    frozenset((value, other))
    for value, others in (
        ("at sunset", ("overcast", "rainy", "snowy")),
        ("in glare", ("at dusk", "at night", *MENU["weather"])),
        ("at night", ("overcast",)),
    )
    for other in others
)
