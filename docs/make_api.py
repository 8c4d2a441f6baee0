"""Writes the reference of docs/api.md from the docstrings of `import counterfactory`: `python docs/make_api.py`.

The part between the page's markers is replaced; what stands around it is written by hand. Keywords, the classes that
are named `...Options`, are left to engine/api/options.py: the page of the options says what they mean. So is what a
class's own functions raise, which the page says of all of them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parent / "api.md"
BEGIN, END = "<!-- begin: python docs/make_api.py -->", "<!-- end -->"


def reference(module: ModuleType) -> str:
    """The public names of a module in Markdown, in the order of its `__all__`: how they are called, and docstrings.

    Names without a docstring of their own, such as `__version__`, are listed by their values' types.
    """
    names = [name for name in module.__all__ if not name.endswith("Options")]
    return "\n".join(f"### {name}\n\n{_entry(name, getattr(module, name))}\n" for name in names)


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return "\n".join([_documented(value), *_members(value)])
    if callable(value):
        return f"`{_called(name, value)}`\n\n{_documented(value)}"
    return f"A `{type(value).__name__}`."


def _members(of: type) -> Iterator[str]:
    """A list of a class's own properties and functions, after an empty line."""
    own = [
        (name, member)
        for name, member in vars(of).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]
    if own:
        yield ""
    for name, member in own:
        yield f"- `{_called(name, member)}`: {re.sub(r' Raises [^.]+[.]', '', ' '.join(_documented(member).split()))}"


def _called(name: str, member: Any) -> str:
    """A property with its type; a function with its parameters' names and defaults, and what it gives."""
    if isinstance(member, property):
        return f"{name}: {_returned(inspect.signature(member.fget))}"
    signature = inspect.signature(member)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    return f"{name}{inspect.Signature(bare)} -> {_returned(signature)}"


def _returned(signature: inspect.Signature) -> str:
    """The annotation of what is given, as the source has it."""
    given = signature.return_annotation
    return given if isinstance(given, str) else inspect.formatannotation(given)


def _documented(value: Any) -> str:
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"{value.__qualname__} has no docstring")
    return text


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
