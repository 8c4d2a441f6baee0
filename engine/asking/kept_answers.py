"""A model's answers, kept in the suite: predictions/<16 hex>.sqlite, by the model's key and the pictures' own.

They are on the disk batch by batch, so that asking goes on where it was stopped, and a second evaluation asks nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.writing import make_folder
from ..keys import content_key
from ..suite.ledger import Ledger
from ..suite.lock import Lock
from ..suite.paths import Folder
from .outputs import ModelAnswer, Wanted, from_json, to_json
from .under_test import ModelUnderTest

FOLDER = "predictions"
# The rules by which pictures become inputs, and outputs answers: raised by hand when they come to other answers.
READING = 1
_STAGE, _MODEL = "answers", "model"
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def answers_key(model: ModelUnderTest, wanted: frozenset[Wanted]) -> str | None:
    """Names all that decides a model's answer to a picture, beside the picture; None where that cannot be told. By
    `name`, two models share no answer, whatever else is alike.
    """
    return model.digest and content_key(READING, model.digest, model.name, model.input, sorted(wanted))


class KeptAnswers:
    """The kept answers of one model, by the SHA-256 of pictures; see `open_kept`."""

    def __init__(self, ledger: Ledger | None, key: str = "", about: Mapping[str, str] | None = None) -> None:
        self._ledger, self._key, self._about, self._round = ledger, key, dict(about or {}), 0
        if ledger is not None:
            row = ledger.get(_MODEL, [key]).get(key)
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
        """What was kept so far counts no more: from now on it is nobody's, whenever the process ends."""
        if self._ledger is not None:
            self._round += 1
            self._note()

    def close(self) -> None:
        """Keep nothing from now on, nor what was kept so far."""
        self.forget()
        self._ledger = None

    @property
    def _stage(self) -> str:
        return f"{_STAGE} {self._round}"

    def _note(self) -> None:
        assert self._ledger is not None, "only what is kept has a note"
        self._ledger.put(_MODEL, {self._key: {**self._about, "round": self._round}})


@contextmanager
def open_kept(
    suite: Path, key: str | None, about: Mapping[str, str], warn: Callable[[str], None]
) -> Iterator[KeptAnswers]:
    """The answers of the model with this key to a suite's pictures; without a key none are kept.

    What is said `about` the model is noted for readers. In a suite that may not be written nothing is kept either, with
    a warning. Raises CounterfactoryError where another process asks the same model.
    """
    if key is None:
        yield KeptAnswers(None)
        return
    file = suite / FOLDER / f"{key[:16]}.sqlite"
    Folder(suite).refuse_outward_links([FOLDER, f"{FOLDER}/{file.name}", f"{FOLDER}/{key[:16]}.lock"])
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
        yield KeptAnswers(ledger, key, about)
