"""What an int8 denoiser with trained weights is calibrated on: rendered streets, painted in another appearance.

Their edges, at the size that will be painted, embedded by the ControlNets, and captions of the same layouts under other
weather and light, encoded by the CLIP that conditions the denoiser. Random weights know no words; they take random
states.
"""

from __future__ import annotations

from ..precision.int8 import Painting
from .examples import edges_of, hint_embeddings, streets, text_states
from .graph import Request

_PICTURES, _STEPS = 4, 8


def painting(request: Request) -> Painting:
    """Captions and hint embeddings of a few streets, with the weights of `request`, painted as its profile paints."""
    images, captions = streets(_PICTURES, request.pictures[0])
    texts = text_states(request, [request.paint.negative_prompt, *captions]).numpy()
    return Painting(texts[1:], texts[0], hint_embeddings(request, edges_of(images)).numpy(), request.paint, _STEPS)
