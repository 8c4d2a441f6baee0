"""The review page on 127.0.0.1: each rater by a link with a token of their own, picture after picture.

Any page that a rater has open may ask this address, and the suite may be a stranger's. So a request needs a token and a
Host header of ours, what changes something an Origin of ours as well; the page's policy runs its own script alone, and
that script writes what the suite says as text.
"""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from ..errors import CounterfactoryError
from ..files.reading import open_file, parse_json, read_bytes
from ..suite import PictureRow
from ..suite.paths import Folder
from .answer_book import MOST_NOTE, AnswerBook, Rating
from .question_set import NUMBERS
from .study import StudyItem

HOST = "127.0.0.1"
_MOST_BYTES = 1 << 14
_DAY_S = 86_400.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES = {
    "page": ("review.html", "text/html"),
    "script": ("review.js", "text/javascript"),
    "style": ("review.css", "text/css"),
}
_ROUTES = Map(
    [
        Rule("/review.js", endpoint="script", methods=["GET"]),
        Rule("/review.css", endpoint="style", methods=["GET"]),
        Rule("/r/<token>/", endpoint="page", methods=["GET"], strict_slashes=False),
        Rule("/r/<token>/item", endpoint="item", methods=["GET"]),
        Rule("/r/<token>/picture/<int:number>/<any(source,control,variant):pane>", endpoint="picture", methods=["GET"]),
        Rule("/r/<token>/answer", endpoint="answer", methods=["POST"]),
        Rule("/r/<token>/undo", endpoint="undo", methods=["POST"]),
    ]
)


