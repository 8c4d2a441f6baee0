"""The words of captions: what each fact of a scene is called. The first phrase of each is the plainest.

Captions are written and read by the same tables, so that whatever is written can be read; no phrase of one value is
part of another's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Phrases = Mapping[str, tuple[str, ...]]

# Words before "street", and phrases after it.
WEATHER_WORDS: Phrases = {
    "clear": ("clear", "fine"),
    "cloudy": ("cloudy", "overcast"),
    "foggy": ("foggy", "misty"),
    "rainy": ("rainy", "wet"),
    "snowy": ("snowy", "snow-covered"),
}
WEATHER_PHRASES: Phrases = {
    "clear": ("in clear weather", "under a clear sky"),
    "cloudy": ("in cloudy weather", "under a cloudy sky", "under clouds"),
    "foggy": ("in foggy weather", "in the fog", "in mist"),
    "rainy": ("in rainy weather", "in the rain"),
    "snowy": ("in snowy weather", "in the snow"),
}
TIME_PHRASES: Phrases = {
    "day": ("during the day", "by day", "in daylight"),
    "sunset": ("at sunset", "at dusk", "in the evening light"),
    "night": ("at night", "after dark"),
}
BACKGROUND_PHRASES: Phrases = {
    "city": ("in the city", "with a skyline behind", "in front of the city"),
    "forest": ("in a forest", "by the woods", "in front of a forest"),
    "mountains": ("in the mountains", "with mountains behind", "in front of mountains"),
    "coast": ("on the coast", "by the sea", "in front of the sea"),
}
DOMAIN_PHRASES: Phrases = {
    "photo": ("a photo of", "a photograph of"),
    "sketch": ("a pencil sketch of", "a pencil drawing of", "a sketch of"),
    "painting": ("a painting of", "an oil painting of"),
}
MATERIAL_WORDS: Phrases = {
    "brick": ("brick",),
    "concrete": ("concrete",),
    "glass": ("glass",),
    "wooden": ("wooden", "timber"),
}
BEND_PHRASES: Phrases = {
    "left": ("that bends to the left", "curving left"),
    "straight": ("that runs straight", "going straight ahead"),
    "right": ("that bends to the right", "curving right"),
}
CAMERA_PHRASES: Phrases = {
    "low": ("seen from near the ground", "from a low camera"),
    "level": ("seen at eye level", "from the height of a driver"),
    "high": ("seen from above", "from a high camera"),
}
VEHICLE_WORDS: Phrases = {
    "car": ("car", "sedan"),
    "bus": ("bus", "coach"),
    "truck": ("truck", "lorry"),
    "van": ("van", "minivan"),
}
SIZE_WORDS: Phrases = {"small": ("small", "little"), "medium": (), "large": ("large", "big")}
PERSON_WORDS: Phrases = {"man": ("man",), "woman": ("woman",), "child": ("child", "kid")}
POSE_WORDS: Phrases = {
    "standing": ("standing", "waiting"),
    "walking": ("walking", "strolling"),
    "running": ("running", "jogging"),
    "waving": ("waving",),
}
THING_WORDS: Phrases = {
    "bicycle": ("bicycle", "bike"),
    "dog": ("dog",),
    "bench": ("bench",),
    "traffic light": ("traffic light", "stoplight"),
    "traffic sign": ("traffic sign", "road sign"),
}
NOBODY = ("nobody", "no one")


def find_value(text: str, *tables: Phrases) -> str | None:
    """The value of which the first phrase in `text` speaks, by any of the tables; None if none does."""
    places = [
        (found.start(), value)
        for table in tables
        for value, phrases in table.items()
        for phrase in phrases
        if (found := re.search(rf"\b{phrase}\b", text))
    ]
    return min(places)[1] if places else None


def either(words: Sequence[str]) -> str:
    """A pattern for one of the words, longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def values_of(table: Phrases) -> dict[str, str]:
    """Value by phrase."""
    return {phrase: value for value, phrases in table.items() for phrase in phrases}
