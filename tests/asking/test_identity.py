"""What a model is: a digest of all that could change its answers, the same until one of them changes."""

from __future__ import annotations

import collections
import functools
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from counterfactory.engine.asking.identity import identify
from counterfactory.engine.asking.kept_answers import READING
from counterfactory.engine.asking.outputs import to_json
from counterfactory.engine.asking.published_inputs import read_preparation
from counterfactory.engine.asking.reading_outputs import read_outputs
from counterfactory.engine.asking.score_scale import tell_scale
from counterfactory.engine.keys import content_key


def digest(*parts: Any) -> str:
    one = identify(*parts)
    assert one.digest is not None, one.unknown
    return one.digest


class Net:
    """A model with what such have."""

    threshold: ClassVar = 0.5

    def __init__(self, order: list[int], **more: Any) -> None:
        self.order, self.weights = order, np.arange(6.0).reshape(2, 3)
        self.__dict__ |= more

    @functools.cached_property
    def table(self) -> dict[int, int]:
        return dict(enumerate(self.order))

    @staticmethod
    def scale(value: Any) -> Any:
        return value * 2

    def __call__(self, pictures: Any) -> Any:
        return self.scale(pictures @ self.weights)[:, self.order] > self.threshold


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.order.reverse(),
        lambda net: setattr(net, "weights", net.weights.astype(np.float32)),
        lambda net: setattr(net, "weights", net.weights.reshape(3, 2)),
        lambda net: net.weights.__setitem__((1, 2), 5.5),
        lambda net: setattr(net, "temperature", 2.0),
        lambda net: setattr(net, "inner", Net([1])),
    ],
)
def test_a_changed_attribute_is_another_model(change: Callable[[Any], Any]) -> None:
    net = Net([0, 1, 2])
    before = digest(net)
    assert digest(Net([0, 1, 2])) == before
    change(net)
    assert digest(net) != before


def made(code: str, name: str = "made", **known: Any) -> Any:
    space = {"__name__": "a_module_of_nobody", "np": np, **known}
    exec(code, space)
    return space[name]


