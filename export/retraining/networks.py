"""Networks to train, by the names that `counterfactory evaluate --model` knows, with an output for each class."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterfactory.engine.asking.callables import import_callable
from counterfactory.engine.asking.torch_models import library
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.training.lesson import Lesson

_SHOWN = 5


def build_network(lesson: Lesson) -> nn.Module:
    """The lesson's model with as many outputs as it has classes, from the weights that its recipe starts from.

    Of weights that a library has, those of another head are left out. Raises CounterfactoryError for a model that
    cannot be made.
    """
    kind, _, place = lesson.model.partition(":")
    count, given = len(lesson.classes), lesson.recipe.start == "given"
    try:
        if kind == "timm":
            made = library("timm", lesson.model).create_model(place, pretrained=given, num_classes=count)
        elif kind == "torchvision":
            made = _of_torchvision(place, count, given, lesson.model)
        else:
            made = copy.deepcopy(import_callable(lesson.model)[0])  # the next training starts from it as well
            if not isinstance(made, nn.Module):
                made = made(num_classes=count) if "num_classes" in inspect.signature(made).parameters else made()
    except CounterfactoryError:
        raise
    except Exception as error:  # a library, or a user's function, may raise anything
        first = (str(error).strip().splitlines() or [""])[0]
        raise CounterfactoryError(f"--model {lesson.model} cannot be made: {type(error).__name__}: {first}") from error
    if not isinstance(made, nn.Module) or not any(parameter.requires_grad for parameter in made.parameters()):
        raise CounterfactoryError(f"--model {lesson.model} is no module of torch with parameters to train")
    return made


def _of_torchvision(place: str, count: int, given: bool, name: str) -> Any:
    models = library("torchvision.models", name)
    plain, _, chosen = place.partition("@")
    dense = {"weights_backbone": None} if "segmentation" in str(models.get_model_builder(plain).__module__) else {}
    module = models.get_model(plain, weights=None, num_classes=count, **dense)
    if given:
        weights = models.get_model_weights(plain)[chosen or "DEFAULT"]
        own = module.state_dict()
        published = weights.get_state_dict(progress=False)
        fitting = {key: value for key, value in published.items() if key in own and own[key].shape == value.shape}
        module.load_state_dict(fitting, strict=False)
    return module


def logits_of(outputs: Any) -> Tensor:
    """Logits [N, C] or [N, C, h, w] in what a network returns: a tensor, a dict of `logits` or `out`, or an object."""
    if isinstance(outputs, dict):
        outputs = outputs.get("logits", outputs.get("out"))
    outputs = getattr(outputs, "logits", outputs)
    if not isinstance(outputs, Tensor):
        raise CounterfactoryError(f"the model returned a {type(outputs).__name__}: logits are a tensor [N, C, ...]")
    return outputs


def require_head(network: nn.Module, lesson: Lesson, inputs: Tensor) -> None:
    """Raises CounterfactoryError where the network does not answer inputs [N, 3, h, w] with a score of each class."""
    network.eval()
    try:
        with torch.no_grad():
            logits = logits_of(network(inputs))
    except CounterfactoryError:
        raise
    except Exception as error:  # a user's module may raise anything
        first = (str(error).strip().splitlines() or [""])[0]
        cannot = f"--model {lesson.model} cannot take pictures {list(inputs.shape)}, as its recipe prepares them"
        raise CounterfactoryError(f"{cannot}: {first}") from error
    axes = 4 if lesson.recipe.task == "segmentation" else 2
    if logits.ndim != axes or logits.shape[1] != len(lesson.classes):
        named = ", ".join(lesson.classes[:_SHOWN]) + (" and so on" if len(lesson.classes) > _SHOWN else "")
        wanted = "[N, C, h, w]" if axes == 4 else "[N, C]"
        has = f"the set has {len(lesson.classes)} classes ({named})"
        answers = f"--model {lesson.model} answers {list(logits.shape)}, and {has}"
        raise CounterfactoryError(f"{answers}: give a model with a head for these, {wanted}")


def scaled(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """Logits [N, C, h, w] at another size."""
    return logits if logits.shape[2:] == size else F.interpolate(logits, size, mode="bilinear", align_corners=False)
