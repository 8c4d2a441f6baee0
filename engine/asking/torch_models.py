"""Models of torch under test: modules, and those that timm, torchvision and Hugging Face name.

Each library's own transform makes the input, so that a model sees what its authors measured it on. torch and the
libraries are imported when a model of theirs is named, never before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from .identity import identify
from .image_processors import of_hugging_face
from .placement import Placement, Size
from .preparation import Picture
from .published_inputs import read_preparation
from .under_test import ModelUnderTest, class_names_of

_EXAMPLE = "resize=256 crop=224 mean=imagenet std=imagenet"


@dataclass(frozen=True)
class _Library:
    """A library's part in a model: the transform of a picture [C, h, w], in words, names of classes, where pictures lie
    in its input, and whether the model is told by a mask what of it is padded.
    """

    prepare: Callable[[Picture], NDArray[Any]]
    input: str
    classes: Mapping[int, str] | None = None
    named_by: str = "the model"
    place: Callable[[Size], Placement] = Placement.whole
    masked: bool = False


def library(name: str, asked: str) -> Any:
    """A library that a user installs. Raises CounterfactoryError where it is not there, or does not start."""
    try:
        return import_module(name)
    except ImportError as error:
        raise CounterfactoryError(f"--model {asked} needs the package {name}: pip install {name}") from error
    except Exception as error:
        reason = _first_line(error)
        raise CounterfactoryError(f"--model {asked}: the package {name} does not start ({reason})") from error


def wrap_module(module: Any, name: str, declared: str | None) -> ModelUnderTest:
    """A module of torch; its input is declared, or read from what timm knows of it."""
    if declared is not None:
        own = _declared(declared, class_names_of(getattr(module, "classes", None)))
    elif hasattr(module, "pretrained_cfg"):
        own = _of_timm(module, name)
    else:
        raise CounterfactoryError(
            f"--model {name} is a module of torch and does not say how pictures become its input: declare it by "
            f"--preprocess, such as {_EXAMPLE!r}"
        )
    return _under_test(module, name, own)


def load_timm(name: str, preprocess: str | None) -> ModelUnderTest:
    """The model that timm calls so, with its weights: "timm:resnet50.a1_in1k", "timm:local-dir:FOLDER"."""
    timm = library("timm", name)
    module = _built(name, lambda: timm.create_model(name.partition(":")[2], pretrained=True))
    return wrap_module(module, name, preprocess)


def load_torchvision(name: str, preprocess: str | None) -> ModelUnderTest:
    """The model that torchvision calls so, with its default weights, or with those of "torchvision:resnet50@NAME"."""
    models = library("torchvision.models", name)
    plain, _, chosen = name.partition(":")[2].partition("@")

    def build() -> tuple[Any, Any]:
        weights = models.get_model_weights(plain)[chosen or "DEFAULT"]
        return models.get_model(plain, weights=weights), weights

    module, weights = _built(name, build)
    if preprocess is not None:
        return wrap_module(module, name, preprocess)
    transform = weights.transforms()
    categories = dict(enumerate(map(str, weights.meta.get("categories", ()))))
    text = " ".join(repr(transform).split())
    own = _Library(partial(_transformed, transform), text, categories or None, f"torchvision's {weights}")
    return _under_test(module, name, own)


def load_hugging_face(name: str, preprocess: str | None) -> ModelUnderTest:
    """The classifier, segmenter or detector that Hugging Face's hub, or a folder, calls so: "hf:google/vit-base"."""
    transformers = library("transformers", name)
    place = name.partition(":")[2]
    config = _built(name, lambda: transformers.AutoConfig.from_pretrained(place))
    architecture = (config.architectures or ["?"])[0]
    kinds = {
        "ForImageClassification": "AutoModelForImageClassification",
        "ForSemanticSegmentation": "AutoModelForSemanticSegmentation",
        "ForObjectDetection": "AutoModelForObjectDetection",
    }
    auto = next((kind for end, kind in kinds.items() if architecture.endswith(end)), None)
    if auto is None:
        raise CounterfactoryError(
            f"--model {name} is a {architecture}: models for image classification, semantic segmentation and object "
            "detection are run"
        )
    module = _built(name, lambda: getattr(transformers, auto).from_pretrained(place))
    classes = {int(number): str(label) for number, label in (config.id2label or {}).items()}
    detects = auto == "AutoModelForObjectDetection"
    if preprocess is not None:
        own = replace(_declared(preprocess, classes), named_by="its id2label")
    if preprocess is None or detects:
        processor = _built(name, lambda: transformers.AutoImageProcessor.from_pretrained(place))
    if preprocess is None:
        own = _of_processor(module, processor, classes, name, maps=auto == "AutoModelForSemanticSegmentation")
    if not detects:
        return _under_test(module, name, own)

    def boxes(outputs: Any, sizes: Sequence[Size]) -> Any:
        inputs = [own.place(size).input for size in sizes]  # its boxes are shares of the input
        return processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=inputs)

    return _under_test(module, name, own, boxes)


