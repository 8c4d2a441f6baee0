"""Exercises about captions of the wider world, for a pocket language model: prompts with their one right answer.

As in questions.py answers are functions of the prompt, so that a greedy model can learn them: of each type the first
two spans of the caption that may change, other values in the world's cyclic order, rewriting by the engine's own rule.
Words to keep are those that the engine would list, found in the caption for a label and for what a mask shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.additions import phrase_of
from counterfactory.engine.english.replacing import write_by_rule
from counterfactory.engine.english.words import allowed_values, check_edited_caption
from counterfactory.engine.language.grammar import NOTHING
from counterfactory.engine.language.phrases import phrase_class
from counterfactory.engine.language.questions import PlainPrompts, write_answer
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.wide import words
from counterfactory.engine.pocket.wide.captions import article
from counterfactory.engine.pocket.wide.scene import (
    CLASSES,
    COLOURS,
    PERSON_KINDS,
    THING_KINDS,
    TIMES,
    VEHICLE_KINDS,
    WEATHERS,
    Scene,
)
from counterfactory.engine.pocket.wide.words import Phrases
from counterfactory.engine.pocket.worlds import WIDE
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.tasks.grounding import protect
from counterfactory.engine.tasks.task import Task

from .exercises import KINDS_OF_QUESTION, Draws, Exercise, Situation
from .wide_spans import WIDE_TYPES, Span, additions, others, read_spans, value_of

# What a profile of the wider world needs: its captions have phrases of six words, and more to change.
SETTINGS = RewriteSettings(
    WIDE_TYPES, max_keywords=20, max_alternatives=4, max_words_keyword=6, max_chars_caption=480, verbatim=True
)
_OF_EACH_TYPE = 2
_PROMPTS = PlainPrompts(adds=True)
_CLASSIFY, _SEGMENT = (street_task(name, WIDE.name) for name in ("classification", "segmentation"))
# What else values of a type may say: a user who wants joggers and nurses means other words by each.
_OTHERWISE = {"people kind": ("people pose",), "people pose": ("people kind",), "material": ("vehicles size",)}
_OTHERWISE["vehicles size"] = ("material",)


def _said(table: Phrases) -> tuple[str, ...]:
    return tuple(phrase for some in table.values() for phrase in some)


# Sentences of users' tasks by the type of edit that would change their answer ("" for none of them).
_TASKS = {
    "": (
        "classify the vehicle", "recognise the vehicle in the picture", "is this a car, a bus, a truck or a van",
        "name the kind of the nearest vehicle", "detect all vehicles", "count the vehicles on the road",
        "count the people on the sidewalk", "segment the road", "segment road, sidewalk and sky", "find the trees",
        "estimate the depth of the street", "draw a box around each bus",
    ),
    "weather": ("classify the weather", "tell the weather", "is the weather good or bad", "is the road wet or dry"),
    "time": ("tell the time of day", "classify the time of day in the image", "is it day or night"),
    "colour": ("name the colour of the vehicle", "recognise the colour of each vehicle", "what colour is the car"),
    "background": ("tell what is behind the street", "is it in the city or in the country", "recognise the landscape"),
    "object": ("find all small things", "detect bicycles, dogs and benches", "is there a traffic light or a sign"),
    "subject": ("detect men, women and children", "tell what the people are doing", "recognise the pose of every man"),
    "adjective": ("name the material of the buildings", "tell the size of each vehicle", "is the car small or large"),
    "domain": ("is it a photo, a sketch or a painting", "recognise the kind of picture", "classify the drawing style"),
    "camera": ("estimate the height of the camera", "tell where the camera stands", "is it seen from above"),
    "other": ("does the road bend", "tell which way the road turns", "recognise the shape of the road"),
}  # fmt: skip
# Users' values by what they say (`Span.says`). Of types that say different things only those that fit are answered.
_VALUES: dict[str, tuple[str, ...]] = {
    "weather": (*WEATHERS, "stormy", "hazy", "icy", "sunny", "dusty", "muddy", "frozen"),
    "weather phrase": (*WEATHERS, "rain", "snow", "fog", "stormy", "hazy", "in a storm", "in the hail"),
    "time phrase": ("day", "sunset", "night", "dusk", "dawn", "noon", "midnight", "morning", "after dark", "by day"),
    "background phrase": (
        *_said(words.BACKGROUND_PHRASES),
        *("in the desert", "by a lake", "with hills behind", "in a village", "desert", "hills", "a harbour"),
    ),
    "camera phrase": (
        *("seen from above", "from a low camera", "from a high camera", "seen at eye level", "from far away"),
        *("a window", "a balcony", "seen from a roof"),
    ),
    "vehicles colour": (*COLOURS, "pink", "grey", "silver", "golden", "beige", "maroon", "dark blue"),
    "people colour": (*COLOURS, "pink", "grey", "silver", "golden", "beige", "in maroon"),
    "things colour": (*COLOURS, "brown", "pink", "grey", "golden", "rusty"),
    "things kind": (*_said(words.THING_WORDS), "scooter", "fountain", "litter bin", "cat", "horse", "fire hydrant"),
    "people kind": (*_said(words.PERSON_WORDS), "policeman", "skater", "teenager", "postman", "nurse"),
    "people pose": (*_said(words.POSE_WORDS), "sitting", "dancing", "jumping", "leaning"),
    "vehicles size": ("small", "large", "little", "big", "huge", "long", "tiny"),
    "material": (*_said(words.MATERIAL_WORDS), "stone", "marble", "steel", "adobe", "whitewashed"),
    "domain": (
        *("a pencil sketch", "a painting", "an oil painting", "a photo", "sketch", "painting", "etching"),
        *("a cartoon", "watercolour", "a mosaic", "an old photo"),
    ),
    "bend": (*_said(words.BEND_PHRASES), "that winds uphill", "going downhill", "full of leaves"),
}  # fmt: skip


class Writer:
    """Draws the exercises of one generator about one scene."""

    def __init__(self, rng: np.random.Generator, scene: Scene) -> None:
        self._rng = rng
        self._draw = Draws(rng)
        self._scene = scene

    def situation(self) -> Situation:
        """A built-in task (seven in ten) or a user's, of a source with a mask or without one."""
        caption = WIDE.describe(self._scene, self._rng, self._draw.chance(0.7))
        draw, frozen, masked = self._rng.random(), "", 0.4
        if draw < 0.45:
            task = _CLASSIFY
        elif draw < 0.7:
            task, masked = _SEGMENT, 0.8
        else:
            frozen = self._draw.one(tuple(_TASKS))
            sentence = self._draw.one(_TASKS[frozen])
            task = Task("user", sentence, self._kept(), self._draw.chance(0.5))
        label = self._scene.label if self._draw.chance(0.9) else None
        shown = _classes(self._scene) if self._draw.chance(masked) else ()
        protection = protect(task, label, shown, caption)
        types = tuple(self._draw.some(WIDE_TYPES, 1, 5)) if self._draw.chance(0.25) else WIDE_TYPES
        return Situation(self._scene, caption, task.sentence, frozen, protection.told, types, protection.keep)

    def _kept(self) -> tuple[str, ...]:
        """Words that a user keeps, of this world or of none."""
        known = (*WEATHERS, *TIMES, *COLOURS, *VEHICLE_KINDS, *PERSON_KINDS, *THING_KINDS, "road", "trees", "houses")
        kept = self._draw.some(known, 0, 3) if self._draw.chance(0.6) else []
        return (*kept, self._draw.made_up()) if self._draw.chance(0.1) else tuple(kept)

    def _case_with_spans(self) -> tuple[Situation, list[Span]]:
        while True:
            case = self.situation()
            if spans := changeable(case):
                return case, spans

    def keywords(self) -> Exercise:
        """Question 1; types of which something can be added stand behind the others."""
        case = self.situation()
        pairs = [[span.type, span.keyword] for span in changeable(case)]
        pairs += [[type_, NOTHING] for type_ in silent(case)]
        prompt = _PROMPTS.keywords(case.task, case.types, case.keep, case.caption)
        return Exercise(prompt, write_answer(pairs or [[NOTHING, NOTHING]]), case)

    def alternatives(self) -> Exercise:
        """Question 2, with a user's values in three of ten; or what could be added, in two of ten."""
        case, spans = self._case_with_spans()
        if (unsaid := silent(case)) and self._draw.chance(0.2):
            type_ = self._draw.one(unsaid)
            prompt = _PROMPTS.alternatives(case.task, case.keep, case.caption, type_, NOTHING)
            answer = additions(type_, case.caption, case.protected, SETTINGS.max_alternatives)
            return Exercise(prompt, write_answer(answer), case, ((type_, NOTHING, ""),))
        type_ = self._draw.one(sorted({span.type for span in spans}))  # colours are what captions say most
        spans = [span for span in spans if span.type == type_]
        span = spans[int(self._rng.integers(len(spans)))]
        values, fitting = self._users_values(case, span) if self._draw.chance(0.3) else ((), ())
        answer = list(fitting) or others(span, case.caption, case.protected, SETTINGS.max_alternatives)
        prompt = _PROMPTS.alternatives(case.task, case.keep, case.caption, span.type, span.keyword, values)
        return Exercise(prompt, write_answer(answer), case, ((span.type, span.keyword, ""),), tuple(values))

    def rewrite(self) -> Exercise:
        """Question 3, with one to four changes in the order of the caption, of which the engine takes the result."""
        while True:
            case, changes = self._changes()
            after = apply(case.caption, changes)
            if check_edited_caption(case.caption, after, [Edit(*change) for change in changes], case.protected) is None:
                break  # a user may keep "traffic", which says "traffic sign" of another thing
        prompt = _PROMPTS.rewrite(case.task, case.keep, case.caption, [(old, new) for _, old, new in changes])
        return Exercise(prompt, write_answer(after), case, tuple(changes))

    def _changes(self) -> tuple[Situation, list[tuple[str, str, str]]]:
        case, spans = self._case_with_spans()
        count = min(len(spans), int(self._rng.choice([1, 1, 2, 2, 3, 3, 4])))
        changes = []
        for at in sorted(self._rng.permutation(len(spans))[:count]):
            span = spans[int(at)]
            _, fitting = self._users_values(case, span) if self._draw.chance(0.35) else ((), ())
            values = fitting or others(span, case.caption, case.protected, SETTINGS.max_alternatives)
            changes.append((span.type, span.keyword, self._draw.one(values)))
        return case, changes

    def _users_values(self, case: Situation, span: Span) -> tuple[Sequence[str], Sequence[str]]:
        """A user's values of a span's type as the engine would list them, and those of them that fit; both may be
        empty.
        """
        own = self._draw.some(_VALUES[span.says], 1, 5)
        if self._draw.chance(0.15):
            own.append(self._draw.made_up())
        strange = [
            value
            for says in _OTHERWISE.get(span.says, ())
            if self._draw.chance(0.5)
            for value in self._draw.some(_VALUES[says], 1, 2)
        ]
        pool = [*own, *strange]
        pool = [pool[int(i)] for i in self._rng.permutation(len(pool))]
        usable = allowed_values(pool, span.keyword, case.protected)
        phrase = phrase_class(span.keyword) == "place"
        shown = {value: phrase_of(span.type, value) if phrase else value for value in usable}
        says = {v: value_of(span, _completed(span.type, span.keyword, shown[v])) for v in usable}
        fitting = [shown[value] for value in usable if value not in strange and says[value] != span.value]
        return (tuple(shown.values()), fitting) if fitting else ((), ())


