"""Models that are asked: what is kept of their answers, and what comes of one picture."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import counterfactory as cf

from .sets import CLASSES, classified
from .table import Outcome, Told, Workshop, case

PREPARED = ("--preprocess", "scale=255")
WIDE, HIGH = 96, 64
# What each end of the graph below gives the true class of a picture, by `evaluate`: see `shares`.
LIGHTEVAL = "huggingface/lighteval #1364, PR #1369"


def graph(
    path: Path,
    order: Sequence[int] = (0, 1, 2),
    end: str = "",
    weights: str | None = None,
    gain: float = 5.0,
    steps: int | None = None,
) -> Path:
    """A classifier of `classified` pictures: how bright each third is, by columns in an `order`, with an operation at
    its `end`, perhaps rounded to so many `steps`; its weights lie in another file where one is named.
    """
    edges = np.linspace(0, WIDE, len(CLASSES) + 1).astype(int)
    matrix = np.zeros((WIDE, len(CLASSES)), np.float32)
    for column, number in enumerate(order):
        matrix[edges[number] : edges[number + 1], column] = 3 * gain / WIDE
    held = numpy_helper.from_array(matrix, "matrix")
    nodes = [
        helper.make_node("ReduceMean", ["pictures"], ["columns"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["columns", "matrix"], ["bright"]),
    ]
    constants = [held]
    names = ["bright", *(["ended"] if end else [])]
    if end:
        nodes.append(helper.make_node(end, ["bright"], ["ended"]))
    if steps is not None:
        constants += [
            numpy_helper.from_array(np.array(1 / steps, np.float32), "step"),
            numpy_helper.from_array(np.array(0, np.uint8), "zero"),
        ]
        nodes.append(helper.make_node("QuantizeLinear", [names[-1], "step", "zero"], ["whole"]))
        nodes.append(helper.make_node("DequantizeLinear", ["whole", "step", "zero"], ["rounded"]))
        names.append("rounded")
    nodes.append(helper.make_node("Mul", [names[-1], "one"], ["scores"]))
    constants.append(numpy_helper.from_array(np.array(1, np.float32), "one"))
    inputs = [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 3, HIGH, WIDE])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", len(CLASSES)])]
    whole = helper.make_graph(nodes, "thirds", inputs, outputs, constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    if weights is not None:
        (path.parent / weights).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / weights).write_bytes(held.raw_data)
        (external,) = (one for one in model.graph.initializer if one.name == "matrix")
        external.ClearField("raw_data")
        external.data_location = TensorProto.EXTERNAL
        external.external_data.add(key="location", value=weights)
        path.write_bytes(model.SerializeToString())
    else:
        onnx.save(model, path)
    return path


def bright(folder: Path, gain: float = 5.0) -> Any:
    """The logits [N, 3] of a suite's originals, by NumPy, and their classes [N]."""
    edges = np.linspace(0, WIDE, len(CLASSES) + 1).astype(int)
    logits, truths = [], []
    for row in cf.open(folder).rows:
        if row.kind == "original":
            picture = Image.open(folder / row.file_name).resize((WIDE, HIGH), Image.Resampling.BILINEAR)
            columns = np.asarray(picture, np.float32).mean(axis=(0, 2)) / 255
            logits.append([gain * columns[a:b].sum() * 3 / WIDE for a, b in pairwise(edges)])
            truths.append(CLASSES.index(str(row.label)))
    return np.array(logits), np.array(truths)


def p_true(outcome: Outcome) -> float:
    """Mean p(true) on originals, in percent."""
    (measure,) = (one for one in outcome.data["beside"] if one["name"] == "p(true)")
    return 100 * float(measure["originals"]["value"])


@cache
def finished_suite(per_class: int) -> TemporaryDirectory[str]:
    """A suite of so many pictures of each class, in a folder that is gone at the end."""
    folder = TemporaryDirectory()
    classified(Path(folder.name) / "set", per_class)
    Workshop(Path(folder.name)).suite(f"{folder.name}/set", out=f"{folder.name}/suite")
    return folder


def with_suite(at: Workshop, per_class: int = 4) -> None:
    shutil.copytree(Path(finished_suite(per_class).name) / "suite", at.folder / "suite")


# 01: other weights, the same graph.


