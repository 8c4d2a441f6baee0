"""Captions of sources: what the pictures show, in words.

A caption may go on after a text that names the source's label, all captions or those alone that do not name it by
themselves: such a text is a part of the caption, which then says what is to stay true.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..keys import generator
from ..language.questions import clean_text
from ..models.blip2 import Blip2
from ..models.decoding import DecodingSettings
from ..schedule.overlap import in_chunks
from ..sources.pictures import Pictures
from ..sources.source import Source
from ..tasks.grounding import protect
from ..tasks.names import LABEL, label_words, short_name
from ..tasks.task import Task
from ..tasks.writing import agree
from .desk import Desk

# Of a label's name: what a caption goes on after has room in the decoder's plan. ImageNet's have at most 31.
_LABEL_BYTES = 32


@dataclass(frozen=True)
class CaptionSettings:
    """`batch` is the plan's. `texts` captions of an image are joined to one; each goes on after `prefix`.

    "{label}" in it stands for the source's label. A caption that does not name the label is written again after
    `label_prefix`, which names it, if there is one.
    """

    batch: int
    texts: int
    prefix: str
    decoding: DecodingSettings
    label_prefix: str | None = None

    def __post_init__(self) -> None:
        if self.batch < 1 or self.texts < 1:
            raise ValueError(f"[caption] needs batch and texts of at least 1, got {self.batch} and {self.texts}")
        if self.texts > 1 and self.decoding.mode != "nucleus":
            raise ValueError(
                f'[caption] texts = {self.texts} would join equal captions: only mode = "nucleus" writes different ones'
            )
        for name, text in (("prefix", self.prefix), ("label_prefix", self.label_prefix or "")):
            if text.count(LABEL) > 1:
                raise ValueError(f"[caption] {name} holds {LABEL} once at most, found {text!r}")
        if self.label_prefix is not None and LABEL not in self.label_prefix:
            raise ValueError(
                f"[caption] label_prefix names no label: write {LABEL} where it belongs, found {self.label_prefix!r}"
            )

    @property
    def rows(self) -> int:
        """Rows of the decoder that an image takes."""
        return self.texts * self.decoding.beams

    @property
    def form(self) -> str:
        """What sets the captioner's plans apart: beams take another decoder, and other rows, in the same folder."""
        return "_beams" if self.decoding.beams > 1 else ""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a caption goes on after at most: the one that begins texts, and one per byte of the prefix."""
        longest = [text.replace(LABEL, "n" * _LABEL_BYTES) for text in (self.prefix, self.label_prefix or "")]
        return 1 + max(len(text.encode()) for text in longest)


def keys(desk: Desk, sources: Sequence[Source], prefix: str) -> dict[Source, str]:
    """The content keys of sources' captions that go on after a prefix of the settings."""
    return {source: desk.recipes.caption_key(source.digest, named_prefix(prefix, source.label)) for source in sources}


def missing(desk: Desk, sources: Sequence[Source], settings: CaptionSettings) -> list[Source]:
    """The sources whose captions are not on record."""
    return desk.missing(keys(desk, sources, settings.prefix), lambda wanted: desk.suite.ledger.get("caption", wanted))


def run(
    desk: Desk, sources: Sequence[Source], pictures: Pictures, settings: CaptionSettings, task: Task
) -> dict[Source, str]:
    """The captions of sources, without those whose picture cannot be read."""

    def captions(some: Sequence[Source], prefix: str, total: int) -> dict[Source, str]:
        named = keys(desk, some, prefix)

        def make(todo: list[Source]) -> Generator[dict[Source, str], None, None]:
            images = pictures.of(todo)
            alike: dict[str | None, list[Source]] = {}  # all rows of a batch go on after the same text
            for source in todo:
                if source.key in images:
                    alike.setdefault(named_prefix(prefix, source.label), []).append(source)
            for text, readable in alike.items():
                for few in in_chunks(readable, desk.models.blip2().at_once):
                    shown, names = [images[source.key] for source in few], [named[source] for source in few]
                    made = caption_images(shown, names, desk.models.blip2(), settings, text)
                    yield dict(zip(few, made, strict=True))

        return desk.recorded("caption", named, make, total=total)

    with desk.meter.stage("caption"):
        found = captions(sources, settings.prefix, desk.sources)
        if settings.label_prefix is not None and task.protect_label:
            silent = [s for s, text in found.items() if s.label is not None and _nameless(s, text, task)]
            found |= captions(silent, settings.label_prefix, 0)
    return found


def _nameless(source: Source, caption: str, task: Task) -> bool:
    """Whether a source's label has words and its caption none of them."""
    return bool(label_words(source.label or "")) and not protect(task, source.label, (), caption).grounded


def named_prefix(prefix: str, label: str | None) -> str | None:
    """A prefix with a label's name in it, "a" or "an" before it; None for a prefix that names no label.

    Without a label to name, it ends before the name.
    """
    before, mark, after = prefix.partition(LABEL)
    if not mark:
        return None
    if label is None or not label_words(label):
        return before.rstrip()
    name = clean_text(short_name(label)).encode()[:_LABEL_BYTES].decode(errors="ignore")
    return f"{agree(before, name)}{name}{after}"


def caption_images(
    images: Sequence[NDArray[np.uint8]],
    keys: Sequence[str],
    captioner: Blip2,
    settings: CaptionSettings,
    named: str | None = None,
) -> list[str]:
    """The caption of each image (uint8 RGB, any sizes), in order; `keys` name the random numbers of sampling.

    Captions go on after the settings' prefix, or after the text `named`, with which they then begin.
    """
    generators = [[generator(key, f"caption {i}") for i in range(settings.texts)] for key in keys]
    after = settings.prefix if named is None else named
    captions = captioner.caption(images, generators, after, settings.decoding)
    return [_join([_append(named or "", text) for text in texts]) for texts in captions]


def _append(said: str, text: str) -> str:
    """A continuation behind what it continues; marks follow without a space."""
    return f"{said} {text}".strip() if text[:1].isalnum() else f"{said}{text}"


def _join(texts: Sequence[str]) -> str:
    """Several captions as sentences of one; a single one stays as it is, and one that was written is not repeated."""
    if len(texts) == 1:
        return texts[0]
    different = dict.fromkeys(text.rstrip(" .") for text in texts)
    return " ".join(f"{text}." for text in different if text)
