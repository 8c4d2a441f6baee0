"""Reads the tokenizers that models come with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CounterfactoryError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.json. Raises CounterfactoryError when it is missing or no tokenizer."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CounterfactoryError(
            f"tokenizer file {path} is missing; reinstall counterfactory or correct [models]"
        ) from error
    except Exception as error:  # tokenizers raises bare Exception
        raise CounterfactoryError(f"tokenizer file {path} cannot be read: {error}") from error
