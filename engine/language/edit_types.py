"""Types of edits as a language model is asked about them: the nine of LANCE and DILLEMA, light, camera, and a user's.

A type says what it changes and shows it in one worked example. What a caption does not speak of can be added to it:
"at night" at the end of its first sentence, "a painting of" before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

# Where an addition goes; "word" is of types that add to a thing of the caption only ("dog" -> "small dog").
Place = Literal["front", "end", "word"]
EXAMPLE_CAPTION = "a photo of a brown dog chasing a ball on the grass, on a sunny day at noon."


@dataclass(frozen=True)
class EditType:
    """A kind of change. `instruction` says what it changes; `examples` are its edits of `caption`, (words of the
    caption, words in their place) each, the first empty where the others are added.
    """

    name: str
    instruction: str
    place: Place
    examples: tuple[tuple[str, str], ...]
    caption: str = EXAMPLE_CAPTION

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.instruction.strip():
            raise ValueError("a type of edit needs a name and an instruction")
        if not self.examples:
            raise ValueError(f"the type {self.name!r} needs a worked example")
        for old, new in self.examples:
            if not new.strip() or old not in self.caption:
                raise ValueError(
                    f"the example of type {self.name!r} replaces {old!r} by {new!r}: the one has to stand in its "
                    f"caption {self.caption!r}, or be empty, and the other to say something"
                )


_TABLE = (
    EditType("weather", "the weather or the season", "end", (("on a sunny day", "on a snowy day"), ("", "in the fog"))),
    EditType("time", "the time of day", "end", (("at noon", "at night"), ("at noon", "at sunset"))),
    EditType("colour", "the colour of a thing", "word", (("ball", "yellow ball"), ("brown", "black"))),
    EditType(
        "background",
        "the place or what stands behind",
        "end",
        (("on the grass", "on the beach"), ("", "with mountains in the background")),
    ),
    EditType("object", "another thing in the picture", "end", (("ball", "stick"), ("", "next to a red bicycle"))),
    EditType("other", "anything else", "word", (("chasing", "guarding"), ("dog", "dog in a collar"))),
    EditType("subject", "who or what the picture is mainly of", "word", (("dog", "puppy"), ("dog", "wet dog"))),
    EditType(
        "adjective",
        "a word that describes a thing: its size, colour, age or material",
        "word",
        (("dog", "small dog"), ("brown", "spotted")),
    ),
    EditType(
        "domain",
        "what kind of picture it is: photo, painting, sketch, sculpture",
        "front",
        (("", "a painting of"), ("", "a pencil sketch of")),
        EXAMPLE_CAPTION.removeprefix("a photo of "),
    ),
    EditType("light", "the light", "end", (("", "in soft morning light"), ("", "under a street lamp"))),
    EditType(
        "camera", "where the camera stands, or its angle", "end", (("", "seen from above"), ("", "from far away"))
    ),
)
BUILT_IN: Mapping[str, EditType] = MappingProxyType({type_.name: type_ for type_ in _TABLE})


def edit_types(names: Sequence[str], own: Sequence[EditType]) -> tuple[EditType, ...]:
    """The types of those names, a user's own before the built-in ones."""
    by_name = {**BUILT_IN, **{type_.name: type_ for type_ in own}}
    return tuple(by_name[name] for name in names)
