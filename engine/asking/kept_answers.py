"""A model's answers, kept in the suite: predictions/<16 hex>.sqlite, by the model's digest and the pictures' own.

They are on the disk batch by batch, so that asking goes on where it was stopped, and a second evaluation asks nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.writing import make_folder
from ..suite.ledger import Ledger
from ..suite.lock import Lock
from ..suite.paths import Folder
from .outputs import ModelAnswer, from_json, to_json

FOLDER = "predictions"
_STAGE, _MODEL = "answers", "model"
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class KeptAnswers:
    """The kept answers of one model, by the SHA-256 of pictures; see `open_kept`."""

    def __init__(self, ledger: Ledger | None, digest: str = "", about: Mapping[str, str] | None = None) -> None:
        self._ledger, self._digest, self._about, self._round = ledger, digest, dict(about or {}), 0
        if ledger is not None:
            row = ledger.get(_MODEL, [digest]).get(digest)
            self._round = int(row["round"]) if isinstance(row, Mapping) and isinstance(row.get("round"), int) else 0
            self._note()

    def of(self, pictures: Sequence[str]) -> dict[str, ModelAnswer]:
        """The answers to those of the pictures that have one. Raises CounterfactoryError for one that is damaged."""
        if self._ledger is None:
            return {}
        answers = {}
        for picture, value in self._ledger.get(self._stage, pictures).items():
            try:
                answers[picture] = from_json(value)
            except (ValueError, TypeError, IndexError, OSError) as error:
                place, _ = self._ledger.place(self._stage, picture)
                raise CounterfactoryError(f"{place} is no answer of a model: remove the file to ask anew") from error
        return answers

    def keep(self, answers: Mapping[str, ModelAnswer]) -> None:
        """Keep these; they are on the disk on return."""
        if self._ledger is not None:
            self._ledger.put(self._stage, {picture: to_json(answer) for picture, answer in answers.items()})

    def forget(self) -> None:
        """What was kept so far is of another model: from now on it is nobody's, whenever the process ends."""
        if self._ledger is not None:
            self._round += 1
            self._note()

    @property
    def _stage(self) -> str:
        return f"{_STAGE} {self._round}"

    def _note(self) -> None:
        assert self._ledger is not None, "only what is kept has a note"
        self._ledger.put(_MODEL, {self._digest: {**self._about, "round": self._round}})


@contextmanager
def open_kept(
    suite: Path, digest: str | None, about: Mapping[str, str], warn: Callable[[str], None]
) -> Iterator[KeptAnswers]:
    """The answers of the model with this digest to a suite's pictures; without a digest none are kept.

    What is said `about` the model is noted for readers. In a suite that may not be written nothing is kept either, with
    a warning. Raises CounterfactoryError where another process asks the same model.
    """
    if digest is None:
        yield KeptAnswers(None)
        return
    file = suite / FOLDER / f"{digest[:16]}.sqlite"
    Folder(suite).refuse_outward_links([FOLDER, f"{FOLDER}/{file.name}", f"{FOLDER}/{digest[:16]}.lock"])
    with ExitStack() as held:
        try:
            make_folder(file.parent, suite)
            held.callback(Lock(file.with_suffix(".lock")).release)
        except CounterfactoryError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _READ_ONLY:
                raise
            warn(f"the answers are not kept: {error}")
            ledger = None
        else:
            ledger = Ledger(file)
            held.callback(ledger.close)
        yield KeptAnswers(ledger, digest, about)
