"""What an int8 denoiser with trained weights is calibrated on: rendered streets, painted in another appearance.

The product renders its own photographs with captions, so that calibration needs no data set: their edges, at the size
that will be painted, embedded by the ControlNets, and captions of the same layouts under other weather and light,
encoded by the CLIP that conditions the denoiser. Random weights know no words; they take random states.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch

from counterfactory.engine.pocket.captions import describe
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import restyle, sample_scene
from counterfactory.engine.runtime.session import Array
from counterfactory.kernels.canny import CannySettings, canny

from ..graphs import modules
from ..precision.int8 import Painting
from . import clip, denoiser
from .graph import Request

_PICTURES, _STEPS, _SEED = 4, 8, 77
# As the profiles of GPU boxes have them.
_EDGES = CannySettings(100, 200)


def painting(request: Request) -> Painting:
    """Captions and hint embeddings of a few streets, with the weights of `request`, painted as its profile paints."""
    scenes = [sample_scene(np.random.default_rng((_SEED, i))) for i in range(_PICTURES)]
    captions = []
    for i, scene in enumerate(scenes):
        random = np.random.default_rng((_SEED, i, 1))
        captions.append(describe(restyle(scene, random), random))
    height, width = request.picture
    images = [cv2.resize(render(scene)[0], (width, height), interpolation=cv2.INTER_CUBIC) for scene in scenes]
    edges = canny(np.stack(images), _EDGES).astype(np.float32)[:, None] / 255
    texts = _texts(request, [request.paint.negative_prompt, *captions])
    return Painting(texts[1:], texts[0], _hints(request, edges), request.paint, _STEPS)


def _texts(request: Request, captions: list[str]) -> Array:
    tokenizer = clip.tokenizer_of(request)
    ids = torch.tensor([encoded.ids for encoded in tokenizer.encode_batch(captions)])
    with torch.no_grad():
        states = modules.ClipTextEncoder(clip.build(request))(ids)[0]
    return np.asarray(states.numpy(), np.float32)


def _hints(request: Request, edges: Array) -> Array:
    """Hint embeddings [N, D, h, w], or [N, C, D, h, w] of C ControlNets."""
    found = []
    for controlnet in denoiser.build_controlnets(request):
        with torch.no_grad():
            found.append(modules.HintEncoder(controlnet, grey=True)(torch.from_numpy(edges)).numpy())
    return found[0] if len(found) == 1 else np.stack(found, 1)
