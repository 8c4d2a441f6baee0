"""What trained networks are compared and calibrated on: rendered streets and their captions, as suites will feed them.

Islands of float32 are chosen by the error of fp16, and noise has neither the values that trained weights answer with
outliers (first tokens, end tokens, edges) nor their size. The product renders its own photographs with captions, so
that no data set is needed. Networks of random weights know no streets; they keep the noise that their graphs come with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import cv2
import numpy as np
import torch
from diffusers import DDPMScheduler
from tokenizers import Tokenizer
from torch import Tensor

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.runtime.session import Array
from counterfactory.kernels.canny import CannySettings, canny

from ..graphs import modules
from ..graphs.sentence import feeds_of
from ..precision.int8 import Painting
from . import blip2, clip, denoiser, sentence, vae
from .graph import Graph, Request

_SEED = 77
_Tensors = dict[str, Tensor]


def streets(count: int, size: tuple[int, int]) -> tuple[Array, list[str]]:
    """Rendered scenes, uint8 [N, H, W, 3], and captions of the same layouts under other weather and light."""
    scenes = [EMBEDDED.scene(_SEED, i) for i in range(count)]
    captions = []
    for i, scene in enumerate(scenes):
        random = np.random.default_rng((_SEED, i, 1))
        captions.append(EMBEDDED.describe(EMBEDDED.restyle(scene, random), random))
    height, width = size
    pictures = [EMBEDDED.draw(scene).picture for scene in scenes]
    images = [cv2.resize(picture, (width, height), interpolation=cv2.INTER_CUBIC) for picture in pictures]
    return np.stack(images), captions


def edges_of(images: Array) -> Array:
    """Hints, float32 [N, 1, H, W] in 0..1, as the profiles of GPU boxes find edges."""
    return canny(images, CannySettings(100, 200)).astype(np.float32)[:, None] / 255


def text_states(request: Request, captions: list[str]) -> Tensor:
    """States [N, T, D] of the CLIP of `request`."""
    with torch.no_grad():
        states: Tensor = modules.ClipTextEncoder(clip.build(request))(_tokens(request, captions))[0]
    return states


def hint_embeddings(request: Request, edges: Array) -> Tensor:
    """Hint embeddings [N, D, h, w], or [N, C, D, h, w] of C ControlNets."""
    hint, controlnets = torch.from_numpy(edges), denoiser.build_controlnets(request)
    with torch.no_grad():
        found: list[Tensor] = [modules.HintEncoder(one, grey=True)(hint) for one in controlnets]
    return found[0] if len(found) == 1 else torch.stack(found, 1)


def painting(request: Request, examples: Mapping[str, Array]) -> Painting:
    """What an int8 denoiser is calibrated on: rendered streets, painted as the profile paints in another appearance.

    Their edges, at the size that will be painted, embedded by the ControlNets, and captions of the same layouts under
    other weather and light. Random weights know no words: of them the states and hints of the graph's examples.
    """
    way = denoiser.sampler_of(request)
    paint = replace(request.paint, sampler=way.settings)
    if request.sources is None:
        texts, hints = (np.asarray(examples[name], np.float32)[:2] for name in ("text", "hint_embedding"))
        return Painting(texts, -texts[0], hints, paint, schedule=way.schedule)
    images, captions = streets(4, request.pictures[0])
    texts = text_states(request, [request.paint.negative_prompt, *captions]).numpy()
    hints = hint_embeddings(request, edges_of(images)).numpy()
    return Painting(texts[1:], texts[0], hints, paint, 8, way.schedule)


def on_streets(graph: Graph, request: Request) -> Graph:
    """`graph` with examples from rendered streets in place of noise, if `request` names all weights that make them.

    Raises CounterfactoryError where those weights cannot be read.
    """
    maker = _MAKERS.get(graph.name, _shown)
    sources = request.sources
    if sources is None or (maker in (_step, _around) and not (sources.clip and sources.diffusion)):
        return graph
    if maker is _continued and request.florence2:
        return graph
    with torch.no_grad():
        made = maker(graph, request)
    for name, value in made.items():
        noise, open_axes = graph.inputs[name], graph.axes.get(name, {})
        fixed = [i for i in range(noise.ndim) if i not in open_axes]
        assert value.dtype == noise.dtype, name
        assert [value.shape[i] for i in fixed] == [noise.shape[i] for i in fixed], name
    return replace(graph, inputs={**graph.inputs, **made}, examples="streets")


def _pictures(graph: Graph, name: str, times: int = 1) -> tuple[Array, list[str]]:
    """As many streets as the input has rows, `times` as large."""
    rows, *_, height, width = graph.inputs[name].shape
    return streets(rows, (times * height, times * width))


def _pixels(images: Array) -> Tensor:
    """float32 [N, 3, H, W] in -1..1."""
    return torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1)


def _shown(graph: Graph, request: Request) -> _Tensors:
    """Of networks that see pictures or read captions."""
    (name, noise), *_ = graph.inputs.items()
    if name == "input_ids":
        captions = streets(len(noise), (64, 64))[1]
        if graph.name == "sentence":
            return feeds_of(sentence.tokenizer_of(request), captions)
        return {name: _tokens(request, captions)}
    images = _pictures(graph, name)[0]
    if name == "hint":
        return {name: torch.from_numpy(edges_of(images)).expand(noise.shape).contiguous()}
    return {name: (_pixels(images) + 1) / 2 if name == "image" else _pixels(images)}


def _encoded(request: Request, images: Array) -> Tensor:
    """Latents [N, 4, h, w] of the autoencoder that pictures are decoded by, scaled as the denoiser knows them."""
    latents: Tensor = modules.VaeEncoder(vae.build(request))(_pixels(images))
    return latents


def _latents(graph: Graph, request: Request) -> _Tensors:
    return {"latents": _encoded(request, _pictures(graph, "latents", denoiser.FACTOR)[0])}


def _step(graph: Graph, request: Request) -> _Tensors:
    """Streets as they are after noise was added up to the examples' timesteps, the captions over their edges."""
    images, captions = _pictures(graph, "latents", denoiser.FACTOR)
    schedule = DDPMScheduler.from_config(dict(denoiser.scheduler_of(request)))
    noise, timestep = graph.inputs["latents"], graph.inputs["timestep"]
    latents = schedule.add_noise(_encoded(request, images), noise, timestep)
    found = {"latents": latents, "text": text_states(request, captions)}
    if "hint_embedding" in graph.inputs:
        found["hint_embedding"] = hint_embeddings(request, edges_of(images))
    return found


