"""Model files: names, shapes and kinds of numbers of their outputs and inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from counterfactory.engine.runtime.quiet_openvino import ov

from . import detector_heads as heads
from .graphs import FLOAT, Node, classifier, constant, node, save_graph
from .sets import CLASSES, classified, detected, segmented
from .table import Told, Workshop, case

PLAIN = ("--preprocess", "scale=255")
_BF16 = TensorProto.BFLOAT16


def labelled(at: Workshop, *classes: str) -> None:
    """A suite of labels."""
    classified(at.folder / "set", classes=classes or CLASSES)
    at.suite()


def masked(at: Workshop, *numbers: int) -> None:
    """A suite of masks of these numbers."""
    segmented(at.folder / "set", numbers)
    at.suite("set", "segmentation")


def boxed(at: Workshop) -> None:
    """A suite of boxes, and files of the names of classes, from 0 and from 1."""
    detected(at.folder / "set")
    at.suite("set", "detection")
    Path("names.txt").write_text("bus\ncar\n")
    Path("from_one.txt").write_text("background\nbus\ncar\n")


def judged(at: Workshop, model: str, *words: str, suite: str = "suite") -> Mapping[str, Any]:
    """What comes of a model."""
    outcome = at.ask("--model", model, *(words or PLAIN), suite=suite)
    return {"originals": outcome.score(), "status": outcome.status, "told": outcome.said}


# --- names of outputs ---


def two_outputs(*tail: Node) -> None:
    """`features`, which are the scores of other classes, and `logits`, behind more nodes."""
    turned = np.eye(3, dtype=np.float32)[[1, 2, 0]]
    nodes = [node("MatMul", "scores turned", "features"), *tail]
    ports = {"features": (FLOAT, None), "logits": (FLOAT, None)}
    classifier(Path("m.onnx"), nodes, outputs=ports, constants={"turned": turned})


@case(
    "14a two outputs, logits the second",
    "onnx/tensorflow-onnx #921",
    {"originals": 100.0, "told": Told("logits.*features")},
)
def logits_the_second(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    two_outputs(node("Mul", "scores one", "logits"), node("Constant", "", "one", value_float=1.0))
    classifier(Path("m.onnx"))
    two_outputs(node("Relu", "scores", "logits"))
    return judged(at, "m.onnx")


@case("14b logits behind an Identity", "intel/onnxruntime PR #213", {"originals": 100.0, "told": Told("'logits'")})
def logits_behind_an_identity(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    two_outputs(node("Relu", "scores", "inner"), node("Identity", "inner", "logits"))
    return judged(at, "m.onnx")


@case("14c a detector behind Identities", "open_model_zoo PR #3422", {"originals": 100.0})
def a_detector_behind_identities(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    form = heads.FORMS["torchvision"]
    constant(Path("m.onnx"), {f"{name}_inner": array for name, array in form.outputs.items()})
    import onnx

    model = onnx.load("m.onnx")
    for port in model.graph.output:
        model.graph.node.append(node("Identity", port.name, port.name.removesuffix("_inner")))
        port.name = port.name.removesuffix("_inner")
    onnx.save(model, "m.onnx")
    return judged(at, "m.onnx", *PLAIN, "--classes", "from_one.txt")


def two_heads() -> None:
    """`weather` and `vehicle`, three classes each."""
    turned = np.eye(3, dtype=np.float32)[[1, 2, 0]]
    nodes = [node("MatMul", "scores turned", "weather"), node("Relu", "scores", "vehicle")]
    classifier(
        Path("m.onnx"),
        nodes,
        outputs={"weather": (FLOAT, None), "vehicle": (FLOAT, None)},
        constants={"turned": turned},
    )


@case("10a two heads that both fit", "bentoml/BentoML #3007", {"status": 2, "told": Told("weather.*vehicle.*--output")})
def two_heads_that_both_fit(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    two_heads()
    return judged(at, "m.onnx")


@case("10b one of two heads is named", "bentoml/BentoML #3007", {"originals": 100.0, "told": Told("vehicle.*weather")})
def one_of_two_heads(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    two_heads()
    return judged(at, "m.onnx", *PLAIN, "--output", "vehicle")


@case(
    "10c an output that is not there", "bentoml/BentoML #3007", {"status": 2, "told": Told("wheels.*weather.*vehicle")}
)
def an_output_that_is_not_there(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    two_heads()
    return judged(at, "m.onnx", *PLAIN, "--output", "wheels")


@case("10d heads of other numbers of classes", "FocoosAI/focoos #118", {"originals": 100.0, "told": Told("'b'")})
def heads_of_other_numbers(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    nodes = [node("Concat", "scores scores", "a", axis=1), node("Relu", "scores", "b")]
    classifier(Path("m.onnx"), nodes, outputs={"a": (FLOAT, ["N", 6]), "b": (FLOAT, ["N", 3])})
    return judged(at, "m.onnx")


@case(
    "10e a classifier's features beside a map",
    "open-mmlab/mmsegmentation #491",
    {"originals": 100.0, "told": Told("'m'")},
)
def a_map_beside_features(at: Workshop) -> Mapping[str, Any]:
    masked(at, 0, 1, 2)
    segmenter("classes first", more=True)
    return judged(at, "m.onnx")


# --- shapes of classifiers ---


def shaped(name: str, right: Any, *words: str, **of: Any) -> None:
    """A case of one classifier, whose scores go through nodes."""

    def find(at: Workshop) -> Mapping[str, Any]:
        labelled(at)
        classifier(Path("m.onnx"), **of)
        return judged(at, "m.onnx", *words)

    case(name, "ReX-XAI/ReX #3", right)(find)


def reshape(*shape: int) -> dict[str, Any]:
    """Scores of another shape."""
    nodes = [node("Reshape", "scores shape", "out")]
    return {"nodes": nodes, "outputs": {"out": (FLOAT, None)}, "constants": {"shape": np.array(shape, np.int64)}}


WHOLE = {"originals": 100.0, "status": 0}
shaped("11a [N, C, 1, 1]", WHOLE, **reshape(-1, 3, 1, 1))
shaped("11b [N, 1, C]", WHOLE, **reshape(-1, 1, 3))
shaped("11c [N, 1, 1, C]", WHOLE, **reshape(-1, 1, 1, 3))
shaped("11d a batch of 1 in a Reshape", WHOLE, **reshape(1, -1))
shaped("11e no batch in the answer", WHOLE, **reshape(3))
shaped("11f no batch in the input", WHOLE, shape=(3, 48, 64))
shaped("11g a fixed batch of 5", WHOLE, shape=(5, 3, 48, 64))
shaped("11h channels last", WHOLE, shape=("N", 48, 64, 3))
shaped("11i grey", WHOLE, shape=("N", 1, 48, 64))
shaped("11j grey, channels last", WHOLE, shape=("N", 48, 64, 1))
shaped("11k an input of which nothing is known", WHOLE, shape=("N", "C", "H", "W"))
for _name, _kind in (("f16", TensorProto.FLOAT16), ("f64", TensorProto.DOUBLE), ("bf16", _BF16)):
    shaped(f"11l pictures in {_name}", WHOLE, kind=_kind)
for _name, _kind in (("uint8", TensorProto.UINT8), ("int64", TensorProto.INT64), ("int32", TensorProto.INT32)):
    shaped(f"11m pictures in {_name}", WHOLE, "--preprocess", "resize=48x64", kind=_kind)
for _name, _kind in (("f16", TensorProto.FLOAT16), ("f64", TensorProto.DOUBLE)):
    shaped(
        f"11n scores in {_name}", WHOLE, nodes=[node("Cast", "scores", "out", to=_kind)], outputs={"out": (_kind, None)}
    )
shaped(
    "11o labels [N, 1]",
    WHOLE,
    *(*PLAIN, "--classes", "imagefolder"),
    nodes=[node("ArgMax", "scores", "out", axis=1, keepdims=1)],
    outputs={"out": (TensorProto.INT64, None)},
)
shaped(
    "11p labels and scores",
    {**WHOLE, "told": Told("'probabilities' of label")},
    nodes=[node("ArgMax", "scores", "label", axis=1, keepdims=0), node("Softmax", "scores", "probabilities")],
    outputs={"label": (TensorProto.INT64, None), "probabilities": (FLOAT, None)},
)
ONE = {"nodes": [node("Slice", "scores one two axis", "out")], "outputs": {"out": (FLOAT, None)}}
ONE["constants"] = {name: np.array([value]) for name, value in (("one", 1), ("two", 2), ("axis", 1))}
shaped("11q one score for three classes", {"status": 2, "told": Told("--output|another model")}, **ONE)


def of_two(name: str, right: Any, kind: str) -> None:
    """A case of one number for a picture of one of two classes."""

    def find(at: Workshop) -> Mapping[str, Any]:
        labelled(at, "bus", "car")
        nodes = [node("Split", "scores", "first second", axis=1), node("Sub", "second first", "logit")]
        nodes.append(node(kind, "logit", "out"))
        classifier(Path("m.onnx"), nodes, outputs={"out": (FLOAT, ["N", 1])}, classes=2)
        return judged(at, "m.onnx")

    case(name, "ReX-XAI/ReX #3", right)(find)


of_two("11r one sigmoid", {**WHOLE, "told": Told("0\\.5")}, "Sigmoid")
of_two("11s one logit", {**WHOLE, "told": Told("above 0 ")}, "Identity")


@case("11t a suffix in capitals", "no thread", WHOLE)
def a_suffix_in_capitals(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    classifier(Path("M.ONNX"))
    return judged(at, "M.ONNX")


@case("9 scores in bfloat16", "keras-team/keras PR #22567", {"originals": 100.0, "same": True})
def scores_in_bfloat16(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    classifier(Path("f32.onnx"), [node("Softmax", "scores", "out")], outputs={"out": (FLOAT, None)})
    nodes = [node("Softmax", "scores", "soft"), node("Cast", "soft", "out", to=_BF16)]
    classifier(Path("m.onnx"), nodes, outputs={"out": (_BF16, None)})
    plain, half = (at.ask("--model", model, *PLAIN).data for model in ("f32.onnx", "m.onnx"))
    sure = [one["originals"]["confidence"]["value"] if "confidence" in one["originals"] else 1 for one in (plain, half)]
    return {"originals": at.outcomes[-1].score(), "same": abs(sure[0] - sure[1]) < 0.01}


# --- maps ---


def segmenter(form: str, more: bool = False, classes: int = 3) -> None:
    """Scores of classes by brightness, 0 to 200 of 255, in one of the forms."""
    levels = np.linspace(0, 200 / 255, classes).astype(np.float32).reshape(1, classes, 1, 1)
    nodes = [
        node("ReduceMean", "pictures", "grey", axes=[1], keepdims=1),
        node("Sub", "grey levels", "away"),
        node("Abs", "away", "distance"),
        node("Neg", "distance", "first"),
    ]
    tails = {
        "classes first": [node("Identity", "first", "m")],
        "classes last": [node("Transpose", "first", "m", perm=[0, 2, 3, 1])],
        "numbers": [node("ArgMax", "first", "m", axis=1, keepdims=0)],
        "numbers with an axis": [node("ArgMax", "first", "m", axis=1, keepdims=1)],
        "numbers in float": [node("ArgMax", "first", "n", axis=1, keepdims=0), node("Cast", "n", "m", to=FLOAT)],
        "half": [node("Cast", "first", "m", to=TensorProto.FLOAT16)],
        "logit": [node("Sub", "grey middle", "away2"), node("Mul", "away2 steep", "m")],
        "sigmoid": [node("Sub", "grey middle", "away2"), node("Mul", "away2 steep", "l"), node("Sigmoid", "l", "m")],
        "sigmoid without an axis": [
            *(node("Sub", "grey middle", "away2"), node("Mul", "away2 steep", "l"), node("Sigmoid", "l", "s")),
            node("ReduceMax", "s", "m", axes=[1], keepdims=0),
        ],
    }
    kinds = {"half": TensorProto.FLOAT16, "numbers": TensorProto.INT64, "numbers with an axis": TensorProto.INT64}
    features = [node("ReduceMean", "grey", "features", axes=[2, 3], keepdims=0)] if more else []
    ports = {**({"features": (FLOAT, None)} if more else {}), "m": (kinds.get(form, FLOAT), None)}
    constants = {"levels": levels, "middle": np.array(100 / 255, np.float32), "steep": np.array(9, np.float32)}
    shape = (FLOAT, ["N", 3, "H", "W"])
    save_graph(Path("m.onnx"), [*nodes, *tails[form], *features], {"pictures": shape}, ports, constants)


def mapped(name: str, form: str, right: Any, *numbers: int) -> None:
    """A case of one segmenter."""

    def find(at: Workshop) -> Mapping[str, Any]:
        masked(at, *numbers)
        segmenter(form)
        return judged(at, "m.onnx")

    case(name, "open-mmlab/mmsegmentation #2172", right)(find)


for _form in ("classes first", "classes last", "numbers", "numbers with an axis", "numbers in float", "half"):
    mapped(f"12 maps: {_form}", _form, WHOLE, 0, 1, 2)
for _form, _least in (("logit", "above 0 "), ("sigmoid", "0\\.5"), ("sigmoid without an axis", "0\\.5")):
    mapped(f"3 one channel: {_form}", _form, {**WHOLE, "told": Told(_least)}, 0, 1)
mapped("3 one channel for three classes", "sigmoid", {"status": 2, "told": Told("one number for a pixel")}, 0, 1, 2)


# --- other tasks, other inputs, other files ---


@case("4a a segmenter for boxes", "newcomer 7", {"status": 2, "told": Told(r"YOLO")})
def a_segmenter_for_boxes(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    segmenter("classes first")
    return judged(at, "m.onnx", *PLAIN, "--classes", "names.txt")


@case("4b a detector for labels", "newcomer 7", {"status": 2, "told": Told("boxes.*labels to judge by")})
def a_detector_for_labels(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    constant(Path("m.onnx"), heads.FORMS["torchvision"].outputs)
    return judged(at, "m.onnx")


@case("4c YOLO with masks of instances for maps", "newcomer 7", {"status": 2, "told": Told("boxes.*maps to judge by")})
def masks_of_instances(at: Workshop) -> Mapping[str, Any]:
    masked(at, 0, 1, 2)
    form = heads.FORMS["yolov8 with masks"]
    constant(Path("m.onnx"), form.outputs, metadata=form.metadata)
    return judged(at, "m.onnx")


@case("7a YOLO by its own metadata", "newcomer 7", {**WHOLE, "told": Told("letterbox.*output0.*YOLO")})
def yolo_by_its_metadata(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    form = heads.FORMS["yolov8 with its metadata"]
    constant(Path("m.onnx"), form.outputs, metadata=form.metadata)
    outcome = at.ask("--model", "m.onnx")
    return {"originals": outcome.score(), "status": outcome.status, "told": outcome.said}


@case("7f YOLO in OpenVINO's format, by its metadata.yaml", "ultralytics' export", {**WHOLE, "told": Told("letterbox")})
def yolo_of_openvino(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    form = heads.FORMS["yolov8 with its metadata"]
    ov.save_model(ov.Core().read_model(constant(Path("m.onnx"), form.outputs)), "m.xml")
    words = {"task": "detect", "imgsz": "[96, 128]", "stride": "32", "names": "{0: bus, 1: car}"}
    Path("metadata.yaml").write_text("".join(f"{key}: {value}\n" for key, value in words.items()))
    outcome = at.ask("--model", "m.xml")
    return {"originals": outcome.score(), "status": outcome.status, "told": outcome.said}


@case("7g YOLO by a letterbox that is declared", "newcomer 7", WHOLE)
def yolo_by_a_letterbox(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    moved = heads.BOXES + np.array([0, 16, 0, 16])  # 64 x 48 in a square of 128, grey above and below
    rows = np.concatenate([moved, heads.SCORES[:, None], heads.LABELS[:, None]], axis=1).astype(np.float32)
    constant(Path("m.onnx"), {"output0": heads.padded(rows, 300)}, shape=(1, 3, 128, 128))
    return judged(at, "m.onnx", "--preprocess", "letterbox=128 scale=255", "--classes", "names.txt")


@case("7b turned boxes", "newcomer 7", {"status": 2, "told": Told("obb")})
def turned_boxes(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    values = {"output0": heads.yolo(False, True, heads.ANCHORS, 1)}
    constant(Path("m.onnx"), values, metadata={**heads.ULTRALYTICS, "task": "obb"})
    return judged(at, "m.onnx")


@case("7c two inputs, one of known values", "PaddleDetection", WHOLE)
def two_inputs(at: Workshop) -> Mapping[str, Any]:
    boxed(at)
    others = {"orig_target_sizes": (TensorProto.INT64, [1, 2]), "scale_factor": (FLOAT, [1, 2])}
    others["pixel_mask"] = (TensorProto.INT64, [1, 96, 128])
    constant(Path("m.onnx"), heads.FORMS["rt-detr"].outputs, others=others)
    return judged(at, "m.onnx", *PLAIN, "--classes", "names.txt")


@case("7d two inputs", "no thread", {"status": 2, "told": Told("2 inputs.*tokens")})
def two_inputs_unknown(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    constant(Path("m.onnx"), {"y": np.zeros((1, 3), np.float32)}, others={"tokens": (TensorProto.INT64, [1, 9])})
    return judged(at, "m.onnx")


@case("7e a configuration beside the file", "optimum", WHOLE)
def a_configuration_beside(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    classifier(Path("m.onnx"), [node("Concat", "truck bus car", "out", axis=1)], outputs={"out": (FLOAT, None)})
    import onnx

    model = onnx.load("m.onnx")
    model.graph.node.insert(3, node("Split", "scores", "bus car truck", axis=1))
    onnx.save(model, "m.onnx")
    config = {"do_resize": True, "size": {"height": 48, "width": 64}, "do_rescale": True, "rescale_factor": 1 / 255}
    config |= {"do_normalize": False, "image_processor_type": "ViTImageProcessor", "resample": 2}
    Path("preprocessor_config.json").write_text(json.dumps(config))
    Path("config.json").write_text(json.dumps({"id2label": {"0": "truck", "1": "bus", "2": "car"}}))
    outcome = at.ask("--model", "m.onnx")
    return {"originals": outcome.score(), "status": outcome.status, "told": outcome.said}


def hostile(name: str, right: Any, write: Any) -> None:
    """A case of a file that is none."""

    def find(at: Workshop) -> Mapping[str, Any]:
        labelled(at)
        classifier(Path("m.onnx"))
        write(Path("m.onnx"))
        return judged(at, "m.onnx")

    case(name, "models.md, bad input", right)(find)


def cut(path: Path) -> None:
    """The first half of it."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def outward(path: Path) -> None:
    """Its weights are in a file out of its folder."""
    import onnx

    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    path.write_bytes(path.read_bytes().replace(b"w.bin", b"../ww"))
    Path("../ww").write_bytes(Path("w.bin").read_bytes())


