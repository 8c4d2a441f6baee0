"""Captions of sources: what the pictures show, in words.

A caption may go on after a text that names the source's label, all captions or those alone that do not name it by
themselves: such a text is a part of the caption, which then says what is to stay true.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..english.label_names import label_words, short_name
from ..english.replacing import agree
from ..keys import generator
from ..language.questions import clean_text
from ..models.blip2 import Blip2
from ..models.clauses import shorten
from ..profile.caption import LABEL, LABEL_BYTES, CaptionSettings
from ..schedule.overlap import in_chunks
from ..sources.source import Pictures, Source
from ..tasks.task import Task, protect
from .run import Recipe, Run


def missing_captions(run: Run, sources: Sequence[Source]) -> list[Source]:
    """The sources whose captions are neither given nor on record; none where no network writes captions."""
    if not run.profile.captioned:
        return []
    unsaid = [source for source in sources if _given(source) is None]
    return run.missing("caption", _keys(run, unsaid, run.profile.caption.prefix))


def _given(source: Source, captioned: bool = True) -> str | None:
    """The caption that comes with a source: of pairs, and of its set where no network is there to write one."""
    own = None if captioned else source.caption
    return own if source.given is None else source.given.caption


def _keys(run: Run, sources: Sequence[Source], prefix: str) -> dict[Source, str]:
    return {source: run.keys.caption_key(source.digest, named_prefix(prefix, source.label)) for source in sources}


def caption_sources(run: Run, sources: Sequence[Source], pictures: Pictures) -> dict[Source, str]:
    """The captions of sources: the user's, or else the captioner's, without those whose picture cannot be read. What is
    longer than captions that are rewritten is shortened.
    """
    settings, task, most = run.profile.caption, run.request.task, run.profile.rewrite.max_chars_caption
    own = {source: text for source in sources if (text := _given(source, run.profile.captioned)) is not None}
    given = {source: shorten(text, most) for source, text in own.items()}
    if run.profile.by_rule:
        given = {
            source: text for source, text in given.items() if source.given is not None or _names(task, source, text)
        }
        run.advance("caption", len(sources), computed=len(sources))
        return {source: given.get(source) or shorten(caption_of_labels(source), most) for source in sources}
    if not run.profile.captioned:
        run.advance("caption", len(sources), computed=len(sources))
        return {source: given[source] for source in sources if source in given}
    with run.meter.stage("caption"):
        run.advance("caption", len(given))
        captions = _continue(run, [source for source in sources if source not in given], pictures, settings.prefix)
        if settings.label_prefix is not None and task.protect_label:
            silent = [
                source
                for source, text in captions.items()
                if label_words(source.label or "") and not _names(task, source, text)
            ]
            captions |= _continue(run, silent, pictures, settings.label_prefix)
    both = {**captions, **given}
    return {source: both[source] for source in sources if source in both}


def _names(task: Task, source: Source, text: str) -> bool:
    """Whether a caption names what its source is labelled with."""
    return protect(task, source.label, (), text).grounded


def _continue(run: Run, sources: Sequence[Source], pictures: Pictures, prefix: str) -> dict[Source, str]:
    """The captions of sources that go on after a prefix of the settings."""
    keys, settings = _keys(run, sources, prefix), run.profile.caption

    def make(todo: list[Source]) -> Generator[dict[Source, str], None, None]:
        images = pictures.of(todo)
        alike: dict[str | None, list[Source]] = {}  # all rows of a batch go on after the same text
        for source in todo:
            if source.key in images:
                alike.setdefault(named_prefix(prefix, source.label), []).append(source)
        for text, readable in alike.items():
            for batch in in_chunks(readable, run.models.blip2().at_once):
                keyed = [(keys[source], images[source.key]) for source in batch]
                yield dict(zip(batch, caption_images(run.models.blip2(), keyed, settings, text), strict=True))

    recipe = Recipe(make, lambda _, row: isinstance(row, str))
    captions = run.recorded("caption", keys, recipe, counted=prefix == settings.prefix)
    return {source: shorten(text, run.profile.rewrite.max_chars_caption) for source, text in captions.items()}


def caption_of_labels(source: Source) -> str:
    """What a source's label, or else the classes that its mask or boxes show, say of it: "a photo of a bus"."""
    named = [source.label] if source.label is not None else source.classes
    names = [clean_text(short_name(label)) for label in named if label_words(label)]
    if not names:
        return "a photo"
    first = f"{agree('a photo of a ', names[0])}{names[0]}" if source.label is not None else ", ".join(names)
    return first if source.label is not None else f"a photo of {first}"


def named_prefix(prefix: str, label: str | None) -> str | None:
    """A prefix with a label's name in it, "a" or "an" before it; None for a prefix that names no label. Without a label
    to name, it ends before the name.
    """
    before, mark, after = prefix.partition(LABEL)
    if not mark:
        return None
    if label is None or not label_words(label):
        return before.rstrip()
    name = clean_text(short_name(label)).encode()[:LABEL_BYTES].decode(errors="ignore")
    return f"{agree(before, name)}{name}{after}"


def caption_images(
    captioner: Blip2,
    images: Sequence[tuple[str, NDArray[np.uint8]]],
    settings: CaptionSettings,
    named: str | None = None,
) -> list[str]:
    """The caption of each image (uint8 RGB, any sizes), in order; each comes with the key of its random numbers.

    Captions go on after the settings' prefix, or after the text `named`, with which they then begin. Several captions
    of an image become sentences of one, each said once.
    """
    generators = [[generator(key, f"caption {i}") for i in range(settings.texts)] for key, _ in images]
    after = settings.prefix if named is None else named
    captions = captioner.caption([image for _, image in images], generators, after, settings.decoding)
    return [_join([_append(named or "", text) for text in texts]) for texts in captions]


def _append(start: str, text: str) -> str:
    """Append `text` to `start`: words after a space, punctuation without one."""
    return f"{start} {text}".strip() if text[:1].isalnum() else f"{start}{text}"


def _join(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    different = dict.fromkeys(text.rstrip(" .") for text in texts)
    return " ".join(f"{text}." for text in different if text)