def _around(graph: Graph, request: Request) -> _Tensors:
    """The same with the deep features that the whole denoiser has of them."""
    found = {**_step(graph, request)}
    whole = modules.WholeDenoiser(denoiser.build_unet(request), *denoiser.build_controlnets(request))
    known = {**graph.inputs, **found}
    inputs = (known[name] for name in ("latents", "timestep", "text", "hint_embedding", "control_scale"))
    found["deep"] = whole(*inputs)[1]
    return {name: value for name, value in found.items() if name in graph.inputs}


def _continued(graph: Graph, request: Request) -> _Tensors:
    """Two tokens of a caption behind its picture's queries and the first token, which the decoder has read."""
    decoder = graph.module
    assert isinstance(decoder, modules.CachedOptDecoder)
    rows, steps = graph.inputs["position_ids"].shape
    eyes, config = blip2.build_eyes(request), blip2.config_of(request)
    images, captions = streets(rows, (eyes.vision_model.config.image_size,) * 2)
    queries = modules.Normalised(modules.Blip2Vision(eyes), clip.MEAN, clip.STD)(_pixels(images))
    del eyes
    first = decoder.tokens[config.text_config.bos_token_id].expand(rows, 1, -1)
    past = queries.shape[1] + 1
    empty = [graph.inputs[name][:0] for name in ("cache_keys", "cache_values")]
    no_rows = [graph.inputs["cache_rows"][:0]] if "cache_rows" in graph.inputs else []
    start = torch.arange(past).expand(rows, -1)
    _, keys, values = decoder(torch.cat([queries, first], 1), start, *empty, *no_rows)
    tokenizer = Tokenizer.from_file(str(blip2.tokenizer_file(request)))
    words = [tokenizer.encode(caption, add_special_tokens=False).ids for caption in captions]
    written = torch.tensor([(ids * steps)[:steps] for ids in words])
    places = torch.arange(past, past + steps).repeat(rows, 1)
    made = {"inputs_embeds": decoder.tokens[written], "position_ids": places}
    made |= {"cache_keys": keys, "cache_values": values}
    if no_rows:
        random = torch.Generator().manual_seed(_SEED)
        made["cache_rows"] = torch.randint(rows, (past, rows), generator=random)
    return made


def _tokens(request: Request, captions: list[str]) -> Tensor:
    tokenizer = clip.tokenizer_of(request)
    return torch.tensor([encoded.ids for encoded in tokenizer.encode_batch(captions)])


_MAKERS: Mapping[str, Callable[[Graph, Request], _Tensors]] = {
    "opt_decoder": _continued,
    "denoiser": _step,
    "denoiser_shallow": _around,
    "vae_decoder": _latents,
}