REFUSED = {"status": 2, "told": Told(r"m\.onnx")}
hostile("6a half a file", REFUSED, cut)
hostile("6b a page of the web", REFUSED, lambda path: path.write_text("<html>not found</html>"))
hostile("6c nothing", REFUSED, lambda path: path.write_bytes(b""))
hostile("6d weights out of the folder", {"status": 2, "told": Told(r"\.\./ww")}, outward)


@case("6e labels in words, and maps in a sequence", "Azure's ZipMap", WHOLE)
def labels_in_words(at: Workshop) -> Mapping[str, Any]:
    labelled(at)
    import onnx
    from onnx import helper

    nodes = [
        node("Softmax", "scores", "soft"),
        node("ArgMax", "scores", "number", axis=1, keepdims=0),
        helper.make_node(
            "LabelEncoder",
            ["number"],
            ["classLabel"],
            domain="ai.onnx.ml",
            keys_int64s=[0, 1, 2],
            values_strings=CLASSES,
        ),
        helper.make_node("ZipMap", ["soft"], ["loss"], domain="ai.onnx.ml", classlabels_strings=CLASSES),
    ]
    classifier(Path("m.onnx"), nodes[:2], outputs={"soft": (FLOAT, None)})
    model = onnx.load("m.onnx")
    model.graph.node.extend(nodes[2:])
    del model.graph.output[:]
    table = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
    model.graph.output.extend(
        [
            helper.make_tensor_value_info("classLabel", TensorProto.STRING, ["N"]),
            helper.make_value_info("loss", helper.make_sequence_type_proto(table)),
        ]
    )
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    onnx.save(model, "m.onnx")
    first = judged(at, "m.onnx")
    return {**judged(at, "m.onnx", *PLAIN, "--output", "loss"), "first": first["originals"]}
