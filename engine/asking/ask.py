"""Asks a model under test about the pictures of a suite, batch by batch, and keeps what it answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, list_some
from ..meter.meter import Progress
from ..suite.images import open_png
from ..suite.paths import Folder
from .kept_answers import KeptAnswers, open_kept
from .outputs import LabelAnswer, MapAnswer, ModelAnswer, ScoreAnswer, UnusableError
from .placement import Size
from .preparation import Picture
from .reading_outputs import read_outputs
from .under_test import ModelUnderTest

STAGE = "ask"
_WORKERS = 2
_AHEAD = 64
# Unusable pictures that a warning names.
_SHOWN = 3
# How far an answer that is asked anew may be from the kept one.
_TOLERANCE = 1e-3


class AskedPicture(Protocol):
    """What is asked about: a row of a suite's table, or a picture that lies elsewhere."""

    @property
    def file_name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
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
    """`answers` by `file_name`; `failed`: why pictures have none, by the same. So many answers were `kept`."""

    answers: dict[str, ModelAnswer] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    kept: int = 0

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
) -> ModelAnswers:
    """The model's answers to the accepted pictures of a suite, or to others, which `read` gives as uint8 RGB [H, W, 3];
    the suite keeps them.

    Pictures of one shape, after the model's own preparation, make a batch; equal pictures are asked once. A picture
    that the model raises on, or answers with NaN, is named, and the others go on. Raises CounterfactoryError for a
    picture that is no picture of a suite, for answers that are none, and for a model that raises on all of the first
    pictures; what was answered by then is kept.
    """
    wanted = [row for row in rows if row.accepted]
    with open_kept(suite, model.digest, {"name": model.name, "input": model.input}, warn) as kept:
        asking = _Asking(model, read or partial(_read_picture, Folder(suite)), kept, len(wanted), on_progress)
        known = kept.of([row.sha256 for row in wanted])
        if known and model.probe:
            known = asking.probe(wanted, known, warn)
        asking.run(wanted, known)
    asked = asking.asked
    if (text := asked.warning(model.name)) is not None:
        warn(text)
    return asked


def _read_picture(suite: Folder, row: AskedPicture) -> Picture:
    path = suite.path(row.file_name)
    try:
        return open_png(path, lambda image: np.asarray(image.convert("RGB")))
    except ValueError as error:
        raise CounterfactoryError(f"{path} cannot be read as a picture of a suite: {error}") from error


class _Asking:
    """One model's way through a suite."""

    def __init__(
        self,
        model: ModelUnderTest,
        read: Callable[[AskedPicture], Picture],
        kept: KeptAnswers,
        total: int,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._model, self._read, self._kept = model, read, kept
        self._total, self._on_progress = total, on_progress
        self.asked = ModelAnswers()

    def run(self, rows: Sequence[AskedPicture], known: dict[str, ModelAnswer]) -> None:
        """Ask about all rows whose picture has no answer in `known`."""
        alike: dict[str, list[AskedPicture]] = {}
        for row in rows:
            if row.sha256 in known:
                self.asked.answers[row.file_name] = known[row.sha256]
                self.asked.kept += 1
            else:
                alike.setdefault(row.sha256, []).append(row)
        if rows:
            self._tell()
        waiting: dict[tuple[int, ...], list[_Input]] = {}
        for one in self._loaded([same[0] for same in alike.values()]):
            batch = waiting.setdefault(one.pixels.shape, [])
            batch.append(one)
            if len(batch) >= self._model.batch:
                self._answer(waiting.pop(one.pixels.shape), alike)
        for batch in waiting.values():
            self._answer(batch, alike)

    def probe(
        self, rows: Sequence[AskedPicture], known: dict[str, ModelAnswer], warn: Callable[[str], None]
    ) -> dict[str, ModelAnswer]:
        """`known`, if the model still answers the first of its pictures so; else nothing."""
        same = list(self._loaded([row for row in rows if row.sha256 in known][: self._model.batch]))
        batch = [one for one in same if one.pixels.shape == same[0].pixels.shape]
        for one, answer in zip(batch, self._run(batch), strict=True):
            if isinstance(answer, UnusableError) or not _alike(answer, known[one.row.sha256]):
                before = "than when its predictions were kept"
                warn(f"{self._model.name} answers otherwise {before}: all pictures are asked anew")
                self._kept.forget()
                return {}
        return known

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

    def _answer(self, batch: Sequence[_Input], alike: dict[str, list[AskedPicture]]) -> None:
        new = {}
        for one, answer in zip(batch, self._run(batch), strict=True):
            for row in alike[one.row.sha256]:
                if isinstance(answer, UnusableError):
                    self.asked.failed[row.file_name] = str(answer)
                else:
                    self.asked.answers[row.file_name] = answer
                    if not isinstance(answer, LabelAnswer) or type(answer.label) in (str, int):
                        new[row.sha256] = answer
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
        return read_outputs(outputs, [self._model.place(size) for size in sizes])

    def _tell(self) -> None:
        self._on_progress(Progress(STAGE, len(self.asked.answers) + len(self.asked.failed), self._total))


def _alike(new: ModelAnswer, old: ModelAnswer) -> bool:
    if isinstance(new, ScoreAnswer) and isinstance(old, ScoreAnswer):
        same = new.scores.shape == old.scores.shape
        return same and bool(np.abs(new.probabilities - old.probabilities).max() < _TOLERANCE)
    if isinstance(new, MapAnswer) and isinstance(old, MapAnswer):
        same = new.numbers.shape == old.numbers.shape
        return same and bool((new.numbers != old.numbers).mean() < _TOLERANCE)
    return new == old