def changeable(case: Situation) -> list[Span]:
    """The spans of the caption that may change, of each type the first two."""
    counts, found = Counter[str](), []
    for span in read_spans(case.caption):
        if span.type not in case.types or span.type == case.frozen or counts[span.type] == _OF_EACH_TYPE:
            continue
        if others(span, case.caption, case.protected, 1):
            counts[span.type] += 1
            found.append(span)
    return found


def silent(case: Situation) -> list[str]:
    """The types that the caption says nothing of, where something can be added that leaves the task its answer."""
    possible = [type_ for type_ in case.types if type_ != case.frozen]
    return [type_ for type_ in possible if additions(type_, case.caption, case.protected, 1)]


def apply(caption: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """The caption with (type, keyword, alternative) changes made; a colour has its noun, a medium its article."""
    return write_by_rule(caption, [(old, _completed(type_, old, new)) for type_, old, new in changes])


def _completed(type_: str, keyword: str, new: str) -> str:
    first, _, last = keyword.rpartition(" ")
    if type_ == "colour" and first == "in":
        return new if new.startswith("in ") else f"in {new}"
    if type_ == "colour" and first and new.split(" ")[-1] != last:
        return f"{new} {last}"
    if type_ == "domain" and phrase_class(new) != "article":
        return f"{article(new)} {new}"
    return new


def _classes(scene: Scene) -> tuple[str, ...]:
    """What the scene's mask shows, in the world's order."""
    shown = {"sky", "background", "ground", "road", "sidewalk", "vehicle", *(thing.kind for thing in scene.things)}
    if scene.houses:
        shown.add("building")
    if scene.trees:
        shown.add("vegetation")
    if scene.people:
        shown.add("pedestrian")
    return tuple(name for name in CLASSES if name in shown)


def exercise(kind: str, stream: int, index: int) -> Exercise:
    """Exercise number `index` of a question and a stream of scenes."""
    number = KINDS_OF_QUESTION.index(kind)
    scene = WIDE.scene(stream, index * len(KINDS_OF_QUESTION) + number)
    writer = Writer(np.random.default_rng((stream, number, index)), scene)
    return (writer.keywords, writer.alternatives, writer.rewrite)[number]()
