"""What words of an edit the painter of light and weather can draw: "in the rain" is drawn as "rainy"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ..edit import Edit
from .menu import MENU

# Words that say the same as a value of the menu; of several the first counts.
_SAME: Mapping[str, str] = MappingProxyType(
    {
        "foggy": "fog foggy mist misty",
        "hazy": "haze hazy smog smoggy",
        "rainy": "rain rainy raining rainstorm drizzle",
        "snowy": "snow snowy snowing snowfall snowstorm blizzard",
        "overcast": "overcast cloudy grey gray",
        "at dusk": "dusk twilight evening",
        "at night": "night nighttime midnight",
        "at sunset": "sunset sunrise dawn",
        "in glare": "glare backlight backlit",
        "out of focus": "defocused unfocused blurred blurry blur",
        "in motion": "shaken moving",
        "noisy": "noisy noise grainy",
        "compressed": "compressed compression jpeg",
        "discoloured": "discoloured discolored tinted",
    }
)


def drawn_as(type_: str, words: str) -> str | None:
    """The value of the menu that words of a type mean, None where light and weather cannot show them."""
    if words in (values := MENU.get(type_, ())):
        return words
    plain = re.findall(r"[^\W\d_]+", words.casefold())
    same = (value for value, same in _SAME.items() if value in values and not set(same.split()).isdisjoint(plain))
    return next(same, None)


def drawn(edit: Edit) -> str | None:
    """The value of the menu that an edit comes to, None where light and weather cannot show it."""
    return drawn_as(edit.type, edit.alternative) if edit.alternative else None
