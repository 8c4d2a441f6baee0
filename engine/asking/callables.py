"""A model under test that is a Python function, or a torch module: given as it is, or by the name `module:callable`.

A function takes pictures of one size, uint8 RGB [N, H, W, 3]. It may say more of itself by attributes: `preprocess` (as
--preprocess) and `classes`, the names of its numbers in order.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from ..errors import CounterfactoryError
from .identity import identify
from .placement import Size
from .preparation import Preparation
from .published_inputs import read_preparation
from .under_test import ModelUnderTest, class_names_of, with_output


def load_callable(name: str, preprocess: str | None, output: str | None = None) -> ModelUnderTest:
    """The model `module:callable`. Raises CounterfactoryError as `import_callable`, and for what cannot be called."""
    model, module = import_callable(name)
    return wrap_callable(model, preprocess, output, name, module)


def import_callable(name: str) -> tuple[Any, ModuleType]:
    """What `module:callable` names, and the module; modules of the working folder count. Raises CounterfactoryError for
    a name that cannot be imported.
    """
    module_name, _, attributes = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # a user's module may raise anything
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CounterfactoryError(f"--model {name}: the module {module_name} cannot be imported ({fault})") from error
    finally:
        sys.path.remove(here)
    model: Any = module
    for attribute in attributes.split("."):
        if not hasattr(model, attribute):
            raise CounterfactoryError(f"--model {name}: {module_name} has no {attributes!r}")
        model = getattr(model, attribute)
    return model, module


def wrap_callable(
    model: Any,
    preprocess: str | None = None,
    output: str | None = None,
    name: str | None = None,
    module: ModuleType | None = None,
) -> ModelUnderTest:
    """The model that a callable is, of the `module` that it was imported from."""
    called = name or str(getattr(model, "__name__", type(model).__name__))
    if not callable(model):
        raise CounterfactoryError(
            f"--model {called} is a {type(model).__name__}: a model is called with pictures, uint8 RGB [N, H, W, 3]"
        )
    declared = preprocess or getattr(model, "preprocess", None)
    if is_torch(model):
        from .torch_models import wrap_module

        return with_output(wrap_module(model, called, declared), output)
    preparation = Preparation() if declared is None else read_preparation(declared)
    function: Callable[[Any], Any] = model

    def run(inputs: NDArray[Any], _: Sequence[Size]) -> Any:
        return function(inputs)

    identity = identify(model, module, preparation)
    own = ModelUnderTest(
        name=called,
        run=run,
        prepare=preparation.apply,
        input=preparation.text,
        digest=identity.digest,
        unknown=identity.unknown,
        classes=class_names_of(getattr(model, "classes", None)),
        place=preparation.place,
    )
    return with_output(own, output)


def is_torch(model: Any) -> bool:
    """Whether it is a module of torch, which is not imported for that."""
    bases = inspect.getmro(type(model))
    return any(base.__module__.startswith("torch.nn") and base.__name__ == "Module" for base in bases)
