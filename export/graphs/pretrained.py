"""Networks of transformers and diffusers read by their own classes, and nothing in them that was not read.

Both libraries draw what a checkpoint lacks at random, or leave it without memory, and pass over what they have no place
for, with a line of a log at most.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from counterfactory.engine.errors import CounterfactoryError

from .hub import explain_unreadable

# Tables of positions, which older versions saved as if they were weights.
TABLES = r"(^|\.)position_ids$"


def load_pretrained(kind: Any, folder: Path, what: str, *, unused: str = TABLES, **how: Any) -> Any:
    """The network of the class `kind` in `folder`. Tensors whose names `unused`, a regular expression, finds may lie
    beside its own. Raises CounterfactoryError for a folder of something else, and for tensors that are missing, of
    another shape, or of no such network.
    """
    with explain_unreadable(folder, what), _quiet():
        network, found = kind.from_pretrained(folder, local_files_only=True, output_loading_info=True, **how)
    parts = {"lacks": sorted(found["missing_keys"]), "has of another shape": sorted(map(str, found["mismatched_keys"]))}
    parts["holds beside it"] = sorted(name for name in found["unexpected_keys"] if not re.search(unused, name))
    wrong = "; ".join(f"{verb} {len(names)} tensors, {names[0]} among them" for verb, names in parts.items() if names)
    if wrong:
        raise CounterfactoryError(f"{folder} is not all of {what} and nothing else: it {wrong}; fetch it anew")
    return network


def read_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer.json `file`. Raises CounterfactoryError for another file."""
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise CounterfactoryError(f"{file} is no tokenizer.json that can be read ({error}): fetch it anew") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tables and bars of libraries: what is wrong is raised."""
    loggers = [logging.getLogger(name) for name in ("transformers", "diffusers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
