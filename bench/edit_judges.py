"""What is thought of an edited caption, by other means than the engine's own check: whether it still names its label,
whether the change is of the type that was asked, and whether it reads like the caption that it was made of.

The judges are weak, so each is tried on cases whose answer is known, and the bench prints how it did.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.english.label_names import label_words, synset_of
from counterfactory.engine.english.nouns import load_nouns

Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Floats]

_IRREGULAR = {"men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "teeth": "tooth"}
_IRREGULAR |= {
    "mice": "mouse",
    "geese": "goose",
    "knives": "knife",
    "wolves": "wolf",
    "leaves": "leaf",
    "halves": "half",
}
# A caption beside a label: nothing of these says what the thing is.
_VAGUE = frozenset(re.findall("[a-z]+", "thing object unit whole matter substance person body part artifact structure"))


def stem(word: str) -> str:
    """A word in small letters and in the singular, roughly."""
    word = re.sub(r"['\u2019]s?$", "", word.casefold())
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if re.search(r"(?:s|x|z|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stems(text: str) -> list[str]:
    """The words of a text as `stem` has them."""
    return [stem(word) for word in re.findall(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?", text)]


def words_of_label(label: str) -> frozenset[str]:
    """Last words of all that WordNet calls the label, and of what it is a kind of."""
    nouns, names = load_nouns(), list(label_words(label))
    level = [key] if (key := synset_of(label)) and key in nouns else [k for name in names for k in nouns.senses(name)]
    while level:
        names += [lemma for key in level for lemma in nouns[key].lemmas]
        level = [parent for key in level for parent in nouns[key].parents]
    return frozenset(stem(name.split(" ")[-1]) for name in names) - _VAGUE


@dataclass(frozen=True)
class LabelJudge:
    """Says whether a label is as true of an edited caption as of its caption: as often named, by lemmas and hypernyms;
    and not less alike to the sentence encoder by more than `most_lost`, a difference of cosines.
    """

    encode: Encode
    most_lost: float

    def keeps(self, rows: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Whether each (label, caption, edited caption) keeps its label, by both."""
        lost = self.lost(rows)
        return [
            same_names(label, old, new) and fell <= self.most_lost
            for (label, old, new), fell in zip(rows, lost, strict=True)
        ]

    def lost(self, rows: Sequence[tuple[str, str, str]]) -> list[float]:
        """By how much the cosine of label and caption falls."""
        texts = list(
            dict.fromkeys(text for label, old, new in rows for text in (", ".join(label_words(label)), old, new))
        )
        at = dict(zip(texts, self.encode(texts), strict=True))
        names = [at[", ".join(label_words(label))] for label, *_ in rows]
        return [float(name @ at[old] - name @ at[new]) for name, (_, old, new) in zip(names, rows, strict=True)]


def same_names(label: str, caption: str, edited: str) -> bool:
    """Whether both texts name the label equally often, by any of its words."""
    names = words_of_label(label)
    return Counter(w for w in stems(caption) if w in names) == Counter(w for w in stems(edited) if w in names)


# What edits of each type say: what the judge knows, and what it is tried on. They were
# written as people say such things; few are the engine's phrases, of which perturbers learn.
KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        type_: tuple(said.split("; "))
        for type_, said in {
            "weather": (
                "in a downpour; while snow falls; on a misty day; rainy; under clouds; in a blizzard; in a "
                "thunderstorm; on a wet and windy morning; drenched by rain; under a clear sky; in the sunshine; "
                "on a hot summer day; in a dust storm; during a heat wave; in freezing cold; under grey clouds; "
                "in hail; as lightning strikes; in wind and rain; with fog rolling in; in light rain; on a cold "
                "day; during a typhoon; sunlit and cloudless"
            ),
            "time": (
                "at nightfall; at daybreak; in the early evening; midnight; at midday; late at night; at three in "
                "the afternoon; in the dead of night; at first light; at breakfast time; around noon; as the sun "
                "sets; as the sun rises; by day; by night; this morning; an hour before dark; late in the day; on "
                "a summer evening; at lunchtime; under a starry night sky; in the wee hours; at dinner time; "
                "before bedtime"
            ),
            "light": (
                "in dim lamplight; in glaring light; lit from behind; in the shade; in blue light; with shadows; "
                "by torchlight; in the beam of a flashlight; in silhouette; brightly lit; softly lit; under "
                "studio lamps; in flickering light; with a strong glare; in hazy sunlight; lit from above; in "
                "moonlight; in the glow of a screen; under a bare bulb; in half-light; with light streaming in; "
                "in deep darkness; with harsh shadows; under red lights"
            ),
            "camera": (
                "from above; in a close view; from a low angle; from a distance; from the side; with a wide lens; "
                "seen head on; seen from overhead; from the front; in an extreme close-up; seen from a window; "
                "from far off; through a telescope; upside down; in a panoramic view; cropped tightly; seen "
                "through a keyhole; from eye level; with a shallow depth of field; out of focus; from a "
                "helicopter; seen from the ceiling; in profile; from a moving train"
            ),
            "background": (
                "with hills behind; on a beach; in a field; in front of a wall; in a room; on a street; with the "
                "ocean in the background; with skyscrapers in the background; with a river in the background; "
                "with a snowy mountain in the background; with a stadium in the background; with palm trees in "
                "the background; with a castle behind; against a blank wall; on a mountain top; on the moon; in a "
                "swamp; at the seaside; in front of a farmhouse; on a rooftop; on the kitchen counter; on a rocky "
                "shore; in a cave; with buildings in the background"
            ),
            "object": (
                "beside a chair; next to a box; with a cup; near a bicycle; beside a bucket; next to a tree "
                "stump; next to a suitcase; beside a wooden table; next to a football; near a pair of shoes; with "
                "an umbrella; beside a laptop; next to a teapot; near a pile of stones; beside a mailbox; next to "
                "a bowl of fruit; with a hat; holding a balloon; next to a fire hydrant; near a bench; beside a "
                "guitar; next to a television; by a stack of plates; with a newspaper"
            ),
            "colour": (
                "red; turquoise; bright green; yellow; dark brown; violet; magenta; navy blue; crimson; beige; "
                "olive green; silver; golden; cream; teal; pale yellow; scarlet; maroon; light blue; tan; "
                "lavender; lime green; rust red; ivory"
            ),
            "adjective": (
                "small; very large; old; clean; spotted; wet; enormous; broken; brand new; heavy; thin; round; "
                "rusty; young; fat; fluffy; smooth; wooden; long; crooked; gigantic; narrow; fancy; plain"
            ),
            "subject": (
                "covered in snow; mud-covered; half hidden; soaked with water; covered in flowers; painted; "
                "covered with frost; wrapped in paper; dripping wet; covered in paint; smeared with mud; "
                "overgrown with moss; black with soot; decorated with ribbons; buried in sand; coated in ice; "
                "covered in feathers; splashed with paint; rain-drenched; frost-covered; wrapped in plastic; "
                "covered in glitter; partly buried; ivy-covered"
            ),
            "domain": (
                "a painting of; a pencil drawing of; a cartoon of; a sculpture of; a sketch of; a mosaic of; an "
                "acrylic painting of; a chalk drawing of; a statue of; a photo of; a linocut of; a tattoo of; an "
                "embroidery of; a stained glass window of; graffiti of; a crayon drawing of; a 3d rendering of; a "
                "screenshot of; a stencil of; a clay model of; an ink drawing of; a black and white picture of; a "
                "woven rug of; a pixel art image of"
            ),
            "other": (
                "with smoke in the air; behind a fence; with bubbles around; behind glass; with petals falling; "
                "with confetti around; with leaves blowing past; behind a curtain; behind a screen; with balloons "
                "floating by; through a wet window; with fireflies around; behind a wire mesh; with ash in the "
                "air; with birds flying past; with paper scraps in the air; with soap suds around; behind a "
                "grille; with glitter in the air; with pollen drifting; with snowflakes on the lens; behind a row "
                "of poles; with splashes around; with mist from a hose"
            ),
        }.items()
    }
)

