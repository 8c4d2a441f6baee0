"""Models that are asked: what is kept of their answers, and what comes of one picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .sets import classified
from .table import Workshop, case


@case("19a a model that raises", "pandas tables and pipelines, no thread", {"originals": 100.0, "status": 0})
def a_model_that_raises(at: Workshop) -> Mapping[str, Any]:
    classified(at.folder / "set")
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
    at.suite()
    outcome = at.ask("--model", "net:raises")
    return {"originals": outcome.score(), "status": outcome.status}
