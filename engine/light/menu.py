"""What the painter of light and weather can draw: values by type of edit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MENU: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "weather": ("foggy", "hazy", "rainy", "snowy", "overcast"),
        "time": ("at dusk", "at night", "at sunset"),
        "light": ("in glare",),
        "camera": ("out of focus", "in motion", "noisy", "compressed", "discoloured"),
    }
)
