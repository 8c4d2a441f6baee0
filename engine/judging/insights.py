"""What a model relies on to recognise a class: kinds of edits that cost it most there, each called by one edit
(LANCE, arXiv 2305.19164, section 4.3 and figure 6).

Of each class the edits of its pictures are embedded, as the caption with the edit less the caption without it, and
those of a type are grouped by k-means; outcomes play no part in that. A group's effect is that of `effects` on the
class's pictures: within sources, adjusted for the other edits of a picture, its interval by the jackknife over sources.
All groups of all classes are corrected together. One is clear where the class loses by it, and more than other classes
do by the same edits, by an interval that knows of the selection (`standouts`).

k is that from 2 to 16 of the highest mean silhouette (Rousseeuw, J. Comput. Appl. Math. 20, 1987); of fewer than four
different edits each value stands alone. A group that fewer than twelve sources show joins the nearest one, unless that
changes something else, so that small classes have few groups. Nothing is said of fewer than six sources: if all of five
turned wrong, chance would do so in one of sixteen.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..edit import Edit
from ..english.difference import WORD
from ..english.replacing import undo_edits
from ..suite import PictureRow
from ..variant import Kind
from .effects import CONFIDENCE, Effect, PictureOutcome, correct, find_effects
from .standouts import Contrast, JointEffects, Standout, stand_out
from .within import SEPARATE

Floats = NDArray[np.float64]
# From texts to vectors [N, E], one each.
Embed = Callable[[Sequence[str]], NDArray[np.floating]]

_FEWEST_SOURCES, _ENOUGH_SOURCES = 6, 12
_FEWEST_EDITS, _MOST_GROUPS = 4, 16
# Edits that k is chosen by: their distances are a matrix.
_MOST_CHOOSING = 1000
_STARTS, _ROUNDS = 3, 50
# The share of the pictures of some edits that are of one class, from which on no other class is left to compare.
_WHOLE = 0.9
_BUCKETS = 512
_WORST = 8
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Insight:
    """Pictures of the class `label` lose so many points, `drop` (below 0 where they gain), with a group of edits; `low`
    to `high` holds it 95 times in 100.

    The group is called by that of its common edits which is nearest to its centre: `name` is its `Edit.value`, `type`
    its type, `keyword` the words that it takes away and `alternative` those that it brings. `values` are all values of
    the group, the most frequent first. `pictures` carry one, `sources` were compared. `q` is corrected for all groups
    of all classes. `worst` are the keys of the variants that lose most, the worst first. `measure` is what of a picture
    is compared. Other classes lose `others` by the same edits, and this one from `more_low` to `more_high` more: of all
    groups and types at once 95 times in 100. These are None where no other class has such edits. They are of all edits
    of the type where these tell the class from others and the group alone does not: then they are `by_type`.
    """

    label: str
    name: str
    type: str
    keyword: str
    alternative: str
    drop: float
    low: float
    high: float
    q: float
    pictures: int
    sources: int
    values: tuple[str, ...]
    worst: tuple[str, ...]
    measure: str = "accuracy"
    others: float | None = None
    more_low: float | None = None
    more_high: float | None = None
    by_type: bool = False

    @property
    def clear(self) -> bool:
        """Whether the class certainly loses, and certainly more than others."""
        return self.drop > 0 and self.q < 1 - CONFIDENCE and (self.more_low or 0.0) > 0

    def judged(self, q: float | None, group: Standout | None, type_: Standout | None) -> Insight:
        """The same with its corrected chance, and what it loses beyond other classes, by the group or by its type."""
        by_type = group is None or bool(type_ and type_.clear and not group.clear)
        gap = type_ if by_type else group
        ends = (None, None, None) if gap is None else (-100 * gap.others, -100 * gap.high, -100 * gap.low)
        return replace(self, q=q or 0.0, others=ends[0], more_low=ends[1], more_high=ends[2], by_type=by_type)

    @property
    def sentence(self) -> str:
        """The insight in words: recognising bus relies on "during the day": it costs 20 to 58 points more than other
        classes, 120 pictures.
        """
        what = f'relies on "{self.keyword}"' if self.keyword else f'breaks with "{self.alternative}"'
        more = "no other class to compare"
        if self.more_low is not None and self.more_high is not None:
            low, high = (f"{points:.0f}".replace("-", _MINUS) for points in (self.more_low, self.more_high))
            more = f"{low} to {high} points more than other classes lose"
            more += f" by all edits of {self.type}" if self.by_type else ""
        return f"recognising {self.label} {what}: {more}, {self.pictures} pictures"


def find_insights(
    outcomes: Iterable[tuple[str, Sequence[tuple[PictureRow, float]]]],
    against: Kind | None,
    embed: Embed,
    measure: str = "accuracy",
) -> tuple[Insight, ...]:
    """The groups of edits of each class, clear ones first, then by what they cost.

    `outcomes` has the classes, each with its pictures and their outcomes, 0..1; those of the kind `against` are what
    variants are compared with. `embed` turns captions into vectors.
    """
    insights, effects, types = list[Insight](), list[_GroupEffect](), dict[tuple[str, str], _GroupEffect]()
    every: dict[str, list[float]] = defaultdict(list)
    rows: dict[str, PictureRow] = {}
    if against is None:
        return ()
    for label, pictures in outcomes:
        for row, value in pictures:
            rows[row.file_name] = row
            every[row.file_name].append(value)
        if len({row.unit for row, _ in pictures}) < _FEWEST_SOURCES:
            continue
        grouped = _Grouped.of(pictures, embed)
        some = [(grouped, effect) for effect in grouped.effects(against)]
        insights += [grouped.insight(label, effect, against, measure) for _, effect in some]
        effects += some
        whole = replace(grouped, group={edit: edit.type for edit in grouped.group})
        types |= {(label, effect.name): (whole, effect) for effect in whole.effects(against)}
    if not effects:
        return ()
    corrected = correct([effect for _, effect in effects])
    named = [(one.type, one.values) for one in insights] + [(type_, ()) for _, type_ in types]
    gaps = _beyond_others([*effects, *types.values()], named, every, rows, against)
    of_type = dict(zip(types, gaps[len(insights) :], strict=True))
    judged = [
        one.judged(e.q, gap, of_type.get((one.label, one.type)))
        for one, e, gap in zip(insights, corrected, gaps, strict=False)
    ]
    return tuple(sorted(judged, key=lambda one: (not one.clear, -one.drop, one.label, one.name)))


def _beyond_others(
    effects: Sequence[_GroupEffect],
    named: Sequence[tuple[str, Sequence[str]]],
    every: Mapping[str, Sequence[float]],
    rows: Mapping[str, PictureRow],
    against: Kind,
) -> list[Standout | None]:
    """What each group of edits, `named` by its type and values, costs its class beyond others, by the outcomes that
    `every` picture has, one for each class that it shows; None where no other class has such edits.
    """
    if any(len(values) > 1 for values in every.values()):
        contrasts = [grouped.contrast(effect, every, against) for grouped, effect in effects]
    else:
        pairs = [(rows[name], values[0]) for name, values in every.items()]
        answers = [PictureOutcome(row.source, row.kind, value, _values(row), row.unit) for row, value in pairs]
        joint = JointEffects.of(answers, against)
        contrasts = [_contrast(*names, effect, joint) for names, (_, effect) in zip(named, effects, strict=True)]
    gaps = iter(stand_out([contrast for contrast in contrasts if contrast]))
    return [next(gaps) if contrast else None for contrast in contrasts]


def _values(row: PictureRow) -> frozenset[str]:
    return frozenset({edit.value for edit in row.edits} if row.kind == "variant" else ())


def _contrast(type_: str, values: Sequence[str], effect: Effect, joint: JointEffects) -> Contrast | None:
    """A group's effect on its class beside that of the same edits, the `values` or all of a type, on all others: by the
    `joint` effects on all pictures, of which the class has a part. None where no other class shows such edits.
    """
    estimates = joint.estimates
    numbers = [k for k in joint.separate(f"{type_}: ") if not values or joint.names[k] in values]
    carrying = estimates.carrying[numbers]
    part = effect.pictures / max(1, int(carrying.sum()))
    if not numbers or part > _WHOLE or effect.value is None or effect.error is None:
        return None
    weights = carrying / carrying.sum()
    others = float(weights @ estimates.value[numbers] - part * effect.value) / (1 - part)
    doubt = float(effect.error**2 * (1 - 2 * part) + weights @ joint.covariance(numbers) @ weights)
    sources = min(effect.sources, max(estimates.vary[numbers].tolist()))
    return Contrast(effect.name, effect.value, others, max(0.0, doubt) ** 0.5 / (1 - part), sources, effect.most)


@dataclass(frozen=True)
class _Grouped:
    """A class's `pictures` with their outcomes; `group` is each edit's, called by a number, and `centre` the edit that
    is nearest to a group's, of those that are at least half as frequent as its commonest.
    """

    pictures: Sequence[tuple[PictureRow, float]]
    group: Mapping[Edit, str]
    centre: Mapping[str, Edit]

    @classmethod
    def of(cls, pictures: Sequence[tuple[PictureRow, float]], embed: Embed) -> _Grouped:
        shows: dict[Edit, list[PictureRow]] = defaultdict(list)
        for row, _ in pictures:
            for edit in row.edits if row.kind == "variant" else ():
                shows[edit].append(row)
        group: dict[Edit, str] = {}
        centre: dict[str, Edit] = {}
        for type_ in sorted({edit.type for edit in shows}):
            edits = sorted((e for e in shows if e.type == type_), key=lambda edit: (edit.value, edit.keyword))
            texts = [text for edit in edits for text in _texts(min(shows[edit], key=lambda row: row.file_name), edit)]
            vectors = np.asarray(embed(texts), np.float64)
            changes = unit(vectors[::2] - vectors[1::2])
            values = np.unique([edit.value for edit in edits], return_inverse=True)[1]
            labels = choose_groups(changes) if len(edits) >= _FEWEST_EDITS else values
            labels = join_small(changes, labels, [{row.unit for row in shows[edit]} for edit in edits])
            for k in np.unique(labels).tolist():
                (members,) = np.nonzero(labels == k)
                counts = np.array([len(shows[edits[i]]) for i in members])
                likeness = changes[members] @ (counts @ changes[members])
                nearest = members[np.argmax(np.where(2 * counts >= counts.max(), likeness, -np.inf))]
                name = str(len(centre))
                centre[name] = edits[int(nearest)]
                group |= dict.fromkeys([edits[i] for i in members.tolist()], name)
        return cls(pictures, group, centre)

    def groups_of(self, row: PictureRow) -> frozenset[str]:
        return frozenset(self.group[edit] for edit in row.edits) if row.kind == "variant" else frozenset()

    def effects(self, against: Kind) -> list[Effect]:
        """Those of the groups that enough sources tell of."""
        outcomes = [
            PictureOutcome(row.source, row.kind, value, self.groups_of(row), row.unit) for row, value in self.pictures
        ]
        effects = find_effects(outcomes, against) if self.group else ()
        return [e for e in effects if e.low is not None and e.sources >= _FEWEST_SOURCES]

    def contrast(self, effect: Effect, every: Mapping[str, Sequence[float]], against: Kind) -> Contrast | None:
        """A group's effect beside that on the other classes of the same pictures, of which `every` has all outcomes."""
        gaps = []
        for row, value in self.pictures:
            if others := len(every[row.file_name]) - 1:
                gaps.append((row, value - (sum(every[row.file_name]) - value) / others))
        for gap in replace(self, pictures=gaps).effects(against):
            if gap.name == effect.name and None not in (gap.value, gap.error, effect.value):
                values = (effect.value or 0.0, (effect.value or 0.0) - (gap.value or 0.0), gap.error or 0.0)
                return Contrast(gap.name, *values, gap.sources, gap.most)
        return None

    def insight(self, label: str, effect: Effect, against: Kind, measure: str) -> Insight:
        baselines: dict[str, list[float]] = defaultdict(list)
        for row, value in self.pictures:
            if row.kind == against:
                baselines[row.source].append(value)
        before = {source: sum(values) / len(values) for source, values in baselines.items()}
        carrying = [(row, value) for row, value in self.pictures if effect.name in self.groups_of(row)]
        counts = Counter(edit.value for row, _ in carrying for edit in row.edits if self.group[edit] == effect.name)
        falls = [(value - before[row.source], row.key) for row, value in carrying if row.source in before]
        edit = self.centre[effect.name]
        value, low, high = (100 * (bound or 0.0) for bound in (effect.value, effect.low, effect.high))
        drop = -max(-100.0, min(100.0, value))  # a regression may say more than there is to lose
        values = tuple(value for value, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
        worst = tuple(key for fall, key in sorted(falls)[:_WORST] if fall < 0)
        named = (label, edit.value, edit.type, edit.keyword, edit.alternative)
        return Insight(*named, drop, -high, -low, 1.0, effect.pictures, effect.sources, values, worst, measure)


_GroupEffect = tuple[_Grouped, Effect]


def _texts(row: PictureRow, edit: Edit) -> tuple[str, str]:
    """The caption with an edit and without it; of a picture without a caption the edit's words."""
    pairs = undo_edits(row.caption, row.edited_caption, row.edits)
    text, undone = pairs[row.edits.index(edit)]
    return (text, undone) if row.caption and text != undone else (edit.value, edit.keyword)


def bags_of_words(texts: Sequence[str]) -> Floats:
    """How often each word stands in each text, float64 [N, 512]: a word counts where its checksum says."""
    counts = np.zeros((len(texts), _BUCKETS))
    for text, row in zip(texts, counts, strict=True):
        for word in WORD.findall(text.casefold()):
            row[zlib.crc32(word.encode()) % _BUCKETS] += 1
    return counts


def unit(vectors: Floats) -> Floats:
    """The vectors [N, E] at length 1; a vector of nothing stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


def choose_groups(vectors: Floats) -> NDArray[np.int64]:
    """The group [N] of each of three unit vectors [N, E] or more: k-means by their cosine, of the k with the highest
    silhouette.
    """
    distances = 1 - vectors[:_MOST_CHOOSING] @ vectors[:_MOST_CHOOSING].T
    groupings = (k_means(vectors, k) for k in range(2, min(_MOST_GROUPS, len(vectors) - 1) + 1))
    return max(groupings, key=lambda grouped: silhouette(distances, grouped[:_MOST_CHOOSING]))


def join_small(vectors: Floats, labels: NDArray[np.int64], sources: Sequence[set[str]]) -> NDArray[np.int64]:
    """The groups [N] of unit vectors [N, E], where one that too few sources show is joined to the nearest, the smallest
    first, unless it changes nothing of the same; `sources` are those of each vector.
    """
    labels = labels.copy()
    while True:
        kinds = np.unique(labels).tolist()
        members = [np.flatnonzero(labels == k).tolist() for k in kinds]
        sizes = [len(set().union(*(sources[i] for i in some))) for some in members]
        means = unit(np.stack([vectors[some].sum(axis=0) for some in members]))
        likeness = means @ means.T - np.eye(len(kinds))
        small = [k for k, size in enumerate(sizes) if size < _ENOUGH_SOURCES and likeness[k].max() > SEPARATE]
        if len(kinds) < 2 or not small:
            return labels
        least = min(small, key=lambda k: sizes[k])
        labels[members[least]] = kinds[int(likeness[least].argmax())]


def k_means(vectors: Floats, k: int) -> NDArray[np.int64]:
    """The group [N], 0 to k - 1, of each unit vector [N, E], by the cosine with the group's mean; the best of a few
    starts: the vectors farthest from each other, and drawn ones (k-means++, Arthur and Vassilvitskii, 2007). The same
    vectors always give the same groups.
    """
    best, labels = -np.inf, np.zeros(len(vectors), np.int64)
    for seed in range(_STARTS):
        centres = _spread_out(vectors, k, np.random.default_rng(seed) if seed else None)
        grouped = np.argmax(vectors @ centres.T, axis=1)
        for _ in range(_ROUNDS):
            sums = np.zeros_like(centres)
            np.add.at(sums, grouped, vectors)
            empty = np.bincount(grouped, minlength=len(centres)) == 0
            centres = np.where(empty[:, None], centres, unit(sums))
            again = np.argmax(vectors @ centres.T, axis=1)
            if np.array_equal(again, grouped):
                break
            grouped = again
        likeness = float((vectors * centres[grouped]).sum())
        if likeness > best + SEPARATE:
            best, labels = likeness, grouped
    return labels


def _spread_out(vectors: Floats, k: int, rng: np.random.Generator | None) -> Floats:
    """Vectors to start from, each that which is farthest from those before, or drawn by its distance."""
    chosen = [0 if rng is None else int(rng.integers(len(vectors)))]
    far = np.full(len(vectors), np.inf)
    while len(chosen) < k:
        far = np.minimum(far, np.maximum(0, 1 - vectors @ vectors[chosen[-1]]))
        if far.sum() < SEPARATE:
            break
        chosen.append(int(far.argmax() if rng is None else np.searchsorted(far.cumsum(), rng.random() * far.sum())))
    return vectors[chosen]


def silhouette(distances: Floats, labels: NDArray[np.int64]) -> float:
    """The mean over all [N] of how much nearer one's own group is than the next, -1 to 1; 0 for one alone in a group.
    `distances` are [N, N].
    """
    kinds, number = np.unique(labels, return_inverse=True)
    if len(kinds) < 2:
        return -1.0
    member = np.eye(len(kinds))[number]
    counts, sums = member.sum(axis=0), distances @ member
    own = counts[number]
    here = np.take_along_axis(sums, number[:, None], axis=1)[:, 0] / np.maximum(1, own - 1)
    means = np.where(member > 0, np.inf, sums / counts)
    there = means.min(axis=1)
    widths = np.divide(there - here, np.maximum(here, there), out=np.zeros(len(own)), where=np.maximum(here, there) > 0)
    return float(np.where(own > 1, widths, 0.0).mean())
