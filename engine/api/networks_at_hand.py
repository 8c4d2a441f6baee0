"""Networks of the profile that a suite was made with, where they are at hand: CLIP looks at its pictures and captions,
the language model reads its captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..asking.ask import ask_model
from ..asking.callables import wrap_callable
from ..asking.opening_models import names_model, open_model
from ..asking.outputs import ScoreAnswer
from ..asking.under_test import ModelUnderTest
from ..errors import CounterfactoryError
from ..judging.insights import Embed, bags_of_words
from ..judging.set_quality import CaptionPerplexity, Fid, measure_fid, measure_perplexity
from ..suite import PictureRow
from ..suite.recorded import recorded_networks
from .options import Caller

if TYPE_CHECKING:
    from ..models.model_pool import ModelPool
    from ..profile.profile import Profile

CLIP = "clip"


class CaptionEmbedding:
    """Turns captions into vectors: by the text encoder of the suite's profile where its networks are here, else as bags
    of words; `by` says which, None where nothing was asked.
    """

    def __init__(self, suite: Path) -> None:
        self._suite = suite
        self.by: str | None = None
        self._embed: Embed | None = None

    def __call__(self, texts: Sequence[str]) -> NDArray[np.floating]:
        if self._embed is None:
            self._embed, self.by = self._open()
        return self._embed(texts)

    def _open(self) -> tuple[Embed, str]:
        try:
            profile = recorded_networks(self._suite)
            encoder = _pool(profile, "clip_text").clip_text()
        except (CounterfactoryError, ModuleNotFoundError):
            return bags_of_words, "their words"

        def embed(texts: Sequence[str]) -> NDArray[np.floating]:
            vectors = encoder.embed(texts)
            return np.stack([vectors[text] for text in texts])

        return embed, f"CLIP of {profile.name}"


def suite_fid(suite: Path, rows: Sequence[PictureRow], extractor: Any, preprocess: str | None, caller: Caller) -> Fid:
    """FID of a suite by the `extractor`: "clip" is that of the suite's profile, else a model as `evaluate` takes it
    that returns features [N, D]. Raises CounterfactoryError where there is none, or it gives something else.
    """
    if isinstance(extractor, str) and extractor == CLIP:
        model = _clip_extractor(recorded_networks(suite))
    elif isinstance(extractor, (str, Path)) and names_model(str(extractor)):
        model = open_model(str(extractor), preprocess, ())
    elif callable(extractor):
        model = wrap_callable(extractor, preprocess)
    else:
        raise CounterfactoryError(
            f"FID is of features by {CLIP!r}, or by a model as evaluate takes it; got {extractor!r}"
        )
    asked = ask_model(model, suite, [row for row in rows if row.kind != "baseline"], caller.on_progress, caller.warn)
    features = {name: one.scores for name, one in asked.answers.items() if isinstance(one, ScoreAnswer)}
    if len(features) < len(asked.answers):
        raise CounterfactoryError(
            f"{model.name} gives no features: FID needs a row of numbers for each picture, [N, D]"
        )
    return measure_fid(rows, features, model.name)


def suite_perplexity(suite: Path, rows: Sequence[PictureRow]) -> CaptionPerplexity:
    """That of a suite's captions, to its profile's language model. Raises CounterfactoryError where there is none."""
    profile = recorded_networks(suite)

    def read(texts: Sequence[str]) -> list[float]:
        return [exp(surprise) for surprise in _pool(profile, "llm").llm().surprises(texts)]

    return measure_perplexity(rows, read, f"{profile.llm.model} of {profile.name}")


def _clip_extractor(profile: Profile) -> ModelUnderTest:
    clip = _pool(profile, "clip_image").clip_image()

    def run(pictures: NDArray[Any], _: Any) -> NDArray[np.float32]:
        return clip.encode(list(pictures))

    name = f"CLIP of {profile.name}"
    return ModelUnderTest(name, run, lambda picture: picture, "the pictures as they are", batch=clip.plan.at_once)


def _pool(profile: Profile, network: str) -> ModelPool:
    from ..meter.meter import Meter
    from ..models.model_pool import ModelPool
    from ..models.networks import library_of

    library = library_of(profile)
    if network not in library.networks:
        of_llm = ": perplexity takes the language model of one that rewrites captions"
        advice = of_llm if network == "llm" else ": name a model that gives features, such as --fid inception.onnx"
        raise CounterfactoryError(f"profile {profile.name}, which made the suite, has no network {network}{advice}")
    return ModelPool(library, Meter(lambda _: None))
