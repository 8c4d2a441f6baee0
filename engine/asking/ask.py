"""Asks a model under test about the pictures of a suite, batch by batch, and keeps what it answers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, list_some
from ..keys import content_key
from ..meter.meter import Progress
from ..suite.images import open_png
from ..suite.paths import Folder
from .answers_alike import alike
from .kept_answers import KeptAnswers, answers_key, open_kept
from .listed_answers import read_answers
from .one_channel import tell_channel
from .outputs import ANYTHING, ModelAnswer, ScoreAnswer, UnusableError, Wanted, to_json
from .placement import Size
from .preparation import Picture
from .under_test import ModelUnderTest

STAGE = "ask"
_WORKERS = 2
_AHEAD = 64
# Unusable pictures that a warning names.
_SHOWN = 3
# Pictures that are asked about again where answers are kept.
_PROBED = 32
Examine = Callable[[Mapping[str, ModelAnswer]], None]


class AskedPicture(Protocol):
    """What is asked about: a row of a suite's table, or a picture that lies elsewhere."""

    @property
    def file_name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def label(self) -> str | None: ...
    @property
    def accepted(self) -> bool: ...


@dataclass(frozen=True)
class _Input:
    """A picture as the model takes it, and its (height, width) before."""

    row: AskedPicture
    pixels: NDArray[Any]
    size: Size


@dataclass
class ModelAnswers:
    """`answers` by `file_name`; `failed`: why pictures have none, by the same. So many answers were `kept`. Of one
    channel they are in two classes, by a `rule`.
    """

    answers: dict[str, ModelAnswer] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    kept: int = 0
    rule: str = ""

    @property
    def digest(self) -> str:
        """Names all answers: two models that answer alike have the same."""
        return content_key(sorted((name, content_key(to_json(answer))) for name, answer in self.answers.items()))

    def warning(self, name: str) -> str | None:
        """The sentence on pictures without an answer."""
        if not self.failed:
            return None
        shown = list_some([f"{picture} ({reason})" for picture, reason in self.failed.items()], _SHOWN)
        some = "a picture" if len(self.failed) == 1 else f"{len(self.failed)} pictures"
        return f"{name} has no answer to {some}, and the rest is judged: {shown}"


def ask_model(
    model: ModelUnderTest,
    suite: Path,
    rows: Sequence[AskedPicture],
    on_progress: Callable[[Progress], None],
    warn: Callable[[str], None],
    read: Callable[[AskedPicture], Picture] | None = None,
    *,
    wanted: frozenset[Wanted] = ANYTHING,
    fresh: bool = False,
    examine: Examine = lambda _: None,
) -> ModelAnswers:
    """The model's answers to the accepted pictures of a suite, or to others, which `read` gives as uint8 RGB [H, W, 3];
    the suite keeps them. `wanted` is what it can judge.

    Pictures of one shape, after the model's own preparation, make a batch; equal pictures are asked once. A picture
    that the model raises on, or gives no answer, is named, and the others go on. Where answers are kept, some of all
    labels and answers are asked for anew; one that differs, or `fresh`, forgets all that were kept. The first batch, of
    all labels too, is asked for twice, and of a model that then answers otherwise nothing is kept; `examine` sees its
    answers, and may raise.

    Raises CounterfactoryError for a picture that is no picture of a suite, for answers that are none, and for a model
    that answers none of the first pictures; what was answered by then is kept.
    """
    accepted = [row for row in rows if row.accepted]
    about = {"name": model.name, "input": model.input}
    with open_kept(suite, answers_key(model, wanted), about, warn) as kept:
        pictures = read or partial(_read_picture, Folder(suite))
        asking = _Asking(model, pictures, kept, wanted, len(accepted), on_progress, warn)
        if fresh:
            kept.forget()
        if known := kept.of([row.sha256 for row in accepted]):
            known = asking.probe(accepted, known)
        asking.run(accepted, known, examine)
    asked = asking.asked
    if (channel := tell_channel(asked.answers)) is not None:
        asked.answers = {name: channel.settle(answer) for name, answer in asked.answers.items()}
        asked.rule = channel.text
    if (text := asked.warning(model.name)) is not None:
        warn(text)
    return asked


def _read_picture(suite: Folder, row: AskedPicture) -> Picture:
    path = suite.path(row.file_name)
    try:
        return open_png(path, lambda image: np.asarray(image.convert("RGB")))
    except ValueError as error:
        raise CounterfactoryError(f"{path} cannot be read as a picture of a suite: {error}") from error


def _spread(rows: Sequence[AskedPicture], of: Callable[[AskedPicture], Hashable]) -> list[AskedPicture]:
    """The rows, in an order that takes one of each group in turn, the same each time; equal pictures once."""
    turns = Counter[Hashable]()
    ranked = []
    for row in sorted({row.sha256: row for row in rows}.values(), key=lambda row: row.sha256):
        ranked.append((turns[of(row)], row))
        turns[of(row)] += 1
    return [row for _, row in sorted(ranked, key=lambda one: one[0])]


