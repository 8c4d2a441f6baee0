"""What each score asks of a picture, in words; a score without words is not shown."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

_WORDS = MappingProxyType(
    {
        "valid": "how likely the variant is valid, by all checks together",
        "edit": "does it show its caption rather than the same with one edit undone; the worst edit",
        "recoloured": "does what had the old colour have the new one; the worst edit",
        "kept": "do things keep the colours that no edit names; the worst thing",
        "label": "how much of its class's probability it keeps against original and control",
        "layout": "share of the mask's boundaries that have an outline",
        "in_place": "has it stayed in place against its source (1: not moved at all)",
        "shift": "how far its middle has moved, as a share of the shorter side",
        "scale": "how much larger it has become",
        "aligned": "how alike its outlines and its source's are",
        "sharp": "its detail against the source's",
        "visible": "how much of what its source shows of what is labelled is still to be seen",
        "intact": "share of its blocks that are not black or flat where its source's are not",
        "changed": "how far it is from its source",
        "distinct": "how far it is from the nearest earlier variant",
        "image_text": "CLIP's likeness to its caption",
        "image_image": "CLIP's likeness to its source",
        "source_text": "CLIP's likeness of the source to its own caption",
        "directional": "has it changed as its caption has, by CLIP",
        "nearer": "is it nearer to the edited caption than to the source's, by CLIP",
        "said_edits": "how likely the captioner would write the edited words",
        "said_label": "how likely the captioner would write the label's words",
        "miou": "a referee's mask against the one carried over",
        "recall": "the class of the mask that a referee sees least of",
        "boxes": "share of the boxes that a referee finds",
        "agreement": "share of the classifiers that say the label",
        "ensemble": "mean probability that the classifiers give the label",
        "perplexity": "how badly the edited caption reads (lower is better)",
        "perplexity_ratio": "how much worse the edited caption reads than the caption (lower is better)",
        "text_label": "how nearly an edit's words mean what the label says (lower is better)",
        "text_replaced": "how nearly an edit's words mean what they replace (lower is better)",
        "text_caption": "how nearly the edited caption means what the caption does",
        "confidence": "what the model gives its own answer",
        "picture mIoU": "your model's mask against the one carried over",
    }
)
_PARTS = MappingProxyType(
    {
        "edit": "the same of its edits of {}",
        "recoloured": "the same of its edits of {}",
        "said": "how likely the captioner would write the words of its edits of {}",
        "recall": "how much of {} a referee sees",
    }
)


def score_words(names: Iterable[str]) -> dict[str, str]:
    """The words of those scores that have some, in the order in which a person asks."""
    there = set(names)
    words = {name: text for name, text in _WORDS.items() if name in there}
    for name in sorted(there - words.keys()):
        part, _, of = name.partition("_")
        if of and part in _PARTS:
            words[name] = _PARTS[part].format(of)
    return words
