"""Writes the reference of docs/api.md from the docstrings of `import counterfactory`: `python docs/make_api.py`.

The part between the page's markers is replaced; what stands around it is written by hand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parent / "api.md"
BEGIN, END = "<!-- begin: python docs/make_api.py -->", "<!-- end -->"


def reference(module: ModuleType) -> str:
    """The public names of a module in Markdown, in the order of its `__all__`: signatures and docstrings.

    Names without a docstring of their own, such as `__version__`, are listed by their values' types.
    """
    return "\n".join(part for name in module.__all__ for part in _entry(name, getattr(module, name)))


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"### {name}\n"
        yield _documented(value)
        for own, member in vars(value).items():
            if not own.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"#### {name}.{own}\n"
                yield from _called(own, member.fget if isinstance(member, property) else member)
    elif callable(value):
        yield f"### {name}\n"
        yield from _called(name, value)
    else:
        yield f"### {name}\n\nA `{type(value).__name__}`.\n"


def _called(name: str, function: Any) -> Iterator[str]:
    lines = inspect.signature(function)
    text = f"{name}{lines}"
    if len(text) > 100:
        given = "".join(f"    {parameter},\n" for parameter in lines.parameters.values())
        text = f"{name}(\n{given})" + (
            f" -> {lines.return_annotation}" if lines.return_annotation is not lines.empty else ""
        )
    yield f"```text\n{text}\n```\n"
    yield _documented(function)


def _documented(value: Any) -> str:
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"{value.__qualname__} has no docstring")
    return f"{text}\n"


def with_reference(page: str, module: ModuleType) -> str:
    """The page with the module's reference between its markers."""
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{reference(module)}\n{END}{after}"


def main() -> None:
    """Write the page."""
    import counterfactory

    if not hasattr(counterfactory, "__all__"):
        sys.exit("error: `import counterfactory` offers nothing: install this checkout")
    PAGE.write_text(with_reference(PAGE.read_text(encoding="utf-8"), counterfactory), encoding="utf-8")


if __name__ == "__main__":
    main()
