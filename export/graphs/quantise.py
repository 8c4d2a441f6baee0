"""A network with 8-bit integers where it multiplies: post-training quantisation of what the engine loads.

From a network (.xml) and inputs of real use it makes the same network with its convolutions and linear layers in W8A8:
weights by output channel, activations by tensor, ranges as seen on those inputs. Quantise and dequantise stand in the
graph, so that any session opens it and runs the rest in the precision it is asked for. Whether pictures stay good
enough is not judged here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from counterfactory.engine.runtime.dequantize import widen_unless_multiplied
from counterfactory.engine.runtime.libc import signal_stack_kept
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array

Feeds = Mapping[str, Array]

# The layers that meet the latents and the prediction, whose errors nothing downstream averages out, and those of the
# timestep, which are small and rule every block. They cost next to nothing in bf16.
SENSITIVE = r"(^|\.)(conv_in|conv_out|time_embedding\.\w+|time_emb_proj)\.weight"
# What may stand between a weight as it is stored and the operation that multiplies by it.
_RESHAPING = frozenset({"Convert", "Reshape", "Transpose", "Multiply", "FakeQuantize"})


def quantise(
    model_path: Path, calibration: Iterable[Feeds], out_path: Path, *, keep: str = SENSITIVE, correct_bias: bool = True
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
    widen_unless_multiplied(model)
    wanted = {port.get_any_name() for port in model.inputs}
    if not feeds:
        raise ValueError(f"quantising {model_path.name} needs inputs to calibrate on, got none")
    for one in feeds:
        if one.keys() != wanted:
            raise ValueError(f"{model_path.name} takes inputs {sorted(wanted)}, calibration has {sorted(one)}")
    weights = multiplied_weights(model)
    kept = [op.get_friendly_name() for op, weight in weights if weight is None or re.search(keep, weight)]
    how = {"preset": nncf.QuantizationPreset.PERFORMANCE, "target_device": nncf.TargetDevice.CPU}
    how |= {"subset_size": len(feeds), "ignored_scope": nncf.IgnoredScope(names=kept)}
    further = nncf.AdvancedQuantizationParameters(disable_bias_correction=not correct_bias)
    with signal_stack_kept():  # NNCF measures in cores of its own
        quantised = nncf.quantize(model, nncf.Dataset(feeds), **how, advanced_parameters=further)
    out_path.parent.mkdir(parents=True, exist_ok=True)
    ov.save_model(quantised, out_path, compress_to_fp16=True)


def multiplied_weights(model: Any) -> list[tuple[Any, str | None]]:
    """The operations that multiply, in order, each with the name of its weight; None for two activations."""
    return [(op, _weight(op)) for op in model.get_ordered_ops() if op.get_type_name() in ("Convolution", "MatMul")]


def _weight(op: Any) -> str | None:
    """The name of an operation's weight; None where it multiplies two activations."""
    source = op.input_value(1).get_node()
    while source.get_type_name() in _RESHAPING:
        source = source.input_value(0).get_node()
    return str(source.get_friendly_name()) if source.get_type_name() == "Constant" else None
