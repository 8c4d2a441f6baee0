"""Work in a process of its own, which gives all of its memory back at the end.

Libraries take seconds to import. A server that has imported them, and done nothing else, forks a process for each work.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

_Result = TypeVar("_Result")
# What it brings starts no thread: a fork would not have it.
_IMPORTED = ["counterfactory.export.production.command"]


def alone(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """What `work` gives for the arguments; all of them can be pickled."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()
