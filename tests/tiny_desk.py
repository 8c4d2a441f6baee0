"""What a stage works with, in miniature: a real suite, meter and content keys, over small networks that count calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tiny_networks import TOKENS, WIDTH, TinyPainter, tiny_editor, tiny_tokenizer

from counterfactory.engine.content_keys import STAGES, ContentKeys
from counterfactory.engine.language.llm_request import LlmRequest, Usage
from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.models.blip2 import Reading
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.editor import EditorPlans
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.caption import DecodingSettings
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import LlmSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.schedule.overlap import in_chunks
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import ImageSettings, Pictures, Source
from counterfactory.engine.stages.run import Classes, Run
from counterfactory.engine.suite import NewPicture, PaintedRow, Suite
from counterfactory.engine.variant import Variant

Floats = NDArray[np.float32]
# A language model that converses.
CHAT = LlmSettings("openvino", "llm", "chatml")
Pixels = NDArray[np.uint8]

TEXT_BATCH, IMAGE_BATCH, EDIT_BATCH = 3, 2, 5
IMAGE = ImageSettings(short_side=32, multiple=16, max_long_side=48)
SIZES = ((32, 32), (32, 48), (96, 64))  # height, width of the sources, in turn; the last is painted at 48 x 32


def numbers(name: str, *shape: int) -> Floats:
    """Standard normal numbers that belong to a name."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng(list(digest[:8])).standard_normal(shape).astype(np.float32)


def unit(name: str) -> Floats:
    """A unit embedding that belongs to a name."""
    vector = numbers(name, 4)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def image_name(pixels: Pixels) -> str:
    """What a picture's embedding and caption are made of: all its bytes."""
    return hashlib.sha256(pixels.tobytes()).hexdigest()