class _RefusalError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ReviewApp:
    """A study of the suite in `folder`, whose rows are `rows`, as a WSGI application. `hosts` are what the Host header
    may be. Items whose pictures are gone are passed over.
    """

    def __init__(self, book: AnswerBook, folder: Path, rows: Sequence[PictureRow], hosts: Iterable[str]) -> None:
        self._book, self._files = book, Folder(folder)
        self._rows = {row.file_name: row for row in rows}
        self._items = {item.number: item for item in book.study.present(self._rows)}
        self.hosts = frozenset(hosts)

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answers a request."""
        request = Request(environ)
        try:
            response = self._answer(request)
        except _RefusalError as error:
            response = _json({"error": str(error)}, error.status)
        except CounterfactoryError as error:
            response = _json({"error": str(error)}, 500)
        except sqlite3.ProgrammingError:  # the book was closed while the request was on its way
            response = _json({"error": "the review has ended"}, 503)
        except HTTPException as error:
            response = _json({"error": "there is no such page: use the link that you were given"}, error.code or 500)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if request.environ.get("HTTP_HOST", "") not in self.hosts:
            raise _RefusalError(403, "this address is not the one that the review was started with")
        endpoint, given = _ROUTES.bind_to_environ(request.environ).match()
        if endpoint in ("script", "style"):
            return _file(endpoint)
        rater = next((name for name, token in self._book.raters.items() if token == given["token"]), None)
        if rater is None:
            raise _RefusalError(403, "this link is not, or no longer, one of a rater: ask for a new one")
        if endpoint == "page":
            return _file(endpoint)
        if endpoint == "picture":
            return self._picture(given["number"], given["pane"])
        if endpoint == "item":
            return _json(self._state(rater, request.args))
        if urlsplit(request.headers.get("Origin", "")).netloc not in self.hosts or not request.is_json:
            raise _RefusalError(403, "this request does not come from the review's own page")
        if endpoint == "undo":
            number = self._book.undo(rater)
            return _json({"number": number if number in self._items else None})
        self._book.record([self._rating(rater, request)])
        return _json(self._progress(self._sequence(rater)))

    def _rating(self, rater: str, request: Request) -> Rating:
        """The answer that was posted; other fields than an answer's are passed over."""
        if (request.content_length or _MOST_BYTES + 1) > _MOST_BYTES:
            raise _RefusalError(413, f"an answer is no larger than {_MOST_BYTES:,} bytes, its note shorter")
        try:
            body = parse_json(request.get_data())
            number, asked, value, note = body["item"], body["asked"], body["value"], body["note"]
            seconds = body["seconds"]
            timed = type(seconds) in (int, float) and 0 <= seconds < _DAY_S
            sound = type(number) is int and type(value) is int and isinstance(asked, str) and isinstance(note, str)
        except (ValueError, TypeError, KeyError) as error:
            raise _RefusalError(400, "this is no answer") from error
        if sound and number in self._book.study.by_number and number not in self._items:
            raise _RefusalError(
                409, "this picture is gone from the suite: reload the page, which goes on with the next one"
            )
        if not sound or not self._book.study.takes((number, asked, value)):
            raise _RefusalError(400, "this is no answer to what the study asks")
        return Rating(rater, number, asked, value, note.strip()[:MOST_NOTE], seconds if timed else 0.0)

    def _sequence(self, rater: str) -> list[tuple[StudyItem, dict[str, Rating]]]:
        """A rater's items with their answers: those begun, as they came, then the others that lack raters, in an order
        of the rater's own.
        """
        own, others = defaultdict[int, dict[str, Rating]](dict), defaultdict[int, set[str]](set)
        for one in self._book.ratings():
            if one.rater == rater:
                own[one.item][one.asked] = one
            else:
                others[one.item].add(one.rater)
        need, left = (
            self._book.study.plan.per_picture,
            [item for item in self._items.values() if item.number not in own],
        )
        open_ = [item for item in left if item.kind != "variant" or len(others[item.number]) < need]
        open_.sort(key=lambda item: crc32(f"{rater} {item.number}".encode()))
        begun = [self._items[number] for number in own if number in self._items]
        return [(item, own[item.number]) for item in begun + open_]

    def _progress(self, sequence: Sequence[tuple[StudyItem, dict[str, Rating]]]) -> dict[str, int]:
        done = sum(all(asked in answers for asked in item.asks) for item, answers in sequence)
        return {"done": done, "total": len(sequence)}

    def _state(self, rater: str, query: Mapping[str, str]) -> dict[str, Any]:
        """What the page shows: the item at a place of the rater's sequence, of a number, or the first that is open."""
        sequence = self._sequence(rater)
        lacking = (place for place, (item, answers) in enumerate(sequence) if any(a not in answers for a in item.asks))
        named = (place for place, (item, _) in enumerate(sequence) if str(item.number) == query.get("number"))
        place = next(named, next(lacking, len(sequence)))
        if (at := query.get("at", "")).isdecimal() and len(at) < 10 and int(at) < len(sequence):
            place = int(at)
        begun = any(answers for _, answers in sequence)
        state = {"rater": rater, "at": place, "undo": begun, **self._progress(sequence)}
        if place == len(sequence):
            return state | {"number": None}
        following = sequence[place + 1][0].number if place + 1 < len(sequence) else None
        return state | self._shown(*sequence[place]) | {"prefetch": following}

    def _shown(self, item: StudyItem, answers: Mapping[str, Rating]) -> dict[str, Any]:
        host = self._rows[item.image]
        edits, panes, captions = host.edits, ["source", "control", "variant"], list[tuple[str, str, str]]()
        if item.edit is not None:
            edit = host.edits[item.edit]
            edits, panes, captions = (edit,), [], [("caption", host.caption, edit.keyword)]
            captions.append(("edited caption", host.edited_caption, edit.alternative))
        return {
            "number": item.number,
            "label": host.label,
            "edits": [(edit.type, edit.keyword, edit.alternative) for edit in edits],
            "captions": captions,
            "panes": [pane for pane in panes if pane != "control" or host.control is not None],
            "questions": [self._question(asked, host.label, answers.get(asked)) for asked in item.asks],
        }

    def _question(self, asked: str, label: str | None, answer: Rating | None) -> dict[str, Any]:
        questions = self._book.study.questions
        question = questions.question(asked)
        words = [(value, questions.word(asked, value)) for value in question.values]
        return {
            "asked": asked,
            "text": questions.text(asked, label),
            "values": [(value, word, word[0].upper() if question.kind == "yes-no" else "") for value, word in words],
            "ends": question.ends,
            "note": None if question.note is None else NUMBERS[question.note],
            "value": None if answer is None else answer.value,
            "text_note": "" if answer is None else answer.note,
        }

    def _picture(self, number: int, pane: str) -> Response:
        item = self._items.get(number)
        if item is None:
            raise NotFound
        host = self._rows[item.image]
        # The control of a control is the source: side by side the two would tell that nothing was edited.
        control = host.original if item.kind == "control" else host.control or host.original
        name = {"source": host.original, "control": control, "variant": item.shown}[pane]
        try:
            with open_file(self._files.path(name)) as file:
                return Response(file.read(), mimetype="image/png", headers={"Cache-Control": "private, max-age=86400"})
        except OSError as error:
            raise _RefusalError(404, f"{name} cannot be read ({error.strerror or error})") from error


def _json(data: object, status: int = 200) -> Response:
    return Response(json.dumps(data), status, mimetype="application/json")


def _file(endpoint: str) -> Response:
    name, kind = _FILES[endpoint]
    return Response(read_bytes(Path(__file__).with_name(name)), mimetype=kind)


class _Quiet(WSGIRequestHandler):
    """Requests are not printed: their paths hold the tokens."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


def open_server(app: ReviewApp, port: int) -> BaseWSGIServer:
    """A server of the application on this machine alone, at a free port for 0. Raises CounterfactoryError where the
    port is taken.
    """
    refusal = io.StringIO()
    try:
        with contextlib.redirect_stderr(refusal):  # it prints why, and ends the process
            server = make_server(HOST, port, app, threaded=True, request_handler=_Quiet)
    except (SystemExit, OSError, OverflowError) as error:
        raise CounterfactoryError(f"port {port} is not free: name another by --port, or any by --port 0") from error
    app.hosts |= {f"{name}:{server.port}" for name in (HOST, "localhost")}
    return server
