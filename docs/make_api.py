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


class _Written:
    """An annotation as the source has it, without the quotes of text."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text if isinstance(self._text, str) else inspect.formatannotation(self._text)


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"### {name}\n"
        yield _documented(value)
        for own, member in vars(value).items():
            if not own.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"#### {name}.{own}\n"
                yield from _called(own, member)
    elif callable(value):
        yield f"### {name}\n"
        yield from _called(name, value)
    else:
        yield f"### {name}\n\nA `{type(value).__name__}`.\n"


def _called(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        text = f"{name}: {_Written(inspect.signature(member.fget).return_annotation)!r}"
    else:
        text = _signature(name, inspect.signature(member))
    yield f"```text\n{text}\n```\n"
    yield _documented(member)


def _signature(name: str, found: inspect.Signature) -> str:
    """How a function is called: a line, or one per parameter where that would be long."""
    written = found.replace(
        parameters=[
            one if one.annotation is one.empty else one.replace(annotation=_Written(one.annotation))
            for one in found.parameters.values()
            if one.name != "self"
        ],
        return_annotation=_Written(found.return_annotation),
    )
    if len(f"{name}{written}") <= 100:
        return f"{name}{written}"
    lines = []
    for one in written.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "    *,\n" not in lines:
            lines.append("    *,\n")
        lines.append(f"    {one},\n")
    return f"{name}(\n{''.join(lines)}) -> {written.return_annotation}"


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