@dataclass
class Networks:
    """Stands for the open models of a run. `calls` are the arguments of each network's calls; `entered` the stages."""

    painter: TinyPainter | None = None
    calls: dict[str, list[Any]] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # by what the prompt says
    meanings: dict[str, Floats] = field(default_factory=dict)  # a sentence encoder's vectors
    unknown: Floats | None = None  # that of other texts
    likely: dict[str, float] = field(default_factory=dict)  # words in a text, before any picture; others are 0.5
    surprise: dict[str, float] = field(default_factory=dict)  # how hard texts are to read, for the language model
    filled: Mapping[tuple[str, str], list[str]] = field(default_factory=dict)  # blanks, by a masked language model
    hed_batch: int = 2
    estimates_depth: bool = False
    sampling: SamplerSettings = field(default_factory=lambda: load_profile("pocket").paint.sampler)
    room: int = 1000  # characters of a caption that the text encoder reads
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    _plans: dict[tuple[int, int], PaintPlans] = field(default_factory=dict)
    _editors: dict[tuple[int, int], EditorPlans] = field(default_factory=dict)

    def enter(self, stage: str) -> None:
        self.entered.append(stage)

    def _called(self, name: str, arguments: Sequence[Any], most: int) -> None:
        assert 1 <= len(arguments) <= most, f"{name} takes {most} at a time, got {len(arguments)}"
        self.calls.setdefault(name, []).append(list(arguments))

    def clip_text(self) -> Any:
        def encode(captions: Sequence[str]) -> tuple[Floats, Floats]:
            self._called("clip_text", captions, TEXT_BATCH)
            return np.stack([numbers(c, TOKENS, WIDTH) for c in captions]), np.stack([unit(c) for c in captions])

        self.opened.append("clip_text")
        plan = SimpleNamespace(batch=TEXT_BATCH, at_once=TEXT_BATCH)

        def embed(captions: Iterable[str]) -> dict[str, Floats]:
            parts = in_chunks(dict.fromkeys(captions), TEXT_BATCH)
            return {caption: one for some in parts for caption, one in zip(some, encode(some)[1], strict=True)}

        def states(captions: Sequence[str]) -> list[Floats]:
            return list(encode(captions)[0])

        return SimpleNamespace(plan=plan, encode=encode, embed=embed, encode_states=states, tokenizer=tiny_tokenizer())

    def caption_room(self) -> Callable[[str], int]:
        return lambda caption: min(len(caption), self.room)

    def clip_image(self) -> Any:
        def encode(images: Sequence[Pixels]) -> Floats:
            self._called("clip_image", [image_name(image) for image in images], 3 * IMAGE_BATCH)
            return np.stack([unit(image_name(image)) for image in images])

        self.opened.append("clip_image")
        return SimpleNamespace(plan=SimpleNamespace(batch=IMAGE_BATCH, at_once=IMAGE_BATCH), encode=encode)

    def blip2(self) -> Any:
        def caption(
            images: Sequence[Pixels],
            generators: Sequence[Sequence[np.random.Generator]],
            prefix: str,
            decoding: DecodingSettings,
        ) -> list[list[str]]:
            self._called("blip2", [image_name(image) for image in images], IMAGE_BATCH)
            assert len(generators) == len(images)
            return [
                [f"{prefix}{image_name(image)[:4]} {rng.integers(10**6)} {decoding.mode}." for rng in rngs]
                for image, rngs in zip(images, generators, strict=True)
            ]

        def read(
            images: Sequence[Pixels], readings: Sequence[Reading], prefix: str, room: int
        ) -> list[tuple[float | None, ...]]:
            self._called("blip2 reads", [image_name(image) for image in images], 4 * IMAGE_BATCH)
            assert all(0 <= reading.image < len(images) for reading in readings)
            words = [[f"{prefix}{one.text[a:b]}" for a, b in one.spans] for one in readings]
            return [tuple(self.likely.get(word, 0.5) if room else None for word in some) for some in words]

        self.opened.append("blip2")
        return SimpleNamespace(caption=caption, read=read, at_once=IMAGE_BATCH)

    def llm(self) -> Any:
        self.opened.append("llm")
        return self

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        self._called("llm", requests, 10**6)
        self.usage += Usage(10 * len(requests), len(requests))
        return [self.answers[next(key for key in self.answers if key in r.prompt.text)] for r in requests]

    def surprises(self, texts: Sequence[str]) -> list[float]:
        self._called("reads", texts, 10**6)
        return [self.surprise[text] for text in texts]

    def sentence(self) -> Any:
        def encode(texts: Sequence[str]) -> Floats:
            self._called("sentence", texts, 10**6)
            known = self.meanings if self.unknown is None else dict.fromkeys(texts, self.unknown) | self.meanings
            return np.stack([known[text] for text in texts])

        self.opened.append("sentence")
        return SimpleNamespace(encode=encode)

    def masked(self) -> Any:
        self.opened.append("masked")
        return SimpleNamespace(likeliest=lambda blanks, count: [self.filled[one][:count] for one in blanks])

    def _sized(self, name: str, size: tuple[int, int], most: int, of: Callable[[Pixels], Any]) -> Any:
        """A network of pictures of one size, by what it makes of them."""

        def call(images: Pixels) -> Any:
            assert images.shape[1:] == (*size, 3)
            self._called(name, [image_name(image) for image in images], most)
            return of(images)

        self.opened.append(f"{name} {size[0]} {size[1]}")
        return call

    def hed(self, height: int, width: int) -> Any:
        edges = self._sized("hed", (height, width), self.hed_batch, lambda images: 255 - images[..., 0])
        return SimpleNamespace(edges=edges)

    def depth(self, height: int, width: int) -> Any:
        near = self._sized(
            "depth", (height, width), self.hed_batch, lambda images: images[..., 1].astype(np.uint16) * 257
        )
        return SimpleNamespace(plan=SimpleNamespace(batch=self.hed_batch), nearness=near)

    def vae_encoder(self, height: int, width: int) -> Any:
        def latents(images: Pixels) -> Floats:
            return np.stack([numbers(image_name(image), 4, height // 2, width // 2) for image in images])

        return SimpleNamespace(encode=self._sized("vae_encoder", (height, width), IMAGE_BATCH, latents))

    def sampler(self) -> Sampler:
        return Sampler(self.sampling)

    def paint_plans(self, height: int, width: int) -> PaintPlans:
        self.opened.append(f"paint {height} {width}")
        if (height, width) not in self._plans:
            self._plans[height, width] = self.painter.plans(height, width, batch=3, streams=1, decode_batch=2)
        return self._plans[height, width]

    def editor_plans(self, height: int, width: int) -> EditorPlans:
        self.opened.append(f"edit {height} {width}")
        if (height, width) not in self._editors:
            self._editors[height, width] = tiny_editor(height, width, batch=EDIT_BATCH, picture_batch=2)
        return self._editors[height, width]


@dataclass
class TinyRun:
    """A run, and what a test looks at."""

    run: Run
    networks: Networks
    pictures: Pictures
    progress: list[Progress]

    def of(self, request: SuiteRequest | None = None, **tables: Any) -> Run:
        """The run with another request, and other tables of the profile."""
        profile = replace(self.run.profile, **tables)
        self.networks.sampling = profile.paint.sampler
        return replace(self.run, profile=profile, request=request or self.run.request)

    def paint(self, variants: Sequence[Variant], pixels_of: Callable[[Variant], Pixels]) -> dict[Variant, PaintedRow]:
        """Rows of pictures that stand for painted ones."""
        keys = {variant: hashlib.sha256(variant.key.encode()).hexdigest() for variant in variants}
        pictures = [NewPicture(key, v.source.name, pixels_of(v), None) for v, key in keys.items()]
        rows = self.run.suite.write_images("paint", pictures)
        return {variant: rows[key] for variant, key in keys.items()}

    def done(self, stage: str) -> tuple[int, int]:
        """How far the stage is, and of how much."""
        *_, last = (p for p in self.progress if p.stage == stage)
        return last.done, last.total

    def made(self, stage: str) -> int:
        """How many of its results this run made."""
        return sum(cost.made for cost in self.run.meter.costs() if cost.stage == stage)


@contextmanager
def tiny_run(
    path: Path, sources: Sequence[Source], *, variants: int = 0, painter: TinyPainter | None = None
) -> Iterator[TinyRun]:
    """A run over the suite at `path`; run again, it finds there what the run before recorded."""
    progress: list[Progress] = []
    networks = Networks(painter)
    kinds: dict[str, Any] = dict.fromkeys(("image", "caption", "sampling", "edges", "paint", "text", "check"), 0)
    keys = ContentKeys(**kinds, makers={stage: f"{stage} maker" for stage in STAGES})
    with Suite.open(path) as suite:
        classes, meter = Classes(source.label for source in sources), Meter(progress.append)
        models: Any = networks
        profile = replace(load_profile("pocket"), image=IMAGE)
        request = SuiteRequest(street_task("classification"), 1, 0, (1, 1), 0)
        run = Run(profile, request, suite, models, meter, keys, len(sources), variants, classes)
        yield TinyRun(run, networks, Pictures(IMAGE), progress)


def tiny_sources(root: Path, count: int) -> list[Source]:
    """Pictures of noise with masks of squares, in three sizes."""
    for index in range(count):
        height, width = SIZES[index % 3]
        rng = np.random.default_rng((9, index))
        for kind, shape in (("images", (height, width, 3)), ("masks", (height, width))):
            file = root / kind / f"{index}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            values = rng.integers(0, 256, shape, np.uint8)
            if kind == "masks":
                values = values[::8, ::8].repeat(8, axis=0).repeat(8, axis=1)[:height, :width]
            Image.fromarray(values).save(file)
    sources, problems = find_sources(root)
    assert not problems
    return sources


def tiny_variants(sources: Sequence[Source], each: int) -> list[Variant]:
    """Variants of every source in turn, so that neighbours differ in source and size; captions repeat."""
    return [
        Variant(f"{len(sources) * i + s:064x}", source, i, f"caption {s % 2}", (), f"edited {(s + i) % 3}", 0, None)
        for i in range(each)
        for s, source in enumerate(sources)
    ]
