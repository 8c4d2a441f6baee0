"""Turns labelled photographs into a counterfactual test suite for a vision model.

    import counterfactory as cf

    suite = cf.generate("photos", out="suite", task="classification")
    result = cf.evaluate(suite, "answers.csv")

Importing this loads nothing else: a verb brings what it needs when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterfactory.engine.api.finished import FinishedSuite, Result, evaluate, open, report, verify  # noqa: A004
    from counterfactory.engine.api.options import (
        EditOptions,
        EstimateOptions,
        EvaluateOptions,
        GenerateOptions,
        ImportOptions,
        PageOptions,
        PlanOptions,
        ReportOptions,
        SourceOptions,
    )
    from counterfactory.engine.api.planned import EditPlan
    from counterfactory.engine.api.verbs import estimate, generate, import_pairs, plan
    from counterfactory.engine.errors import CounterfactoryError
    from counterfactory.engine.estimate.estimate import Estimate

    __version__: str

# Where each name comes from.
_HOMES = {
    "api.verbs": ("generate", "import_pairs", "plan", "estimate"),
    "api.finished": ("open", "evaluate", "report", "verify", "FinishedSuite", "Result"),
    "api.planned": ("EditPlan",),
    "estimate.estimate": ("Estimate",),
    "api.options": (
        *("SourceOptions", "EditOptions", "GenerateOptions", "PlanOptions", "EstimateOptions", "EvaluateOptions"),
        *("ReportOptions", "PageOptions", "ImportOptions"),
    ),
    "errors": ("CounterfactoryError",),
}

# In the order of docs/api.md.
# ruff: noqa: RUF022
__all__ = ["generate", "import_pairs", "plan", "estimate", "open", "evaluate", "report", "verify"]
__all__ += ["FinishedSuite", "Result", "EditPlan", "Estimate"]
__all__ += ["GenerateOptions", "ImportOptions", "PlanOptions", "EstimateOptions", "EditOptions", "SourceOptions"]
__all__ += ["EvaluateOptions", "ReportOptions", "PageOptions", "CounterfactoryError", "__version__"]


if not TYPE_CHECKING:  # or a misspelt name would be anything to a type checker

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from counterfactory.engine.packages import release

            value: Any = release()
        else:
            home = next((home for home, names in _HOMES.items() if name in names), None)
            if home is None:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            value = getattr(_load(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _load(home: str) -> ModuleType:
    """A module of the engine. Raises CounterfactoryError where it takes a package that is not installed."""
    try:
        return import_module(f"counterfactory.engine.{home}")
    except ModuleNotFoundError as error:
        from counterfactory.engine.errors import CounterfactoryError
        from counterfactory.engine.packages import missing_package

        if (reason := missing_package(error)) is None:
            raise
        raise CounterfactoryError(reason) from error
