"""A network with 8-bit integers where it multiplies: post-training quantisation of what the engine loads.

A network (.xml) and inputs that it really meets arrive; the same network leaves with its convolutions and linear
layers in W8A8: weights by output channel, activations by tensor, ranges as seen on those inputs. Quantise and
dequantise stand in the graph, so that any session opens it and runs the rest in the precision it is asked for.
Whether pictures stay good enough is not judged here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.config.profile import ModelPaths, Profile, load_profile
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.library import Library
from counterfactory.engine.pocket.captions import describe
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import restyle
from counterfactory.engine.runtime.openvino import open_core, open_session
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array, Session, Signature
from counterfactory.engine.runtime.signals import signal_stack_kept
from counterfactory.engine.stages.edges import edge_maps
from counterfactory.engine.stages.paint import PaintJob, paint

from .pocket.data import TRAIN, scene

Feeds = Mapping[str, Array]

# The layers that meet the latents and the prediction, whose errors nothing downstream averages out, and those of the
# timestep, which are small and rule every block. They cost next to nothing in bf16.
SENSITIVE = r"(^|\.)(conv_in|conv_out|time_embedding\.\w+|time_emb_proj)\.weight"
# What may stand between a weight as it is stored and the operation that multiplies by it.
_RESHAPING = frozenset({"Convert", "Reshape", "Transpose", "Multiply", "FakeQuantize"})


def quantise(
    model_path: Path,
    calibration: Iterable[Feeds],
    out_path: Path,
    *,
    keep: str = SENSITIVE,
    correct_bias: bool = True,
) -> None:
    """Write the int8 form of the network `model_path` to `out_path` (.xml beside .bin).

    `calibration` holds feeds of the network, all of which are run in float32; a layer whose weight's name `keep`, a
    regular expression, finds stays as it is, and so do products of activations (attention). `correct_bias` moves each
    layer's bias by the mean error that rounding its weights makes on the calibration. The same inputs give the same
    network again. Raises ValueError without calibration, and for inputs that are not the network's.
    """
    # NNCF reports its use over the network unless this is set before it is imported.
    os.environ.setdefault("NNCF_CI", "1")
    import nncf

    nncf.set_log_level(logging.ERROR)  # else a line for every layer
    feeds = [dict(one) for one in calibration]
    model = open_core().read_model(model_path)
    _check(model_path.name, model, feeds)
    with signal_stack_kept():  # NNCF measures in cores of its own
        quantised = nncf.quantize(
            model,
            nncf.Dataset(feeds),
            preset=nncf.QuantizationPreset.PERFORMANCE,
            target_device=nncf.TargetDevice.CPU,
            subset_size=len(feeds),
            ignored_scope=nncf.IgnoredScope(names=_kept(model, keep)),
            advanced_parameters=nncf.AdvancedQuantizationParameters(disable_bias_correction=not correct_bias),
        )
    out_path.parent.mkdir(parents=True, exist_ok=True)
    ov.save_model(quantised, out_path, compress_to_fp16=True)


def _check(name: str, model: Any, feeds: Sequence[Feeds]) -> None:
    wanted = {port.get_any_name() for port in model.inputs}
    if not feeds:
        raise ValueError(f"quantising {name} needs inputs to calibrate on, got none")
    for one in feeds:
        if one.keys() != wanted:
            raise ValueError(f"{name} takes inputs {sorted(wanted)}, calibration has {sorted(one)}")


def _kept(model: Any, keep: str) -> list[str]:
    """Names of the multiplying operations that stay as they are."""
    names = []
    for op in model.get_ordered_ops():
        if op.get_type_name() in ("Convolution", "MatMul"):
            weight = _weight(op)
            if weight is None or re.search(keep, weight):
                names.append(op.get_friendly_name())
    return names


def _weight(op: Any) -> str | None:
    """The name of an operation's weight; None where it multiplies two activations."""
    source = op.input_value(1).get_node()
    while source.get_type_name() in _RESHAPING:
        source = source.input_value(0).get_node()
    return str(source.get_friendly_name()) if source.get_type_name() == "Constant" else None


def pack_int8(weights: Path, calibration_runs: int = 64) -> None:
    """Write denoiser_int8.xml and .bin beside denoiser.xml in `weights`.

    Calibrated on what the denoiser meets while the engine paints `calibration_runs` rendered scenes of the training's
    stream, each in another appearance, as the profile "pocket" says.
    """
    profile = replace(load_profile("pocket"), models=ModelPaths(str(weights)))
    quantise(weights / "denoiser.xml", painting_feeds(profile, calibration_runs), weights / "denoiser_int8.xml")


@dataclass(frozen=True)
class _Recorder:
    """A session that keeps what it is fed."""

    session: Session
    feeds: list[Feeds] = field(default_factory=list)

    @property
    def signature(self) -> Signature:
        """As that of the session."""
        return self.session.signature

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Keep a copy of `feeds` and run the session."""
        self.feeds.append({name: np.array(array) for name, array in feeds.items()})
        return self.session.run(feeds, hold)


def painting_feeds(profile: Profile, pictures: int) -> list[Feeds]:
    """Every batch that the plan "denoiser" is fed while the engine paints `pictures` rendered scenes by `profile`.

    All steps are in it, and rows with the caption and without as far as the profile guides. Networks run in float32,
    so that other machines see the same within its rounding.
    """
    profile = replace(profile, paint=replace(profile.paint, denoiser="denoiser", streams=1))
    settings, side, folder = profile.paint, profile.image.short_side, profile.models.path
    library, meter = Library(replace(profile, runtime=replace(profile.runtime, precision="f32"))), Meter(lambda _: None)
    plans = library.painter(side, side, settings.batch, settings.decode_batch, meter)
    size = plans.latent_shape[1:]
    sizes = {"latents": size, "hint_embedding": size}
    recorder = _Recorder(open_session(folder / "denoiser.xml", batch=settings.batch, precision="f32", sizes=sizes))
    plans = replace(plans, denoiser=Batched(recorder))
    images, captions = zip(*(_restyled(i) for i in range(pictures)), strict=True)
    hints = plans.embed_hints(edge_maps(np.stack(images), profile.edges))
    texts, _ = library.clip_text(settings.batch, meter).encode([settings.negative_prompt, *captions])
    jobs = [PaintJob(f"{i:064x}", texts[i + 1], hints[i], plans) for i in range(pictures)]
    for _ in paint(jobs, texts[0], settings):
        pass  # the pictures do not matter here
    return recorder.feeds


def _restyled(index: int) -> tuple[NDArray[np.uint8], str]:
    """A rendered scene, and what its caption would say of it in another appearance."""
    random = np.random.default_rng((TRAIN, index))
    source = scene(TRAIN, index)
    return render(source)[0], describe(restyle(source, random), random)