TRIED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        type_: tuple(said.split("; "))
        for type_, said in {
            "weather": "in drizzle; during a hailstorm; foggy; in strong wind; on an icy winter day; stormy",
            "time": "before sunrise; at the end of the day; noon; after dark; in the small hours; at sundown",
            "light": "under a spotlight; in faint light; lit by a fire; backlit; under neon lights; in soft daylight",
            "camera": "from the back; through binoculars; from below; at an angle; from a bird's eye view; zoomed in",
            "background": (
                "with trees behind it; on the grass; in a forest; with a town in the distance; on a floor; in a park"
            ),
            "object": "next to a bag; beside a bottle; with a toy; near a lamp; next to a book; beside a basket",
            "colour": "blue; black; pale pink; white; orange; gray",
            "adjective": "tiny; big; dirty; striped; worn; shiny",
            "subject": (
                "snow-covered; covered in leaves; partly hidden; covered in dust; covered in stickers; frozen in ice"
            ),
            "domain": "a watercolour of; an engraving of; an illustration of; a poster of; a photograph of; a comic of",
            "other": (
                "with dust in the air; behind bars; with sparks flying; with steam rising; behind a net; with "
                "feathers floating"
            ),
        }.items()
    }
)


@dataclass(frozen=True)
class TypeJudge:
    """Says which types the words of an edit are most alike, by the examples that it knows."""

    encode: Encode

    def ranked(self, texts: Sequence[str]) -> list[list[str]]:
        """The types of each text, the likeliest first: by the mean of its two nearest examples of each."""
        known = {type_: self.encode(some) for type_, some in KNOWN.items()}
        found = self.encode(texts)
        scores = {type_: np.sort(found @ some.T, axis=1)[:, -2:].mean(1) for type_, some in known.items()}
        order = list(scores)
        table = np.stack([scores[type_] for type_ in order])
        return [[order[i] for i in np.argsort(-column, kind="stable")] for column in table.T]

    def held_out(self, first: int) -> float:
        """The share of examples that it does not know whose type is among the `first` that it names."""
        asked = [(type_, text) for type_, some in TRIED.items() for text in some]
        ranked = self.ranked([text for _, text in asked])
        return float(np.mean([type_ in found[:first] for (type_, _), found in zip(asked, ranked, strict=True)]))


def changed_words(keyword: str, alternative: str) -> str:
    """What an edit says, without words of the keyword that stay: "red" of "dog" -> "red dog"."""
    if alternative.endswith(f" {keyword}"):
        return alternative.removesuffix(f" {keyword}")
    same = f" {keyword}".casefold()
    return alternative[: -len(same)] if alternative.casefold().endswith(same) else alternative


def only_changes(caption: str, edited: str, keyword: str, alternative: str) -> bool:
    """Whether all words that differ are the edit's, but for a, an, is, are and that."""
    small = {"a", "an", "is", "are", "that"}
    old, new = stems(caption), stems(edited)
    gone, come = set[str](), set[str]()
    for kind, i, j, p, q in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            gone.update(old[i:j])
            come.update(new[p:q])
    return gone <= small | set(stems(keyword)) and come <= small | set(stems(alternative)) | set(stems(keyword))
