"""What a run would change, source by source: for a person within 80 columns, and as plain data for a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ..report.suite_text import describe, edit_table
from ..tasks.spread import TypeSpread
from .terminal import Terminal

if TYPE_CHECKING:
    from ..journey import Plan
    from ..sources.source import Source
    from ..variant import Variant

_WIDTH = 80


def lines(plan: Plan) -> Iterator[str]:
    """Each source with its caption, the words that may not change, its edits and what the caption then says."""
    reasons = {problem.name: problem.reason for problem in plan.rewritten.shortfalls}
    for source, caption in plan.captions.items():
        variants = _variants(plan, source)
        yield ""
        yield from _wrapped("source", source.name if source.label is None else f"{source.name} ({source.label})")
        yield from _wrapped("caption", caption)
        yield from _wrapped("protected", ", ".join(variants[0].protected if variants else ()) or "nothing")
        for variant in variants:
            again = f", again ({variant.repeat})" if variant.repeat else ""
            again += f", level {variant.level} of {variant.levels}" if variant.levels > 1 else ""
            yield from _wrapped(f"variant {variant.index}", "; ".join(map(describe, variant.edits)) + again)
            yield from _wrapped(
                "", variant.edited_caption if variant.dropped is None else f"dropped: {variant.dropped}"
            )
        if source.name in reasons:
            yield from _wrapped("short", reasons[source.name])


def show_spread(spread: Sequence[TypeSpread], terminal: Terminal) -> None:
    """How edits are spread over types and values; nothing where there are none."""
    if spread:
        terminal.show(edit_table(spread))


def as_data(plan: Plan) -> dict[str, Any]:
    reasons = {problem.name: problem.reason for problem in plan.rewritten.shortfalls}
    return {
        "sources": [
            {
                "source": source.name,
                "label": source.label,
                "caption": caption,
                "protected": list(next((v.protected for v in _variants(plan, source)), ())),
                "variants": [_variant(variant) for variant in _variants(plan, source)],
                "shortfall": reasons.get(source.name),
            }
            for source, caption in plan.captions.items()
        ],
        "problems": [{"name": problem.name, "reason": problem.reason} for problem in plan.problems],
    }


def _variant(variant: Variant) -> dict[str, Any]:
    return {
        "number": variant.index,
        "repeat": variant.repeat,
        "level": variant.level,
        "levels": variant.levels,
        "edits": [asdict(edit) | {"kind": edit.kind} for edit in variant.edits],
        "edited_caption": variant.edited_caption,
        "dropped": variant.dropped,
    }


def _variants(plan: Plan, source: Source) -> list[Variant]:
    """A source's variants by number, those that would be dropped among them, without controls."""
    both = (*plan.rewritten.variants, *plan.rewritten.dropped)
    variants = [variant for variant in both if variant.source == source and variant.kind == "variant"]
    return sorted(variants, key=lambda variant: (variant.index, variant.repeat))


def _wrapped(name: str, text: str) -> list[str]:
    """`name` and the text beside it, on as many lines as it takes."""
    first, *rest = wrap(text, _WIDTH - 11, break_on_hyphens=False) or [""]
    return [f"{name:<11}{first}".rstrip(), *(" " * 11 + line for line in rest)]
