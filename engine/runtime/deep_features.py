"""Cuts a denoiser's graph in two forms, so that a step can go on from what an earlier step computed deep in the UNet.

DeepCache, Ma et al. 2023 (arXiv 2312.00858): from step to step a UNet's deep features change little, and the layers
around them are a fraction of its work. Both forms share the denoiser's file of weights:

    whole      also gives `deep` [B, D, h, w]: what goes into the last two layers of the last block
    shallow    takes `deep` in place of all that it is computed from, the ControlNets' deep layers among it

A model of OpenVINO at static shapes comes in. The last two layers begin where channels are joined for the last two
times: the deep feature with what the first layer, then with what the first convolution passes on.
export/graphs/modules.py has the same two forms of torch modules.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .prompt_to_prompt import ancestors, fix_shapes
from .quiet_openvino import ov

DEEP = "deep"


def give_deep(model: ov.Model, path: Path) -> ov.Model:
    """The whole form of the denoiser `model`, read from `path`; one that was exported so as it is.

    Raises CounterfactoryError for another network.
    """
    if not any(DEEP in port.get_names() for port in model.outputs):
        deep = _deep_input(model, path).get_source_output()
        if deep.get_element_type() != ov.Type.f32:
            deep = ov.opset13.convert(deep, ov.Type.f32).output(0)
        deep.set_names({DEEP})
        model.add_results([ov.opset13.result(deep)])
    return model


def take_deep(model: ov.Model, path: Path) -> ov.Model:
    """The shallow form of the denoiser `model`, read from `path`, with the inputs that it still reads; `model` itself
    is used up.

    Raises CounterfactoryError for another network.
    """
    fix_shapes(model)  # else they would hang on what is left out
    place = _deep_input(model, path)
    kind = place.get_element_type()
    deep = ov.opset13.parameter(list(place.get_shape()), ov.Type.f32, DEEP)  # whatever the graph computes in
    deep.output(0).set_names({DEEP})
    place.replace_source_output((deep if kind == ov.Type.f32 else ov.opset13.convert(deep, kind)).output(0))
    (result,) = (one for one in model.get_results() if "prediction" in one.input(0).get_source_output().get_names())
    read = ancestors([result])
    parameters = [one for one in model.get_parameters() if one.get_name() in read]
    return ov.Model([result], [*parameters, deep], model.get_friendly_name())


def _deep_input(model: ov.Model, path: Path) -> Any:
    """The input of the first of the last two layers that is the deep feature."""
    joins = [op for op in model.get_ordered_ops() if op.get_type_name() == "Concat" and len(op.shape) == 4]
    if len(joins) < 2 or not any("prediction" in port.get_names() for port in model.outputs):
        raise CounterfactoryError(f"{path} is no denoiser whose deep features could be used again: {_ADVICE}")
    place = joins[-2].input(0)
    source = place.get_source_output().get_node()
    return source.input(0) if source.get_type_name() == "FakeQuantize" else place  # rounded behind it, in either form


_ADVICE = "take [paint.reuse] out of the profile, or name a UNet's plan in [paint] denoiser"