@case(
    "01a two exports whose weights lie beside the graph", LIGHTEVAL, {"old": 100.0, "new": 0.0, "status": 3, "kept": 0}
)
def weights_beside_the_graph(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    old = graph(at.folder / "old" / "model.onnx", weights="model.onnx_data")
    new = graph(at.folder / "new" / "model.onnx", (1, 2, 0), weights="model.onnx_data")
    assert old.read_bytes() == new.read_bytes()
    first, second = (at.ask("--model", f"{name}/model.onnx", *PREPARED) for name in ("old", "new"))
    both = at.ask("--model", "old/model.onnx", "--model", "new/model.onnx", *PREPARED, "--max-regression", 2)
    return {
        "old": first.score(),
        "new": second.score(),
        "status": both.status,
        "kept": second.said.count("were kept"),
    }


@case(
    "01b weights of any name in a folder below", "root-project/root PR #23251", {"old": 100.0, "new": 0.0, "status": 3}
)
def weights_of_any_name(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    graph(at.folder / "model.onnx", weights="more/w")
    old = at.ask("--model", "model.onnx", *PREPARED)
    graph(at.folder / "model.onnx", (1, 2, 0), weights="more/w")
    new = at.ask("--model", "model.onnx", *PREPARED)
    both = at.ask("--model", "model.onnx", *PREPARED, "--fail-under", 90)
    return {"old": old.score(), "new": new.score(), "status": both.status}


@case("01c a file that is written anew at its path", LIGHTEVAL, {"old": 100.0, "new": 0.0, "again": 100.0})
def written_anew(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    scores = []
    for order in ((0, 1, 2), (1, 2, 0), (0, 1, 2)):
        graph(at.folder / "model.onnx", order)
        scores.append(at.ask("--model", "model.onnx", *PREPARED).score())
    return dict(zip(("old", "new", "again"), scores, strict=True))


@case(
    "01d one file under two names",
    "lm-evaluation-harness #4063",
    {"status": 0, "said": Told("a.onnx and b.onnx .*alike")},
)
def one_file_twice(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    graph(at.folder / "a.onnx")
    shutil.copy(at.folder / "a.onnx", at.folder / "b.onnx")
    both = at.ask("--model", "a.onnx", "--model", "b.onnx", *PREPARED, "--max-regression", 2)
    return {"status": both.status, "said": " ".join(both.data["notes"])}


@case("01e two good models are not called one", "the reverse of 01d", {"said": 0, "status": 0})
def two_good_models(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    graph(at.folder / "a.onnx")
    graph(at.folder / "b.onnx", gain=6.0)
    both = at.ask("--model", "a.onnx", "--model", "b.onnx", *PREPARED, "--max-regression", 2)
    return {"said": both.said.count("alike"), "status": both.status}


@case("01f another preparation of the same file", LIGHTEVAL, {"first": 100.0, "second": 33.3})
def another_preparation(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    graph(at.folder / "model.onnx")
    first = at.ask("--model", "model.onnx", *PREPARED)
    # A crop of the left third, widened: the first class alone is seen.
    second = at.ask("--model", "model.onnx", "--preprocess", f"resize={HIGH}x{WIDE} scale=255 mean=1e9")
    return {"first": first.score(), "second": second.score()}


# 08: probabilities that do not sum to 1.


def softmax(logits: Any) -> Any:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


ENDS: Mapping[str, tuple[str, int | None, Any, str]] = {
    "softmax": ("Softmax", None, softmax, "scores are probabilities"),
    "softmax in int8": ("Softmax", 256, softmax, "scores are probabilities"),
    "softmax in 5 bits": ("Softmax", 32, softmax, "scores are probabilities"),
    "sigmoids": ("Sigmoid", None, lambda x: 1 / (1 + np.exp(-x)), "each class by itself: sums from"),
    "logits": ("", None, softmax, "logits"),
    "log-probabilities": ("LogSoftmax", None, softmax, "logits"),
}


def ended(name: str) -> None:
    """Enter a case of a graph's end."""
    end, steps, probabilities, told = ENDS[name]

    @case(f"08 {name}", "microsoft/onnxruntime PR #18589, #10591", {"off": 0.0, "kept": 0.0, "said": Told(told)})
    def find(at: Workshop) -> Mapping[str, Any]:
        with_suite(at)
        graph(at.folder / "model.onnx", end=end, steps=steps)
        logits, truths = bright(at.folder / "suite")
        right = 100 * probabilities(logits)[np.arange(len(truths)), truths].mean()
        first, second = (at.ask("--model", "model.onnx", *PREPARED) for _ in range(2))
        # One in 512 or 64 is the rounding's own.
        near = 0.06 if steps is None else 100 / steps
        off = [max(0.0, abs(p_true(one) - right) - near) for one in (first, second)]
        return {"off": off[0], "kept": off[1], "said": first.said}


for name in ENDS:
    ended(name)


@case("08 two models of two scales", "PINTO0309/onnx2tf #942", {"first": 0.0, "second": 0.0})
def two_scales(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    graph(at.folder / "a.onnx", end="Sigmoid")
    graph(at.folder / "b.onnx")
    logits, truths = bright(at.folder / "suite")
    rights = [
        100 * float(share(logits)[np.arange(len(truths)), truths].mean()) for share in (ENDS["sigmoids"][2], softmax)
    ]
    alone = at.ask("--model", "a.onnx", *PREPARED)
    both = at.ask("--model", "a.onnx", "--model", "b.onnx", *PREPARED)
    return {"first": p_true(alone) - rights[0], "second": p_true(both) - rights[1]}


# 15 and 16: what a Python model is made of.


@case("16 a module of torch with another attribute", "cleverhans PR #869", {"first": 1.0, "second": 0.0, "again": 1.0})
def torch_attribute(at: Workshop) -> Mapping[str, Any]:
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, order: list[int]) -> None:
            super().__init__()
            self.order = order

        def forward(self, pictures: Any) -> Any:
            parts = [part.mean(dim=(1, 2, 3)) for part in pictures.tensor_split(3, dim=3)]
            return torch.stack(parts, dim=1)[:, self.order]

    with_suite(at)
    scores = [
        cf.evaluate("suite", Net(order), preprocess="scale=255", warn=lambda _: None).evaluation.originals.score.value
        for order in ([0, 1, 2], [1, 2, 0], [0, 1, 2])
    ]
    return dict(zip(("first", "second", "again"), scores, strict=True))


@case("16b functions given in one script", "as 16", {"scores": [1.0, 0.0, 1.0, 0.0], "kept": [0, 0, 12, 12]})
def closures(at: Workshop) -> Mapping[str, Any]:
    from .sets import thirds

    def model(order: list[int]) -> Any:
        return lambda pictures: thirds(pictures)[:, order]

    with_suite(at)
    results = [
        cf.evaluate("suite", model(order), warn=lambda _: None)
        for order in ([0, 1, 2], [1, 2, 0], [0, 1, 2], [1, 2, 0])
    ]
    kept = [
        sum(int(word.split()[-1]) for note in one.notes for word in note.split(" of ")[:1] if "were kept" in note)
        for one in results
    ]
    return {"scores": [one.evaluation.originals.score.value for one in results], "kept": [min(12, one) for one in kept]}


CODE = """
import json
import numpy as np
from model_cases.sets import thirds
NAMES = ["bus", "car", "truck"]
"""
CHANGED: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "its module": (
        {"net.py": CODE + "def model(p): return [NAMES[i] for i in thirds(p).argmax(1)]"},
        {"net.py": CODE + "def model(p): return [NAMES[i - 1] for i in thirds(p).argmax(1)]"},
    ),
    "a file that is read at import": (
        {
            "net.py": CODE
            + "W = json.load(open('w.json'))\ndef model(p): return [NAMES[W[i]] for i in thirds(p).argmax(1)]",
            "w.json": "[0, 1, 2]",
        },
        {"w.json": "[1, 2, 0]"},
    ),
    "a file that is read at each call": (
        {
            "net.py": CODE
            + "def model(p):\n W = json.load(open('w.json'))\n return [NAMES[W[i]] for i in thirds(p).argmax(1)]",
            "w.json": "[0, 1, 2]",
        },
        {"w.json": "[1, 2, 0]"},
    ),
    "one class alone": (
        {
            "net.py": CODE
            + "W = json.load(open('w.json'))\ndef model(p): return [NAMES[W[i]] for i in thirds(p).argmax(1)]",
            "w.json": "[0, 1, 2]",
        },
        {"w.json": "[0, 1, 0]"},
    ),
    "a helper's module": (
        {
            "net.py": CODE + "import part\ndef model(p): return [NAMES[i] for i in part.order(thirds(p).argmax(1))]",
            "part.py": "def order(numbers): return numbers",
        },
        {"part.py": "def order(numbers): return numbers - 1"},
    ),
    "what an environment variable says": (
        {
            "net.py": CODE
            + "import os\ndef model(p): return [NAMES[i - len(os.environ.get('TURNED_OF_TESTS', ''))] for i in"
            " thirds(p).argmax(1)]"
        },
        {"TURNED_OF_TESTS": "1"},
    ),
    "an object's class": (
        {
            "net.py": CODE + "class Net:\n k = 0\n def __call__(self, p): return [NAMES[i - self.k] for i in"
            " thirds(p).argmax(1)]\nmodel = Net()"
        },
        {
            "net.py": CODE + "class Net:\n k = 1\n def __call__(self, p): return [NAMES[i - self.k] for i in"
            " thirds(p).argmax(1)]\nmodel = Net()"
        },
    ),
}


def changed(name: str) -> None:
    """Enter a case of a callable that changed between two runs."""
    before, after = CHANGED[name]
    right = 66.7 if name == "one class alone" else 0.0

    @case(f"15 a callable, changed by {name}", LIGHTEVAL, {"before": 100.0, "same": 100.0, "after": right})
    def find(at: Workshop) -> Mapping[str, Any]:
        import os

        with_suite(at, per_class=12)

        def write(files: Mapping[str, str]) -> None:
            for file, text in files.items():
                if file.endswith(".py"):
                    at.module(file.removesuffix(".py"), text)
                elif file.endswith(".json"):
                    (at.folder / file).write_text(text)
                else:
                    os.environ[file] = text
            for file in ("net", "part"):  # as in another process
                if (at.folder / f"{file}.py").exists():
                    at.module(file, (at.folder / f"{file}.py").read_text())

        scores = {}
        try:
            for when, files in (("before", before), ("same", {}), ("after", after)):
                write(files)
                scores[when] = at.ask("--model", "net:model").score()
        finally:
            os.environ.pop("TURNED_OF_TESTS", None)
        return scores


for name in CHANGED:
    changed(name)


@case(
    "15h a model that holds what nobody can read",
    LIGHTEVAL,
    {"scores": [100.0, 0.0], "said": Told("not kept.*lock"), "files": 0},
)
def unknown_parts(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    code = (
        CODE
        + "import threading\nLOCK = threading.Lock()\n"
        + "def model(p):\n with LOCK: return [NAMES[i - {}] for i in thirds(p).argmax(1)]"
    )
    scores = []
    for turned in (0, 1):
        at.module("net", code.format(turned))
        scores.append(at.ask("--model", "net:model").score())
    return {"scores": scores, "said": at.sentence, "files": len(list(Path("suite/predictions").glob("*.sqlite")))}


@case(
    "15i dropout that is never switched off",
    "public figures that vary from run to run",
    {"said": Told(r"[1-9]\d* of \d+ pictures otherwise when it is asked again"), "kept": 0, "status": 0},
)
def dropout(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    at.module(
        "net", CODE + "R = np.random.default_rng()\ndef model(p): return thirds(p) + R.normal(0, 0.1, (len(p), 3))"
    )
    first, second = (at.ask("--model", "net:model") for _ in range(2))
    return {"said": first.said, "kept": second.said.count("were kept"), "status": second.status}


@case("15j --fresh asks all anew", LIGHTEVAL, {"calls": [True, False, True], "score": 100.0})
def fresh(at: Workshop) -> Mapping[str, Any]:
    with_suite(at, per_class=12)
    at.module("net", CODE + "def model(p):\n open('ca' + str('lls'), 'a').write('x' * len(p))\n return thirds(p)")
    calls = []
    for more in ((), (), ("--fresh",)):
        before = len(Path("calls").read_text()) if Path("calls").exists() else 0
        outcome = at.ask("--model", "net:model", *more)
        calls.append(len(Path("calls").read_text()) - before > 40)
    return {"calls": calls, "score": outcome.score()}


# 19: one picture without an answer.

ABSENT = ("None", "float('nan')", "''", "[]", "np.float32('nan')")


def absent(number: int, nothing: str) -> None:
    """Enter a case of a picture without an answer."""

    @case(
        f"19{'bcdef'[number]} one answer is {nothing}",
        "transformers' pipelines, pandas' tables",
        {"status": 0, "originals": 100.0, "said": Told("no answer to a picture"), "counts": 22},
    )
    def find(at: Workshop) -> Mapping[str, Any]:
        with_suite(at)
        at.module(
            "net",
            CODE + "def model(p): return [NAMES[s.argmax()] if one.sum() != ODD else "
            f"{nothing} for one, s in zip(p, thirds(p))]\n"
            "from PIL import Image\nimport counterfactory as cf\n"
            "ROWS = cf.open('suite').rows\n"
            "ODD = max(int(np.asarray(Image.open('suite/' + r.file_name)).sum()) for r in ROWS)",
        )
        outcome = at.ask("--model", "net:model")
        counts = sum(
            outcome.data[kind]["score"]["count"]
            for kind in ("originals", "controls", "variants")
            if outcome.data.get(kind)
        )
        return {"status": outcome.status, "originals": outcome.score(), "said": outcome.said, "counts": counts}


for number, nothing in enumerate(ABSENT):
    absent(number, nothing)


@case("19a a model that raises", "pandas tables and pipelines, no thread", {"originals": 100.0, "status": 0})
def a_model_that_raises(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    at.module(
        "net",
        """
from model_cases.sets import thirds
calls = []
def raises(pictures):
    calls.append(len(pictures))
    if len(calls) < 3: raise RuntimeError("the whole batch, and its first picture")
    return thirds(pictures)
""",
    )
    outcome = at.ask("--model", "net:raises")
    return {"originals": outcome.score(), "status": outcome.status}


@case("19g a pipeline's lists", "transformers", {"originals": 100.0, "confidence": 90.0})
def pipelines(at: Workshop) -> Mapping[str, Any]:
    with_suite(at)
    at.module(
        "net",
        CODE + "def model(p): return [[dict(label='tram', score=0.1), dict(label=NAMES[s.argmax()], score=0.9)] "
        "for s in thirds(p)]",
    )
    outcome = at.ask("--model", "net:model")
    (sure,) = (one for one in outcome.data["beside"] if one["name"] == "confidence")
    return {"originals": outcome.score(), "confidence": 100 * sure["originals"]["value"]}


@case("19h one answer too few in a batch", "no thread", {"status": 2, "said": Told("returned 31 ")})
def one_too_few(at: Workshop) -> Mapping[str, Any]:
    with_suite(at, per_class=6)
    at.module("net", CODE + "def model(p): return [NAMES[i] for i in thirds(p).argmax(1)][:-1]")
    outcome = at.ask("--model", "net:model")
    return {"status": outcome.status, "said": outcome.said}


# What can be known after the first batch is not asked of all.

FIRST: Mapping[str, tuple[str, str]] = {
    "words that are no label": ("['dog'] * len(p)", "'dog'"),
    "scores of too many classes": ("np.tile(np.arange(1000.0), (len(p), 1))", "--classes FILE"),
    "boxes where labels are": (
        "[dict(boxes=[[1, 2, 3, 4]], scores=[0.9], labels=[1])] * len(p)",
        "answers boxes, and this suite has labels",
    ),
}


def refused_first(name: str) -> None:
    """Enter a case of answers that are refused after the first batch, asked twice."""
    answers, word = FIRST[name]

    @case(f"first batch: {name}", "newcomer.md 12", {"status": 2, "said": Told(word), "asked": 64})
    def find(at: Workshop) -> Mapping[str, Any]:
        with_suite(at, per_class=20)
        at.module("net", CODE + f"def model(p):\n open('calls', 'a').write('x' * len(p))\n return {answers}")
        outcome = at.ask("--model", "net:model")
        return {"status": outcome.status, "said": outcome.said, "asked": len(Path("calls").read_text())}


for name in FIRST:
    refused_first(name)


@case("first batch: a model of more classes that errs", "a bad model gets its bad figure", {"status": 0, "off": 0.0})
def more_classes(at: Workshop) -> Mapping[str, Any]:
    """It calls some buses "minibus", which is no label: said, and counted as wrong."""
    with_suite(at, per_class=20)
    at.module(
        "net",
        CODE + "def model(p): return ['minibus' if i == 0 and one.sum() % 8 == 0 else NAMES[i] "
        "for one, i in zip(p, thirds(p).argmax(1))]",
    )
    outcome = at.ask("--model", "net:model")
    originals = [row for row in cf.open("suite").rows if row.kind == "original"]
    sums = [np.asarray(Image.open(at.folder / "suite" / row.file_name)).sum(dtype=np.int64) for row in originals]
    right = [row.label != "bus" or of % 8 > 0 for row, of in zip(originals, sums, strict=True)]
    assert not all(right)
    return {"status": outcome.status, "off": (outcome.score() or 0.0) - 100 * sum(right) / len(right)}