def _of_processor(module: Any, processor: Any, classes: Mapping[int, str], name: str, maps: bool) -> _Library:
    """A processor's own way in. One that is not understood has no way back, as a model of `maps` needs it."""
    config = json.loads(processor.to_json_string())
    kind, settings = type(processor).__name__, [key for key in config if key.startswith(("size", "crop", "image_"))]
    text = f"{kind}({', '.join(f'{key}={config[key]}' for key in settings)})"
    own = _Library(partial(_processed, processor), text, classes, "its id2label")
    try:
        preparation = of_hugging_face(config)
    except (ValueError, CounterfactoryError) as error:
        if not maps:
            return own
        unknown = f"of its {kind}, {error!s:.80}, so that its maps have no place in a picture"
        raise CounterfactoryError(f"--model {name}: {unknown}; declare its input by --preprocess") from error
    masked = preparation.pad is not None and "pixel_mask" in signature(module.forward).parameters
    return replace(own, place=preparation.place, masked=masked)


def load_clip(name: str, labels: Sequence[str], preprocess: str | None) -> ModelUnderTest:
    """A CLIP of Hugging Face that names a picture by the likeliest of the `labels`, "a photo of a {label}"."""
    transformers = library("transformers", name)
    torch = library("torch", name)
    place = name.partition(":")[2]
    if preprocess is not None:
        raise CounterfactoryError(f"--model {name} prepares pictures by its own configuration: leave out --preprocess")
    if not labels:
        asked = f"--model {name} chooses among labels"
        raise CounterfactoryError(f"{asked}, and the suite has none: name them by --classes")
    module = _built(name, lambda: transformers.CLIPModel.from_pretrained(place))
    processor = _built(name, lambda: transformers.CLIPProcessor.from_pretrained(place))
    prompts = [f"a photo of a {label}" for label in labels]
    tokens = processor(text=prompts, return_tensors="pt", padding=True)

    class Chooser(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is Any here
        def __init__(self) -> None:
            super().__init__()
            self.clip = module

        def forward(self, pixels: Any) -> Any:
            held = {key: value.to(pixels.device) for key, value in tokens.items()}
            return self.clip(pixel_values=pixels, **held).logits_per_image

    text = f"CLIP's own; {prompts[0]!r} and so on"
    own = _Library(partial(_processed, processor), text, dict(enumerate(labels)), "the suite's labels")
    return _under_test(Chooser(), name, own)


def _of_timm(module: Any, name: str) -> _Library:
    """timm's own transform of a model of timm, and the synsets that its numbers stand for where it knows them."""
    data = library("timm.data", name)
    settings = data.resolve_model_data_config(module)
    prepare = partial(_transformed, data.create_transform(**settings, is_training=False))
    shown = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")
    text = "timm's " + " ".join(f"{key}={settings[key]}" for key in shown if key in settings)
    names = module.pretrained_cfg.get("label_names")
    if names is None and (subset := data.infer_imagenet_subset(module)) is not None:
        names = data.ImageNetInfo(subset).label_names()
    return _Library(prepare, text, None if names is None else dict(enumerate(map(str, names))), "timm")


def _under_test(
    module: Any,
    name: str,
    own: _Library,
    read: Callable[[Any, Sequence[Size]], Any] = lambda outputs, _: outputs,
) -> ModelUnderTest:
    """The module as a model under test; torchvision's detectors take a list of pictures."""
    torch = library("torch", name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = module.eval().to(device)

    def run(inputs: NDArray[Any], sizes: Sequence[Size]) -> Any:
        tensor = torch.from_numpy(np.ascontiguousarray(inputs)).to(device)
        lists = "torchvision.models.detection" in type(module).__module__
        mask = {"pixel_mask": torch.from_numpy(_shown(own, sizes)).to(device)} if own.masked else {}
        with torch.inference_mode():
            return read(module(list(tensor) if lists else tensor, **mask), sizes)

    identity = identify(module, own, read)
    return ModelUnderTest(
        name=name,
        run=run,
        prepare=own.prepare,
        input=own.input,
        digest=identity.digest,
        unknown=identity.unknown,
        classes=own.classes,
        named_by=own.named_by,
        place=own.place,
    )


def _declared(declared: str, classes: Mapping[int, str] | None) -> _Library:
    """What the user says of a picture's way in; channels come before rows and columns."""
    preparation = read_preparation(declared)

    def prepare(picture: Picture) -> NDArray[Any]:
        return np.ascontiguousarray(preparation.apply(picture).transpose(2, 0, 1))

    return _Library(prepare, preparation.text, classes, place=preparation.place)


def _shown(own: _Library, sizes: Sequence[Size]) -> NDArray[np.int64]:
    """Of inputs that are padded to the right and below, 1 where their pictures are, [N, h, w]."""
    places = [own.place(size) for size in sizes]
    shown = np.zeros((len(places), *places[0].input), np.int64)
    for one, place in zip(shown, places, strict=True):
        one[: round(place.scaled[0]), : round(place.scaled[1])] = 1
    return shown


def _processed(processor: Any, picture: Picture) -> NDArray[Any]:
    return np.asarray(processor(images=[picture], return_tensors="np")["pixel_values"][0])


def _transformed(transform: Any, picture: Picture) -> NDArray[Any]:
    return np.asarray(transform(Image.fromarray(picture)).numpy())


def _built(name: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except CounterfactoryError:
        raise
    except Exception as error:  # a library may raise anything
        raise CounterfactoryError(f"--model {name} cannot be opened: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
