"""The open models of a run: each from its first use in a stage until another one needs its memory.

Nothing is opened before its first use, so that a run with nothing left to do loads nothing. The loads and computations
of plans are added to the meter.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..content_keys import Stage
from ..errors import CounterfactoryError
from ..files.arrays import read_array
from ..files.fill import fill_value
from ..files.reading import read_json
from ..language.llm_request import Llm
from ..language.open_llm import open_llm
from ..language.token_filter import load_tokenizer
from ..meter.meter import Meter
from ..runtime.cuda import Cuda, open_device
from ..runtime.kernels import PaintKernels, load_paint_kernels
from ..runtime.opening import open_plan
from ..runtime.pipeline import Pipeline
from ..runtime.plans import existing
from ..schedule.residency import Residency
from .batching import Batched
from .blip2 import Blip2
from .clip import ClipImage, ClipText, read_chars
from .denoiser import PaintPlans
from .device_painting import DevicePaintPlans
from .editor import EditorPlans
from .library import Library
from .picture_networks import DepthEstimator, Hed, LatentEncoder
from .sampler import Sampler
from .text_networks import MaskedLm, MaskVocabulary, SentenceEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_Model = TypeVar("_Model")
_Size = tuple[int, int]
_ADVICE = "export the captioner again"


class ModelPool:
    """The open models of one run; `residency` decides which ones to close, without it none."""

    def __init__(self, library: Library, meter: Meter, residency: Residency | None = None) -> None:
        self._library, self._meter, self._residency = library, meter, residency
        # By the networks that a model is made of, and the picture size (height, width) where it depends on one.
        self._models: dict[tuple[tuple[str, ...], _Size | None], Any] = {}
        self._shared_device: Cuda | None = None
        self._pipeline: Pipeline | None = None
        self._kernels: PaintKernels | None = None

    def enter(self, stage: Stage) -> None:
        """A shard has work in this stage: models that must make room for those of the stage are closed."""
        if self._pipeline is not None:
            self._pipeline.rest()
        if self._residency is not None and stage in self._library.networks.stages:
            drops = set(self._residency.enter(stage).drop)
            for key in list(self._models):
                if not drops.isdisjoint(self._library.networks[name].plan for name in key[0]):
                    _close(self._models.pop(key))
            if self._shared_device is not None:  # what they computed in is free too, before anything else is loaded
                self._shared_device.settle()

    def close(self) -> None:
        """The run is over: everything is closed, the language model's memory given back."""
        while self._models:
            _close(self._models.popitem()[1])

    def blip2(self) -> Blip2:
        """The captioner."""
        return self._once(("blip2_vision", "opt_decoder"), self._open_blip2)

    def llm(self) -> Llm:
        return self._once(("llm",), self._open_llm)

    def sentence(self) -> SentenceEncoder:
        """The sentence encoder, which a profile with [grounding] has."""
        return self._once(("sentence",), lambda: SentenceEncoder(self._open("sentence"), self._tokenizer("sentence")))

    def masked(self) -> MaskedLm:
        """The masked language model, which a profile with [random_words] has."""
        words = partial(MaskVocabulary.read, self._library.folder / "masked.json")
        return self._once(("masked",), lambda: MaskedLm(self._open("masked"), self._tokenizer("masked"), words()))

    def clip_text(self) -> ClipText:
        """The text encoder, the same for conditions and checks."""
        line = self._painting_pipeline
        return self._once(("clip_text",), lambda: ClipText(self._open("clip_text"), self._tokenizer("clip"), line()))

    def caption_room(self) -> Callable[[str], int]:
        """How many of a caption's characters the text encoder reads, by its tokenizer; opens no network."""
        return partial(read_chars, self._tokenizer("clip"))

    def clip_image(self) -> ClipImage:
        return self._once(("clip_image",), lambda: ClipImage(self._open("clip_image")))

    def hed(self, height: int, width: int) -> Hed | None:
        """The network of soft edges for pictures of a size in pixels; None where the detector is another."""
        return self._sized("hed", Hed, (height, width)) if "hed" in self._library.networks else None

    @property
    def estimates_depth(self) -> bool:
        return "depth" in self._library.networks

    def depth(self, height: int, width: int) -> DepthEstimator:
        """The network of depth for pictures of a size in pixels, which a profile with [depth] has."""
        return self._sized("depth", DepthEstimator, (height, width))

    def vae_encoder(self, height: int, width: int) -> LatentEncoder:
        """The encoder of pictures of a size in pixels, which a profile with [invert] or [protect] has."""
        return self._sized("vae_encoder", LatentEncoder, (height, width))

    def sampler(self) -> Sampler:
        return self._library.sampler()

    def paint_plans(self, height: int, width: int) -> PaintPlans:
        """The painter's plans for pictures of a size in pixels."""
        shallow = tuple(network.name for network in self._library.networks if network.name == "denoiser_shallow")
        networks, size = (*self._hints, "denoiser", *shallow, "vae_decoder"), (height, width)
        return self._once(networks, lambda: self._open_paint_plans(size), size)

    def editor_plans(self, height: int, width: int) -> EditorPlans:
        """The plans that invert and edit pictures of a size in pixels, which a profile with [invert] has."""
        networks, size = ("vae_encoder", *self._hints, "denoiser", "vae_decoder"), (height, width)
        return self._once(networks, lambda: self._open_editor_plans(size), size)

    def _sized(self, name: str, model: Callable[[Batched], _Model], size: _Size) -> _Model:
        return self._once((name,), lambda: model(self._open(name, size)), size)

    def _once(self, networks: tuple[str, ...], opener: Callable[[], _Model], size: _Size | None = None) -> _Model:
        if (networks, size) not in self._models:
            self._models[networks, size] = opener()
        return cast(_Model, self._models[networks, size])

    def _open(self, name: str, size: _Size = (0, 0)) -> Batched:
        """A network's plan for pictures of `size` in pixels, where it depends on that."""
        library, network = self._library, self._library.networks[name]
        plan, streams, sizes = network.plan, network.streams, library.sizes(network, *size)
        rest = streams, self._device, library.files.of, library.blobs, network.form, library.unkept.append
        with self._meter.loading(plan):
            session = open_plan(library.folder, plan, library.runtime, network.batch, sizes, *rest)
        return Batched(session, lambda: self._meter.work(self._meter.current, plan), streams, plan)

    def _device(self) -> Cuda:
        """The GPU that plans share, from when the first of them is opened."""
        if self._shared_device is None:
            self._shared_device = open_device()
        return self._shared_device

    def _tokenizer(self, name: str) -> Tokenizer:
        return load_tokenizer(self._library.folder / f"{name}_tokenizer.json")

    def _open_blip2(self) -> Blip2:
        file = self._library.existing("opt_embeddings.npy")
        table = read_array(file, _ADVICE)
        if table.ndim != 2 or table.dtype.kind != "f":
            raise CounterfactoryError(f"{file} holds no row of numbers for each token; {_ADVICE}")
        tokenizer = self._tokenizer("opt")
        # The tokens that begin and end a caption: OPT's own, where its export says them, else by their names.
        file = self._library.folder / "opt_tokens.json"
        if file.is_file():
            tokens = fill_value(Mapping[str, Any], read_json(file, _ADVICE), str(file), _ADVICE)
        else:
            tokens = {"bos": tokenizer.token_to_id("<s>"), "eos": tokenizer.token_to_id("</s>")}
            if None in tokens.values():
                path = self._library.folder / "opt_tokenizer.json"
                raise CounterfactoryError(f"{path} has no <s> or no </s>: {_ADVICE}")
        first, last = tokens.get("bos"), tokens.get("eos")
        first = first if isinstance(first, list) else [first]
        if not first or not all(type(token) is int and 0 <= token < len(table) for token in (*first, last)):
            raise CounterfactoryError(f"{file}: bos and eos are tokens of the {len(table)} in the table; {_ADVICE}")
        vision, decoder = self._open("blip2_vision"), self._open("opt_decoder")
        return Blip2(vision, decoder, table.astype(np.float32), tokenizer, tuple(first), last)

    def _open_llm(self) -> Llm:
        library = self._library
        with self._meter.loading("llm"):
            llm = open_llm(existing(library.llm_path), library.llm, library.runtime, library.blobs, library.files.of)
        of = weakref.ref(llm)  # which is closed when its memory is needed
        self._meter.within = lambda: (one.usage.prompt_tokens + one.usage.generated_tokens) if (one := of()) else 0
        return llm

    def _open_paint_plans(self, size: _Size) -> PaintPlans:
        (hint, *others), denoiser, decoder, shape = self._open_painters(size)
        shallow = self._open("denoiser_shallow", size) if "denoiser_shallow" in self._library.networks else None
        more: dict[str, Any] = {"other_hints": tuple(others), "shallow": shallow}
        pipeline = self._painting_pipeline()
        if pipeline is None:
            return PaintPlans(hint, denoiser, decoder, shape, **more)
        if self._kernels is None:
            self._kernels = load_paint_kernels(pipeline.cuda, self._library.unkept.append)
        return DevicePaintPlans(hint, denoiser, decoder, shape, pipeline, self._kernels, **more)

    def _open_editor_plans(self, size: _Size) -> EditorPlans:
        hints, editor, decoder, shape = self._open_painters(size)  # no hints without a control scale
        return EditorPlans(self.vae_encoder(*size), editor, decoder, shape, tuple(hints))

    def _open_painters(self, size: _Size) -> tuple[list[Batched], Batched, Batched, tuple[int, int, int]]:
        """The networks that embed maps, in their order, the denoiser and the decoder, and the shape of latents."""
        channels, factor = self._library.latents()
        hints = [self._open(name, size) for name in self._hints]
        shape = (channels, size[0] // factor, size[1] // factor)
        return hints, self._open("denoiser", size), self._open("vae_decoder", size), shape

    @property
    def _hints(self) -> tuple[str, ...]:
        return tuple(n.name for n in self._library.networks if n.name == "hint" or n.name.startswith("hint_"))

    def _painting_pipeline(self) -> Pipeline | None:
        """The pipeline that painting's models share, where their plans are queued."""
        if self._library.runtime.queues and self._pipeline is None:
            self._pipeline = Pipeline(self._device())
        return self._pipeline


def _close(model: object) -> None:
    """The language model gives its memory back at once; plans do when nothing holds them any longer."""
    if close := getattr(model, "close", None):
        close()