PAIRS = {
    "the body": ("def made(x): return x + 1", "def made(x): return x - 1"),
    "a constant": ("def made(x): return x + 1", "def made(x): return x + 2"),
    "a default": ("def made(x, k=1): return x * k", "def made(x, k=2): return x * k"),
    "a keyword's default": ("def made(x, *, k=1): return x * k", "def made(x, *, k=2): return x * k"),
    "a lambda": ("made = lambda x: x + 1", "made = lambda x: x - 1"),
    "a global": ("K = [1, 2]\ndef made(x): return x[K]", "K = [2, 1]\ndef made(x): return x[K]"),
    "a helper": (
        "def help(x): return x\ndef made(x): return help(x)",
        "def help(x): return -x\ndef made(x): return help(x)",
    ),
    "a helper of a part": (
        "def help(x): return x\ndef made(x): return [help(y) for y in x]",
        "def help(x): return -x\ndef made(x): return [help(y) for y in x]",
    ),
    "a closure": (
        "def outer(k):\n def inner(x): return x * k\n return inner\nmade = outer(1)",
        "def outer(k):\n def inner(x): return x * k\n return inner\nmade = outer(2)",
    ),
    "an attribute": ("def made(x): return x\nmade.classes = ['a']", "def made(x): return x\nmade.classes = ['b']"),
    "a method": (
        "class A:\n def __call__(self, x): return x\nmade = A()",
        "class A:\n def __call__(self, x): return -x\nmade = A()",
    ),
    "a base's method": (
        "class A:\n def f(self, x): return x\nclass B(A): pass\nmade = B().f",
        "class A:\n def f(self, x): return -x\nclass B(A): pass\nmade = B().f",
    ),
    "a property": (
        "class A:\n @property\n def k(self): return 1\nmade = A()",
        "class A:\n @property\n def k(self): return 2\nmade = A()",
    ),
    "a class's attribute": ("class A:\n k = 1\nmade = A()", "class A:\n k = 2\nmade = A()"),
    "a slot": (
        "class A:\n __slots__ = ('k',)\nmade = A()\nmade.k = 1",
        "class A:\n __slots__ = ('k',)\nmade = A()\nmade.k = 2",
    ),
    "partial": (
        "import functools\ndef f(x, k): return x\nmade = functools.partial(f, k=1)",
        "import functools\ndef f(x, k): return x\nmade = functools.partial(f, k=2)",
    ),
    "a cache around it": (
        "import functools\n@functools.lru_cache\ndef made(x): return x",
        "import functools\n@functools.lru_cache\ndef made(x): return -x",
    ),
    "a set": ("K = {'a', 'b'}\ndef made(x): return x in K", "K = {'a', 'c'}\ndef made(x): return x in K"),
    "a pattern": (
        "import re\nK = re.compile('a')\ndef made(x): return K",
        "import re\nK = re.compile('b')\ndef made(x): return K",
    ),
    "0.0 and -0.0": ("def made(x): return x * 0.0", "def made(x): return x * -0.0"),
    "1 and True": ("K = 1\ndef made(x): return K", "K = True\ndef made(x): return K"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_code_and_all_that_it_means_by_names_count(pair: tuple[str, str]) -> None:
    first, second = pair
    assert digest(made(first)) == digest(made(first)) != digest(made(second))


def test_lines_comments_and_what_the_code_does_not_name_do_not_count() -> None:
    plain = digest(made("def made(x): return x + 1"))
    assert plain == digest(made("\n\n# more\ndef made(x):\n    return x + 1  # here"))
    assert plain == digest(made("def made(x): return x + 1", lock=threading.Lock()))


@pytest.mark.parametrize(
    "hidden",
    [threading.Lock(), sys.stdout, (one for one in "ab"), types.SimpleNamespace(deep={"in": [threading.RLock()]})],
)
def test_what_cannot_be_read_leaves_its_holder_unknown(hidden: Any) -> None:
    for holder in (Net([0], session=hidden), made("def made(x): return K", K=hidden), functools.partial(print, hidden)):
        one = identify(holder)
        assert one.digest is None
        assert one.unknown in ("lock", "TextIOWrapper", "EncodedFile", "generator", "RLock")


def test_things_that_hold_themselves_are_read() -> None:
    first, second = Net([0]), Net([0])
    first.__dict__["me"], second.__dict__["me"] = first, second
    assert digest(first) == digest(second) != digest(Net([0], me=None))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert identify(deep).digest is None


def test_a_file_that_is_named_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where code opens it at each call."""
    monkeypatch.chdir(tmp_path)
    file = Path("weights.json")
    function = made("def made(x): return open('weights.json')")
    digests = set()
    for content in ("[0, 1]", "[1, 0]"):
        file.write_text(content)
        digests |= {digest(function), digest(Net([0], weights=file)), digest(Net([0], weights=str(file.resolve())))}
    assert len(digests) == 6
    digest(Net([0], weights="x" * 300), Net([0], weights="\N{SNOWMAN}" * 200))


def test_other_modules_of_the_user_count_and_installed_ones_by_their_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = {
        "top_of_a_user": "import help_of_a_user\ndef model(x): return help_of_a_user.run(x)",
        "late_of_a_user": "def model(x):\n from help_of_a_user import run\n return run(x)",
        "help_of_a_user": "import deep_of_a_user\nK = 1\ndef run(x): return deep_of_a_user.run(x, K)",
        "deep_of_a_user": "def run(x, k): return x * k",
    }

    def digests() -> tuple[str, str]:
        for name, text in code.items():
            sys.modules.pop(name, None)
            (tmp_path / f"{name}.py").write_text(text)
        __import__("importlib").invalidate_caches()
        return digest(__import__("top_of_a_user").model), digest(__import__("late_of_a_user").model)

    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        first = digests()
        assert digests() == first
        code["help_of_a_user"] = code["help_of_a_user"].replace("K = 1", "K = 3")
        second = digests()
        assert second[0] != first[0]
        assert second[1] != first[1]
        code["deep_of_a_user"] = "def run(x, k): return x / k"
        assert digests()[0] != second[0]
    finally:
        sys.dont_write_bytecode = before
    function = made("def made(x): return np.mean(x)")
    now = digest(function)
    monkeypatch.setattr("counterfactory.engine.asking.identity.version", lambda package: "0.0.1")
    assert digest(function) != now


def test_another_process_gives_the_same_digest() -> None:
    code = (
        "import sys, functools, collections, re\n"
        "import numpy as np\n"
        "from counterfactory.engine.asking.identity import identify\n"
        "class A:\n"
        "    names = {'a', 'b', 'c', 'd'}\n"
        "    def __init__(self): self.order = collections.OrderedDict(a=np.ones(3)); self.p = re.compile('x')\n"
        "    def __call__(self, x): return [n for n in self.names if n in {'q', 'r', 's'}]\n"
        "print(identify(functools.partial(A(), 3)).digest)\n"
    )
    given = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                       capture_output=True, text=True, check=True).stdout
        for seed in "123"
    ]  # fmt: skip
    assert len(set(given)) == 1
    assert re.fullmatch("[0-9a-f]{64}\n", given[0])


def test_modules_of_torch() -> None:
    torch = pytest.importorskip("torch")

    def module(forward: str = "x", **more: Any) -> Any:
        code = (
            "class made(torch.nn.Module):\n"
            " def __init__(self):\n"
            "  super().__init__()\n"
            "  self.lin = torch.nn.Linear(2, 2, bias=False)\n"
            "  torch.nn.init.ones_(self.lin.weight)\n"
            "  self.register_buffer('hidden', torch.zeros(2), persistent=False)\n"
            "  self.order = [0, 1]\n"
            f" def forward(self, x): return {forward}\n"
        )
        net = made(code, torch=torch)()
        for name, value in more.items():
            setattr(net, name, value)
        return net.eval()

    same = digest(module())
    assert digest(module()) == same
    weights = module()
    weights.lin.weight.data[0, 0] += 1e-6
    others = [
        *(weights, module("-x"), module(order=[1, 0]), module(hidden=torch.ones(2)), module(extra=torch.nn.ReLU())),
        *(module().half(), module().bfloat16(), module(lin=torch.nn.Linear(2, 2)), module(drop=module().train())),
    ]
    digests = {digest(other) for other in others}
    assert len(digests) == len(others)
    assert same not in digests
    hooked = module()
    hooked.register_forward_hook(lambda *_: None)
    assert digest(hooked) != same
    assert identify(torch.nn.Linear(2, 2, device="meta")).digest is None
    assert identify(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)).digest is None


def test_the_number_of_the_reading_is_raised_when_the_same_outputs_become_other_answers() -> None:
    """Kept answers go by it: raise READING when this digest moves."""
    random = np.random.default_rng(5)
    picture = random.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    preparation = read_preparation("resize=16 crop=12x20 mean=imagenet std=0.25")
    place = preparation.place((20, 30))
    outputs: list[Any] = [
        np.array([[0.25, 0.5, 0.25]], np.float32),
        np.array([3]),
        random.integers(0, 4, (1, 6, 10)),
        random.standard_normal((1, 3, 6, 10)).astype(np.float32),
        [{"boxes": [[1.0, 2.0, 8.0, 9.0]], "scores": [0.5], "labels": [1]}],
    ]
    answers = [to_json(one) for output in outputs for one in read_outputs(output, [place])]  # type: ignore[arg-type]
    scale = tell_scale(one for one in read_outputs(outputs[0], [place]))  # type: ignore[misc]
    found = content_key(answers, preparation.apply(picture).round(4).tolist(), scale.text)
    assert (READING, found[:16]) == (1, "edfb9196f288055a")


def test_collections_are_read() -> None:
    assert digest(collections.deque([1])) != digest(collections.deque([2]))
    assert digest({"a": 1, "b": 2}) != digest({"b": 2, "a": 1}), "an order may decide"
