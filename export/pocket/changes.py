"""Facts of scenes changed, one by one: what may be asked of a scene, the scene that comes of it, and whether a referee
sees it in a picture.

`Counterfacts` is what a world knows of that; those of the streets are in `counterfacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.judges import Finding

S = TypeVar("S")
# Captions are drawn again until they state what is asked for; few need more than five.
_TRIALS = 100


@dataclass(frozen=True)
class Change:
    """One fact that becomes `value`.

    `name` is an attribute of the scene ("weather"), or of the object of that `number` ("colour"; vehicles come first,
    nearest first).
    """

    name: str
    value: str
    number: int | None = None


@dataclass(frozen=True)
class Counterfacts:
    """What can be changed in a world.

    `groups` are what changes are drawn of; `draw(scene, group, rng)` gives one that the scene can take, None where
    there is none. `apply` gives the scene that comes of a change. `seen(scene)` is all that its picture shows, by which
    changes without any effect are found. `contradicts(caption, scene)` says whether a caption states what is not so;
    `check(caption, scene)` of each of the scene's facts, by its kind, whether it is stated rightly.
    `read(scene, caption, edit)` is what an edit of a scene's caption asks for in
    the world's words, nothing where it is not of the world or not of the scene.
    """

    groups: tuple[str, ...]
    draw: Callable[[Any, str, np.random.Generator], Change | None]
    apply: Callable[[Any, Change], Any]
    seen: Callable[[Any], Any]
    contradicts: Callable[[str, Any], bool]
    check: Callable[[str, Any], list[tuple[str, bool]]]
    read: Callable[[Any, str, Edit], tuple[Change, ...]]

    def apply_all(self, scene: Any, changes: Sequence[Change]) -> Any:
        """The scene after all of the changes."""
        for change in changes:
            scene = self.apply(scene, change)
        return scene

    def draw_some(self, scene: Any, groups: Sequence[str], count: int, rng: np.random.Generator) -> dict[str, Change]:
        """At most `count` changes by their groups, the first of `groups` that can be seen beside each other."""
        drawn: dict[str, Change] = {}
        for group in groups:
            if len(drawn) == count:
                break
            change = self.draw(scene, group, rng)
            if change is not None and self._all_seen(scene, [*drawn.values(), change]):
                drawn[group] = change
        return drawn

    def _all_seen(self, scene: Any, changes: Sequence[Change]) -> bool:
        """Whether the picture would differ without any one of the changes."""
        whole = self.seen(self.apply_all(scene, changes))
        return all(whole != self.seen(without) for without in self.without_each(scene, changes))

    def without_each(self, scene: Any, changes: Sequence[Change]) -> list[Any]:
        """For each change the scene after all the others."""
        return [self.apply_all(scene, [*changes[:i], *changes[i + 1 :]]) for i in range(len(changes))]

    def describe(
        self,
        scene: Any,
        changes: Sequence[Change],
        write: Callable[[Any, np.random.Generator], str],
        rng: np.random.Generator,
    ) -> str | None:
        """A caption by `write` of the scene after the changes which states each of them; None if none was found."""
        target, without = self.apply_all(scene, changes), self.without_each(scene, changes)
        for _ in range(_TRIALS):
            caption = write(target, rng)
            if all(self.contradicts(caption, other) for other in without):
                return caption
        return None

    def describe_alike(
        self, scene: Any, others: Sequence[Any], write: Callable[[Any, np.random.Generator], str], seed: Sequence[int]
    ) -> list[str] | None:
        """Captions by `write` of the scene and of each of the others, from one generator of a seed that begins so.

        The others' state in what they differ from the scene, and its own states that too; None if none was found.
        """
        for trial in range(_TRIALS):
            own, *theirs = [write(one, np.random.default_rng((*seed, trial))) for one in (scene, *others)]
            if all(self.contradicts(own, other) for other in others) and all(
                self.contradicts(caption, scene) for caption in theirs
            ):
                return [own, *theirs]
        return None


def is_seen(change: Change, finding: Finding, objects: NDArray[np.uint8]) -> bool | None:
    """Whether the referee sees a change; None of one that it has no word for, or whose object shows no pixel.

    `objects` uint8 [128, 128] holds at each pixel the number of an object plus 1, 0 where there is none.
    """
    words = finding.vocabulary
    if change.name in words.scene:
        return finding.scene[change.name] == change.value
    if change.name in words.objects and change.number is not None:
        where = objects == change.number + 1
        return finding.object(where)[change.name] == change.value if where.any() else None
    return None


def one_of(values: Sequence[str], other_than: str, rng: np.random.Generator) -> str:
    """One of the values, never the one that it is."""
    others = [value for value in values if value != other_than]
    return others[int(rng.integers(len(others)))]


def with_word(scene: S, name: str, value: str) -> S:
    """The scene with another word for one of its attributes."""
    anything: Any = scene
    after: S = replace(anything, **{name: value})
    return after


def replaced(objects: tuple[Any, ...], number: int, **fields: Any) -> tuple[Any, ...]:
    """The objects with other fields in number `number`."""
    return tuple(replace(one, **fields) if i == number else one for i, one in enumerate(objects))


def draw_colour(scene: Any, second: bool, colours: Sequence[str], rng: np.random.Generator) -> Change | None:
    """A new colour of the nearest vehicle, or of one behind it if `second`; None where there is none behind it."""
    if second and len(scene.vehicles) < 2:
        return None
    number = 1 + int(rng.integers(len(scene.vehicles) - 1)) if second else 0
    # Captions tell vehicles apart by colour and kind.
    taken = {v.colour for v in scene.vehicles if v.kind == scene.vehicles[number].kind}
    return Change("colour", one_of([c for c in colours if c not in taken], "", rng), number)
