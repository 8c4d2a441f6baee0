"""Exercises for the pocket language model: prompts of the three questions with the answers that a careful writer gives.

Out come (prompt, answer) pairs about scenes of the street world, in the engine's own prompt texts. Answers are a
function of the prompt: keywords in the order of the caption, alternatives in the cyclic order of the world's values,
rewriting by rule, so that a greedy model can learn them. Tasks, words to keep and the values of users vary, made-up
words among them, so that the model reads the prompt instead of remembering the world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.language.grammar import NOTHING
from counterfactory.engine.language.llm_request import Prompt
from counterfactory.engine.language.questions import PlainPrompts, write_answer
from counterfactory.engine.pocket.captions import TIME_PHRASES
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene
from counterfactory.engine.pocket.worlds import EMBEDDED

KINDS_OF_QUESTION = ("keywords", "alternatives", "rewrite")
_PROMPTS = PlainPrompts()
_SEGMENT_KEEP = street_task("segmentation").protect
_SYLLABLES = ("ba", "do", "ke", "li", "mor", "nu", "pra", "ri", "sto", "ta", "ven", "zu", "al", "er", "is", "on", "un")
# Sentences of users' tasks by the type of edit that would change their answer ("" for none of them).
_TASKS = {
    "": (
        "classify the vehicle", "recognise the vehicle in the picture", "is this a car, a bus or a truck",
        "name the kind of the nearest vehicle", "detect all vehicles", "count the vehicles on the road",
        "find every pedestrian", "count the people on the sidewalk", "segment the image", "segment the road",
        "segment road, sidewalk and sky", "find the trees", "estimate the depth of the street",
        "detect cars and people", "classify the image", "draw a box around each bus",
    ),
    "weather": (
        "classify the weather", "recognise the weather in the image", "tell the weather", "is the weather good or bad",
        "name the weather of the scene",
    ),
    "time": (
        "tell the time of day", "classify the time of day in the image", "is it day or night",
        "recognise the time of day",
    ),
    "colour": (
        "name the colour of the vehicle", "classify the colour of the car", "recognise the colour of each vehicle",
        "tell the colour of the bus",
    ),
    "background": (
        "classify the buildings", "name the material of the buildings", "recognise the material of the walls",
    ),
}  # fmt: skip
_OTHER_VALUES = {
    "weather": ("stormy", "hazy", "windy", "icy", "sunny", "dusty", "misty", "overcast", "wet", "very cloudy"),
    "time": ("dawn", "dusk", "noon", "midnight", "in the morning", "in the evening", "at dawn", "daytime", "sunrise"),
    "colour": ("pink", "grey", "brown", "silver", "golden", "dark blue", "light green", "beige", "maroon", "ivory"),
    "background": ("stone", "marble", "steel", "adobe", "timber", "old stone", "metal", "clay", "white stone"),
}


@dataclass(frozen=True)
class Situation:
    """A scene's caption, and what is asked of it: the words to keep, the types of edits.

    `frozen` is the type of edit that the task forbids, "" for none.
    """

    scene: Scene
    caption: str
    task: str
    frozen: str
    keep: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class Exercise:
    """A prompt and its one right answer, with what they were made of.

    `changes` are (type, keyword, alternative): all of a rewriting; of a question for alternatives the one keyword, its
    alternative left empty, with the user's `values`, if any.
    """

    prompt: Prompt
    answer: str
    case: Situation
    changes: tuple[tuple[str, str, str], ...] = ()
    values: tuple[str, ...] = ()


def apply(caption: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """The counterfactual caption: (type, keyword, alternative) changes made, articles and prepositions mended."""
    # All at once, so that "red car -> blue car; blue car -> green car" does not make two green cars.
    held: list[str] = []
    for type_, keyword, alternative in changes:
        new = alternative
        if type_ == "time" and alternative.split(" ")[0] not in ("at", "in", "during"):
            new = "during the day" if alternative in ("day", "daytime") else f"at {alternative}"
        elif type_ == "colour" and alternative.split(" ")[-1] != (kind := keyword.split(" ")[-1]):
            new = f"{alternative} {kind}"
        mark, article = f"<{len(held)}>", "an" if new[0] in "aeiou" else "a"
        caption = re.sub(rf"\ban? {re.escape(keyword)}\b", f"{article} {mark}", caption)
        caption = re.sub(rf"\b{re.escape(keyword)}\b", mark, caption)
        held.append(new)
    for number, new in enumerate(held):
        caption = caption.replace(f"<{number}>", new)
    return caption


def changeable(case: Situation) -> list[tuple[str, str]]:
    """(type, keyword) pairs in the order of the caption: what may change without touching the task or a kept word."""
    scene = case.scene
    found = [("weather", scene.weather), ("time", TIME_PHRASES[scene.time]), ("background", scene.material)]
    found += [("colour", f"{v.colour} {v.kind}") for v in scene.vehicles]
    kept = {word for phrase in case.keep for word in phrase.split(" ")} - set(KINDS)
    placed = []
    for type_, keyword in found:
        at = re.search(rf"\b{keyword}\b", case.caption)
        if at and type_ in case.types and type_ != case.frozen and not kept & set(keyword.split(" ")):
            placed.append((at.start(), type_, keyword))
    return [(type_, keyword) for _, type_, keyword in sorted(placed)][:6]


def others(case: Situation, type_: str, keyword: str) -> list[str]:
    """Other values for a keyword: the next four of the world's cycle; for colours without the caption's vehicles."""
    world = {"weather": WEATHERS, "time": tuple(TIME_PHRASES[time] for time in TIMES), "background": MATERIALS}
    kind = keyword.split(" ")[-1]
    cycle = [f"{colour} {kind}" for colour in COLOURS] if type_ == "colour" else list(world[type_])
    at = cycle.index(keyword)
    values = [*cycle[at + 1 :], *cycle[:at]]
    if type_ == "colour":
        values = [value for value in values if not re.search(rf"\b{value}\b", case.caption)]
    return values[:4]


class Writer:
    def __init__(self, rng: np.random.Generator, stream: int, index: int) -> None:
        self._rng = rng
        self._scene = EMBEDDED.scene(stream, index)

    def _one(self, values: Sequence[str]) -> str:
        return values[int(self._rng.integers(len(values)))]

    def _some(self, values: Sequence[str], low: int, high: int) -> list[str]:
        """`low` to `high` of the values, or all where there are fewer, in any order."""
        count = int(self._rng.integers(low, min(high, len(values)) + 1))
        return [values[int(i)] for i in self._rng.permutation(len(values))[:count]]

    def _chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _made_up(self) -> str:
        """A word that no language has."""
        return "".join(self._some(_SYLLABLES, 2, 3))

    def _caption(self) -> str:
        caption = EMBEDDED.describe(self._scene, self._rng)
        if self._chance(0.08):  # a captioner may leave a sentence out
            sentences = caption.split(". ")
            drop = int(self._rng.integers(1, len(sentences)))
            caption = ". ".join(s for i, s in enumerate(sentences) if i != drop).rstrip(".") + "."
        return caption

    def _keep(self) -> tuple[str, ...]:
        world = (*WEATHERS, *TIMES, *MATERIALS, *COLOURS, *KINDS, "road", "people", "trees", "street")
        words = self._some(world, 0, 3) if self._chance(0.6) else []
        if self._chance(0.5):
            words.append(self._scene.label)
        if self._chance(0.1):
            words.append(self._made_up())
        return tuple(dict.fromkeys(words))

    def situation(self) -> Situation:
        """A built-in task (eight in ten) or a user's, with words to keep and types to choose from."""
        draw = self._rng.random()
        label = self._scene.label if self._chance(0.95) else self._made_up()
        frozen, types = "", tuple(STREET_TYPES)
        keep: tuple[str, ...] = (label,)
        if draw < 0.45:
            task = street_task("classification").sentence
        elif draw < 0.8:
            task, words = street_task("segmentation").sentence, _SEGMENT_KEEP
            ways = (words, (label, *words), (*words, label), (label, *(w for w in words if w != label)))
            keep = ways[int(self._rng.integers(4))]
        else:
            frozen = self._one(tuple(_TASKS))
            task, keep = self._one(_TASKS[frozen]), self._keep()
        if self._chance(0.25):
            types = tuple(self._some(STREET_TYPES, 1, 4))
        return Situation(self._scene, self._caption(), task, frozen, keep, types)

    def _users_values(self, type_: str, keyword: str) -> list[str]:
        times = (*TIMES, *TIME_PHRASES.values())
        world = {"weather": WEATHERS, "time": times, "colour": COLOURS, "background": MATERIALS}
        pool = self._some(world[type_], 1, 4) + (self._some(_OTHER_VALUES[type_], 0, 3) if self._chance(0.5) else [])
        if self._chance(0.2):
            pool.append(self._made_up())
        if type_ == "colour" and self._chance(0.3):
            pool = [f"{value} {keyword.split(' ')[-1]}" for value in pool]
        # "at night" says "night" already.
        values = [v for v in dict.fromkeys(pool) if re.search(rf"\b{re.escape(v)}\b", keyword) is None]
        return [values[int(i)] for i in self._rng.permutation(len(values))]

    def keywords(self) -> Exercise:
        case = self.situation()
        pairs = [list(pair) for pair in changeable(case)] or [[NOTHING, NOTHING]]
        return Exercise(_PROMPTS.keywords(case.task, case.types, case.keep, case.caption), write_answer(pairs), case)

    def _case_with_keywords(self) -> tuple[Situation, list[tuple[str, str]]]:
        while not (pairs := changeable(case := self.situation())):
            pass
        return case, pairs

    def alternatives(self) -> Exercise:
        """Question 2, with a user's values in three of ten."""
        case, pairs = self._case_with_keywords()
        type_, keyword = pairs[int(self._rng.integers(len(pairs)))]
        values = self._users_values(type_, keyword) if self._chance(0.3) else []
        answer = values or others(case, type_, keyword)
        prompt = _PROMPTS.alternatives(case.task, case.keep, case.caption, type_, keyword, values)
        return Exercise(prompt, write_answer(answer), case, ((type_, keyword, ""),), tuple(values))

    def rewrite(self) -> Exercise:
        """Question 3, with one to four changes in the order of the caption."""
        case, pairs = self._case_with_keywords()
        count = min(len(pairs), int(self._rng.choice([1, 1, 2, 2, 3, 3, 4])))
        changes = []
        for at in sorted(self._rng.permutation(len(pairs))[:count]):
            type_, keyword = pairs[int(at)]
            values = self._users_values(type_, keyword) if self._chance(0.35) else []
            changes.append((type_, keyword, self._one(values or others(case, type_, keyword))))
        prompt = _PROMPTS.rewrite(case.task, case.keep, case.caption, [(old, new) for _, old, new in changes])
        return Exercise(prompt, write_answer(apply(case.caption, changes)), case, tuple(changes))


def exercise(kind: str, stream: int, index: int) -> Exercise:
    """Exercise number `index` of a question and a stream of scenes."""
    number = KINDS_OF_QUESTION.index(kind)
    writer = Writer(np.random.default_rng((stream, number, index)), stream, index * len(KINDS_OF_QUESTION) + number)
    return (writer.keywords, writer.alternatives, writer.rewrite)[number]()
