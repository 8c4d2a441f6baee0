"""A task: what the model under test does, in words, and the words of a caption that no edit may touch.

The prompts state the task and the language model mostly obeys; `broken_word` checks afterwards that it did.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.fill import fill, nearest, read_toml


@dataclass(frozen=True)
class Task:
    """`sentence` says what the model under test does; `protect` lists words or phrases that may never change, and
    `protect_label` adds each source's own label to them.
    """

    name: str
    sentence: str
    protect: tuple[str, ...]
    protect_label: bool

    def __post_init__(self) -> None:
        for field in ("name", "sentence"):
            if not getattr(self, field).strip():
                raise ValueError(f"{field} is empty")
        for word in self.protect:
            if not _normalise(word):
                raise ValueError(f"protect holds {word!r}, which has no letters or digits to look for")

    def protected(self, label: str | None) -> tuple[str, ...]:
        """The words and phrases that no edit of a source with this label may touch, without repetition."""
        words = self.protect + (label_words(label) if self.protect_label and label is not None else ())
        first: dict[str, str] = {}
        for word in words:
            first.setdefault(_normalise(word), word)
        return tuple(first.values())


_CLASSIFICATION = "classify the vehicle in the image"
_SEGMENTATION = "segment the street into sky, building, road, sidewalk, vegetation, vehicle and pedestrian"
_STREET_WORDS = "car bus truck person people nobody trees buildings road street sidewalk"


def builtin_task(name: str) -> Task:
    """The built-in task "classification" or "segmentation". Raises CounterfactoryError for another name."""
    # The pocket language model is trained on these very sentences.
    built_in = {
        "classification": Task("classification", _CLASSIFICATION, (), True),
        "segmentation": Task("segmentation", _SEGMENTATION, tuple(_STREET_WORDS.split()), True),
    }
    if name not in built_in:
        raise CounterfactoryError(f"no task {name!r}; {nearest(name, built_in)}; or bring your own in a task file")
    return built_in[name]


def load_task(path: Path) -> Task:
    """A task from a TOML file with the keys name, sentence, protect and protect_label.

    Raises CounterfactoryError for a file that cannot be read, an unknown or missing key, or a wrong type.
    """
    return fill(Task, read_toml(path), str(path))


def label_words(label: str) -> tuple[str, ...]:
    """The words that a label means: "n01440764 tench, Tinca tinca" gives ("tench", "Tinca tinca"), "fire_truck"
    gives ("fire truck",). WordNet ids, CUB's "001." and a remark in brackets ("crane (bird)") are left out.
    """
    text = re.sub(r"\([^)]*\)", " ", label.replace("_", " "))
    text = re.sub(r"^\s*(?:n\d{8}\b|\d+\.(?=\s*[^\W\d]))", " ", text)
    words = (" ".join(part.split()) for part in text.split(","))
    return tuple(dict.fromkeys(word for word in words if _normalise(word)))


def broken_word(caption_before: str, caption_after: str, words: Sequence[str]) -> str | None:
    """The first of `words` that an edit removed or added, or None.

    Counts whole words, ignoring case; "-" and "_" count as spaces. Singular and plural are counted separately: "car" is
    broken when "a car" becomes "two cars", when it is removed, and when another car or cars are added.
    """
    before, after = _normalise(caption_before), _normalise(caption_after)
    for word in words:
        if any(_count(form, before) != _count(form, after) for form in _forms(_normalise(word))):
            return word
    return None


def _normalise(text: str) -> str:
    """Casefolded words separated by single spaces; everything but letters and digits is dropped."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).casefold()))


def _forms(word: str) -> tuple[str, ...]:
    """A word, its regular plural, and the singular that it would be the regular plural of, if any."""
    hissing = r"(s|x|z|ch|sh|o)"
    plural = word + "es" if re.search(hissing + "$", word) else re.sub(r"(?<=[^aeiou])y$", "ie", word) + "s"
    if re.search(hissing + "es$", word):
        singular = word[:-2]
    else:
        singular = re.sub(r"ies$", "ys", word)[:-1] if re.search(r"..[^s]s$", word) else word
    return tuple(dict.fromkeys((word, plural, singular)))


def _count(word: str, plain_text: str) -> int:
    return f" {plain_text} ".replace(" ", "  ").count(f" {word.replace(' ', '  ')} ")
