"""One run: its request, its profile, its models, and where its results go. Stages take it and their data.

A stage looks up its results by their content keys, makes what is missing, and records it (`Run.recorded`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..content_keys import OF_SOURCES, STAGES, ContentKeys, Stage
from ..english.label_names import label_words
from ..files.fill import fits
from ..meter.meter import Meter
from ..profile.caption import LABEL
from ..profile.profile import Profile
from ..request import SuiteRequest
from ..schedule.overlap import in_chunks, prefetch, write_behind
from ..sources.source import Source, load_mask
from ..suite import NewPicture, PaintedRow, Suite
from ..variant import Variant

if TYPE_CHECKING:  # settings of stages are read by commands that open no network and should not load a runtime
    from ..models.clip import ClipText
    from ..models.model_pool import ModelPool

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")
Floats = NDArray[np.float32]
# The suite's rows of variants' pictures.
Painted = Mapping[Variant, PaintedRow]
# What has results on record, and of which of these they are pictures.
Recorded = Stage | Literal["original", "baseline"]
_PICTURES = ("paint", "original", "baseline")
# Batches of pictures that may wait to be written.
_BEHIND = 2


@dataclass(frozen=True)
class Recipe(Generic[T]):
    """`make` computes the results of items, a batch at a time; a result on record that is not `sound` is no result."""

    make: Callable[[list[T]], Generator[Mapping[T, Any], None, None]]
    sound: Callable[[T, Any], bool] = lambda item, row: True


@dataclass(frozen=True)
class Run:
    """`profile` says how to work, `request` what to make. `sources` and `pictures` count those of the whole run,
    `classes` are those of its sources' labels. No model is open before a stage has work.
    """

    profile: Profile
    request: SuiteRequest
    suite: Suite
    models: ModelPool
    meter: Meter
    keys: ContentKeys
    sources: int
    pictures: int
    classes: Classes

    def missing(self, stage: Stage, keys: Mapping[T, str]) -> list[T]:
        """The items whose key is not on record."""
        results = self._find(stage, list(keys.values()))
        return [item for item, key in keys.items() if key not in results]

    def recorded(
        self, stage: Recorded, keys: Mapping[T, str], recipe: Recipe[T], counted: bool = False
    ) -> dict[T, Any]:
        """The results of items by their keys: from the record, else computed by the recipe and recorded batch by batch.
        Call it inside the stage. Progress is counted where `counted`. Items that it leaves out are left out here.
        """
        before = self._find(stage, list(keys.values()))
        results = {key: before[key] for item, key in keys.items() if key in before and recipe.sound(item, before[key])}
        todo = [item for item, key in keys.items() if key not in results]
        if counted:
            self.advance(stage, len(keys) - len(todo))
        if todo:
            if stage in STAGES:
                self.models.enter(stage)
            # An interrupt ends what writes behind it before the suite is closed.
            with closing(recipe.make(todo)) as batches:
                for batch in batches:
                    rows = {keys[item]: result for item, result in batch.items()}
                    if stage not in _PICTURES:  # files and their rows are written together, by what makes them
                        self.suite.ledger.put(stage, rows)
                    results |= rows
                    if counted:
                        self.advance(stage, len(batch), computed=len(batch))
        return {item: results[key] for item, key in keys.items() if key in results}

    def answered(
        self, question: str, items: Mapping[T, object], answer: Callable[[list[T]], Iterable[Any]], kind: object
    ) -> dict[T, Any]:
        """The answers, of a `kind` that a dataclass's field may have, to a question of the rewriting stage about items,
        each named by its content; `answer` gives those that are not on record, in order. Call it inside the stage.
        """

        def make(todo: list[T]) -> Generator[dict[T, Any], None, None]:
            yield dict(zip(todo, answer(todo), strict=True))

        keys = {item: self.keys.answer_key(question, content) for item, content in items.items()}
        return self.recorded("rewrite", keys, Recipe(make, lambda _, row: fits(kind, row)))

    def advance(self, stage: Recorded, items: int, *, computed: int = 0) -> None:
        """Count `items` more of the run's sources or pictures as done; this session computed `computed` of them."""
        self.meter.advance(stage, items, self.sources if stage in OF_SOURCES else self.pictures, computed=computed)

    def written(
        self, stage: Recorded, drawn: Iterable[R], new: Callable[[R], tuple[T, NewPicture]], at_once: int
    ) -> Generator[dict[T, PaintedRow], None, None]:
        """The suite's rows of items' `new` pictures, written `at_once` at a time while the next ones are `drawn`."""

        def write(batch: Sequence[R]) -> dict[T, PaintedRow]:
            news = list(map(new, batch))
            rows = self.suite.write_images(stage, [picture for _, picture in news])
            return {item: rows[picture.key] for item, picture in news}

        yield from write_behind(in_chunks(drawn, at_once), write, _BEHIND)

    def _find(self, stage: Recorded, keys: Sequence[str]) -> Mapping[str, Any]:
        """The results on record by key; of pictures those whose files are there."""
        return self.suite.images(stage, keys) if stage in _PICTURES else self.suite.ledger.get(stage, keys)


def picture_of(source: Source, key: str, pixels: NDArray[np.uint8], **more: Any) -> NewPicture:
    """A picture of a source's size, to be kept with the source's mask; `more` are other fields."""
    mask = None if source.mask_path is None else load_mask(source, pixels.shape[:2])
    return NewPicture(key, source.name, pixels, mask, **more)


def load_ahead(
    items: Iterable[T], load: Callable[[T], R], depth: int, workers: int = 1
) -> Generator[tuple[T, R], None, None]:
    """(item, load(item)) as `prefetch` yields them, where an item that cannot be loaded ends the run."""
    with closing(prefetch(items, load, depth, workers)) as loaded:
        for item, result in loaded:
            if isinstance(result, Exception):
                raise result
            yield item, result


class Classes:
    """The distinct classes that labels name; none where they name fewer than two.

    A class is called by the words of its label (`label_words`); labels without words, such as numbers of classes, say
    nothing to CLIP and are no classes. Texts are embedded when they are first asked for, once a run.
    """

    def __init__(self, labels: Iterable[str | None] = ()) -> None:
        called = sorted({name for label in labels if (name := _class_name(label))})
        self.names: tuple[str, ...] = tuple(called) if len(called) > 1 else ()
        self._embedded: dict[str, Floats] = {}

    def index(self, label: str | None) -> int | None:
        """The place of a label's class in `names`; None where it is none of them."""
        name = _class_name(label)
        return self.names.index(name) if name in self.names else None

    def embed(self, text: ClipText, prompt: str) -> Floats:
        """Unit embeddings [K, E] of `prompt` with each class in place of "{label}"."""
        if prompt not in self._embedded:
            prompts = [prompt.replace(LABEL, name) for name in self.names]
            vectors = text.embed(prompts)
            self._embedded[prompt] = np.stack([vectors[phrase] for phrase in prompts])
        return self._embedded[prompt]


def _class_name(label: str | None) -> str:
    words = ", ".join(label_words(label)) if label is not None else ""
    return "" if words.isdigit() else words