class _Asking:
    """One model's way through a suite."""

    def __init__(
        self,
        model: ModelUnderTest,
        read: Callable[[AskedPicture], Picture],
        kept: KeptAnswers,
        wanted: frozenset[Wanted],
        total: int,
        on_progress: Callable[[Progress], None],
        warn: Callable[[str], None],
    ) -> None:
        self._model, self._read, self._kept, self._wanted = model, read, kept, wanted
        self._total, self._on_progress, self._warn = total, on_progress, warn
        self.asked = ModelAnswers()

    def run(self, rows: Sequence[AskedPicture], known: dict[str, ModelAnswer], examine: Examine) -> None:
        """Ask about all rows whose picture has no answer in `known`."""
        same: dict[str, list[AskedPicture]] = {}
        for row in rows:
            if row.sha256 in known:
                self.asked.answers[row.file_name] = known[row.sha256]
                self.asked.kept += 1
            else:
                same.setdefault(row.sha256, []).append(row)
        if rows:
            self._tell()
        first = _spread([some[0] for some in same.values()], lambda row: row.label)[: self._model.batch]
        begun = {row.sha256 for row in first}
        others = [some[0] for sha256, some in same.items() if sha256 not in begun]
        for number, batch in enumerate(self._batches([*first, *others])):
            answers = self._run(batch)
            if number == 0 and not known:
                self._ask_again(batch, answers)
            self._take(batch, answers, same)
            if number == 0:
                examine(self.asked.answers)

    def probe(self, rows: Sequence[AskedPicture], known: dict[str, ModelAnswer]) -> dict[str, ModelAnswer]:
        """`known`, if the model still answers some of its pictures so, of all labels and answers; else nothing."""

        def group(row: AskedPicture) -> Hashable:
            answer = known[row.sha256]
            answered = (
                int(answer.scores.argmax()) if isinstance(answer, ScoreAnswer) else getattr(answer, "label", None)
            )
            return row.label, answered

        chosen = _spread([row for row in rows if row.sha256 in known], group)[:_PROBED]
        differing = 0
        for batch in self._batches(chosen):
            answers = zip(batch, self._run(batch), strict=True)
            differing += sum(not alike(answer, known[one.row.sha256]) for one, answer in answers)
        if not differing:
            return known
        self._warn(
            f"{self._model.name} answers {differing} of {len(chosen)} pictures otherwise than when its predictions "
            "were kept: all pictures are asked anew"
        )
        self._kept.forget()
        return {}

    def _ask_again(self, batch: Sequence[_Input], answers: Sequence[ModelAnswer | UnusableError]) -> None:
        differing = sum(not alike(*pair) for pair in zip(self._run(batch), answers, strict=True))
        if differing:
            self._kept.close()
            self._warn(
                f"{self._model.name} answers {differing} of {len(batch)} pictures otherwise when it is asked again: "
                "its figures change from call to call, and nothing is kept"
            )

    def _batches(self, rows: Sequence[AskedPicture]) -> Iterator[list[_Input]]:
        """The rows' pictures as inputs, those of one shape together."""
        waiting: dict[tuple[int, ...], list[_Input]] = {}
        for one in self._loaded(rows):
            batch = waiting.setdefault(one.pixels.shape, [])
            batch.append(one)
            if len(batch) >= self._model.batch:
                yield waiting.pop(one.pixels.shape)
        yield from waiting.values()

    def _loaded(self, rows: Sequence[AskedPicture]) -> Iterator[_Input]:
        """The rows' pictures as inputs, in order, some of them ahead in other threads."""
        begun: deque[Future[_Input]] = deque()
        line = iter(rows)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="pictures") as pool:
            try:
                while True:
                    while len(begun) < _AHEAD and (row := next(line, None)) is not None:
                        begun.append(pool.submit(self._load, row))
                    if not begun:
                        return
                    yield begun.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _load(self, row: AskedPicture) -> _Input:
        picture = self._read(row)
        return _Input(row, self._model.prepare(picture), (picture.shape[0], picture.shape[1]))

    def _take(
        self,
        batch: Sequence[_Input],
        answers: Sequence[ModelAnswer | UnusableError],
        same: Mapping[str, Sequence[AskedPicture]],
    ) -> None:
        new = {}
        for one, answer in zip(batch, answers, strict=True):
            for row in same[one.row.sha256]:
                if isinstance(answer, UnusableError):
                    self.asked.failed[row.file_name] = str(answer)
                else:
                    self.asked.answers[row.file_name] = new[row.sha256] = answer
        self._kept.keep(new)
        if not self.asked.answers:
            reason = next(iter(self.asked.failed.values()))
            raise CounterfactoryError(
                f"{self._model.name} has no answer to any of the first {len(self.asked.failed)} pictures: {reason}"
            )
        self._tell()

    def _run(self, batch: Sequence[_Input]) -> list[ModelAnswer | UnusableError]:
        """The answers to a batch; where it fails as a whole, picture by picture."""
        sizes = [one.size for one in batch]
        try:
            outputs = self._model.run(np.stack([one.pixels for one in batch]), sizes)
        except CounterfactoryError:
            raise
        except Exception as error:  # a user's model may raise anything
            if len(batch) > 1:
                return [answer for one in batch for answer in self._run([one])]
            lines = str(error).strip().splitlines() or [""]
            return [UnusableError(f"the model raised {type(error).__name__}{lines[0] and ': '}{lines[0]:.160}")]
        return read_answers(outputs, [self._model.place(size) for size in sizes], self._wanted)

    def _tell(self) -> None:
        self._on_progress(Progress(STAGE, len(self.asked.answers) + len(self.asked.failed), self._total))
