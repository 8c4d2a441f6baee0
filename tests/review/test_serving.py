"""The review's server: nothing without a token, a Host and an Origin of its own, and nothing out of the suite."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from refusing import refusal
from reviewing import book_of, rows_of, served, study_of, suite_of
from werkzeug.test import Client, TestResponse

from counterfactory.engine.review.answer_book import AnswerBook
from counterfactory.engine.review.serving import ReviewApp, open_server

ROWS = rows_of(6)
HOST = "127.0.0.1:8377"


class Browser:
    """A rater's browser, as far as it asks the server."""

    def __init__(self, book: AnswerBook, suite: Path, rows: Any = ROWS) -> None:
        self.app = ReviewApp(book, suite, rows, [HOST])
        self.client, self.book = Client(self.app), book

    def get(self, path: str, rater: str = "anna", **headers: str) -> TestResponse:
        return self.client.get(f"/r/{self.book.raters[rater]}/{path}", headers={"Host": HOST, **headers})

    def item(self, query: str = "", rater: str = "anna") -> dict[str, Any]:
        response = self.get(f"item{query}", rater)
        assert response.status_code == 200
        return dict(response.get_json())

    def post(self, path: str, body: Any, rater: str = "anna", **headers: str) -> TestResponse:
        return self.client.post(
            f"/r/{self.book.raters[rater]}/{path}",
            data=body if isinstance(body, bytes) else json.dumps(body),
            headers={"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": "application/json", **headers},
        )

    def answer(self, item: dict[str, Any], asked: str = "label", value: int = 1, rater: str = "anna") -> None:
        body = {"item": item["number"], "asked": asked, "value": value, "note": "", "seconds": 1.0}
        assert self.post("answer", body, rater).status_code == 200


@contextmanager
def browser_of(folder: Path, rows: Any = ROWS, **plan: Any) -> Iterator[Browser]:
    suite = suite_of(folder / "suite", rows)
    with closing(book_of(folder, study_of(rows, **plan), "anna", "ben")) as book:
        yield Browser(book, suite, rows)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with browser_of(tmp_path, sample=6, per_picture=1, checks=0.4) as browser:
        yield browser


def test_a_request_that_comes_as_the_review_ends_is_told(browser: Browser) -> None:
    link = f"/r/{browser.book.raters['anna']}/item"
    browser.book.close()
    response = browser.client.get(link, headers={"Host": HOST})
    assert (response.status_code, response.get_json()) == (503, {"error": "the review has ended"})


def test_a_rater_answers_all_and_goes_back(browser: Browser) -> None:
    seen = []
    while (item := browser.item())["number"] is not None:
        assert [one["value"] for one in item["questions"]] == [None, None]
        seen.append(item["number"])
        for one in item["questions"]:
            browser.answer(item, one["asked"])
    assert sorted(seen) == sorted(browser.book.study.by_number)
    assert seen != sorted(seen), "each rater has an order of their own"
    assert (item["done"], item["total"], item["at"]) == (8, 8, 8)
    checks = sum(item.kind != "variant" for item in browser.book.study.items)
    assert browser.item(rater="ben")["total"] == checks == 2, "each picture goes to as many as it needs, checks to all"
    back = browser.item("?at=7")
    assert (back["number"], [one["value"] for one in back["questions"]]) == (seen[-1], [1, 1])
    assert browser.post("undo", {}).get_json() == {"number": seen[-1]}
    assert [one["value"] for one in browser.item(f"?number={seen[-1]}")["questions"]] == [1, None]
    assert browser.item()["number"] == seen[-1], "what is open comes first"


def test_a_check_does_not_show_that_it_is_one(browser: Browser) -> None:
    kinds = {item.number: item.kind for item in browser.book.study.items}
    keys = set()
    for place in range(8):
        item = browser.item(f"?at={place}")
        assert not any(word in json.dumps(item) for word in ("kind", "image", "originals/", ".png"))
        keys.add((tuple(sorted(item)), tuple(item["panes"]), bool(item["edits"])))
        pictures = [browser.get(f"picture/{item['number']}/{pane}").data for pane in ("source", "control", "variant")]
        assert pictures[2] not in pictures[:2], kinds[item["number"]]
    assert len(keys) == 1


def test_pictures_are_those_of_the_item(browser: Browser) -> None:
    rows = {row.file_name: row for row in ROWS}
    for item in browser.book.study.items:
        host = rows[item.image]
        control = host.original if item.kind == "control" else host.control
        for pane, name in (("source", host.original), ("control", control), ("variant", item.shown)):
            response = browser.get(f"picture/{item.number}/{pane}")
            assert (response.status_code, response.mimetype) == (200, "image/png")
            with Image.open(io.BytesIO(response.data)) as sent, Image.open(browser.app._files.path(str(name))) as kept:
                assert sent.getpixel((0, 0)) == kept.getpixel((0, 0))
    assert browser.get("picture/99/source").status_code == 404
    assert browser.get("picture/1/mask").status_code == 404


@pytest.mark.parametrize("path", ["", "item", "picture/1/source", "nothing"])
@pytest.mark.parametrize("token", ["", "x", "../..", "anna"])
def test_nothing_is_given_without_a_token(browser: Browser, path: str, token: str) -> None:
    response = browser.client.get(f"/r/{token}/{path}", headers={"Host": HOST})
    assert response.status_code in (403, 404, 308)
    assert b"bus" not in response.data


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8377", ""])
def test_another_host_is_refused(browser: Browser, host: str) -> None:
    """A page of a stranger's may have its name point here."""
    assert browser.get("item", Host=host).status_code == 403
    assert browser.get("", Host=host).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:1"])
def test_another_page_s_post_is_refused(browser: Browser, origin: str) -> None:
    body = {"item": browser.item()["number"], "asked": "label", "value": 1, "note": "", "seconds": 1}
    assert browser.post("answer", body, Origin=origin).status_code == 403
    assert browser.post("undo", {}, Origin=origin).status_code == 403
    assert browser.post("answer", body, **{"Content-Type": "text/plain"}).status_code == 403
    assert browser.get("answer").status_code == 405
    assert browser.book.ratings() == []


@pytest.mark.parametrize(
    "change",
    [
        *({"item": 99}, {"item": "1"}, {"item": True}, {"asked": "sky"}, {"asked": 1}, {"value": 2}, {"value": True}),
        *({"value": "1"}, {"note": 3}),
    ],
)
def test_what_is_no_answer_is_not_taken(browser: Browser, change: dict[str, Any]) -> None:
    body = {"item": 1, "asked": "label", "value": 1, "note": "", "seconds": 1}
    assert browser.post("answer", body | change).status_code == 400
    for text in (b"", b"{", b"[]", b"NaN", b'{"item": 1}'):
        assert browser.post("answer", text).status_code in (400, 413)
    assert browser.post("answer", body | {"note": "x" * 20_000}).status_code == 413
    assert browser.book.ratings() == []


@pytest.mark.parametrize("seconds", ["NaN", None, -1, 1e300, True])
def test_an_odd_time_loses_no_answer(browser: Browser, seconds: Any) -> None:
    body = {"item": 1, "asked": "label", "value": 1, "note": "", "seconds": seconds}
    assert browser.post("answer", body).status_code == 200
    assert [(one.value, one.seconds) for one in browser.book.ratings()] == [(1, 0.0)]


def test_headers_let_nothing_else_run(browser: Browser) -> None:
    for response in (browser.get(""), browser.get("item"), browser.get("none"), browser.get("item", Host="evil")):
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer", "the address holds the token"
        assert response.headers["Cache-Control"] == "no-store"
    picture = browser.get("picture/1/source")
    assert picture.headers["Cache-Control"].startswith("private")
    assert picture.headers["X-Content-Type-Options"] == "nosniff"


def test_a_picture_that_is_gone_is_passed_over_and_its_answers_stay(tmp_path: Path) -> None:
    with browser_of(tmp_path, sample=6, checks=0) as browser:
        item, book, suite = browser.item(), browser.book, tmp_path / "suite"
        browser.answer(item)
        gone = book.study.by_number[item["number"]].image
        later = Browser(book, suite, [row for row in ROWS if row.file_name != gone])
        assert later.item()["total"] == 5
        body = {"item": item["number"], "asked": "label", "value": 0, "note": "", "seconds": 1}
        refused = later.post("answer", body)
        assert (refused.status_code, "gone from the suite" in refused.get_json()["error"]) == (409, True)
        assert [one.value for one in book.ratings()] == [1]
        (suite / gone).unlink()
        missing = browser.get(f"picture/{item['number']}/variant")
        assert (missing.status_code, missing.mimetype) == (404, "application/json")


def test_a_link_out_of_the_suite_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    with browser_of(tmp_path, sample=6, checks=0) as browser:
        file = tmp_path / "suite" / browser.book.study.items[0].image
        file.unlink()
        file.symlink_to(secret)
        response = browser.get("picture/1/variant")
        assert response.status_code == 500
        assert b"secret" not in response.data.replace(b"secret.png", b"")


def test_text_of_strangers_is_given_as_data_alone(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    rows = [replace(row, label=hostile, edited_caption=hostile) for row in ROWS]
    with browser_of(tmp_path, rows, sample=2, checks=0) as browser:
        assert hostile.encode() not in browser.get("").data
        assert browser.item()["label"] == hostile
        assert browser.get("item").mimetype == "application/json"


def test_a_busy_port_is_one_sentence(browser: Browser, capfd: pytest.CaptureFixture[str]) -> None:
    server = open_server(browser.app, 0)
    try:
        assert f"127.0.0.1:{server.port}" in browser.app.hosts
        with refusal(f"port {server.port} is not free"):
            open_server(browser.app, server.port)
    finally:
        server.server_close()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_it_is_served_on_this_machine_alone(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", ROWS)
    options = ("--port", "0", "--raters", "anna,ben", "--address", "https://review.example.org/")
    with served(suite, *options) as (process, said):
        tokens = [link.removeprefix("https://review.example.org/r/").rstrip("/") for link in said["links"].values()]
        assert len({*tokens}) == 2
        sockets = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
        inodes = {
            Path(f"/proc/{process.pid}/fd/{fd.name}").readlink().name
            for fd in Path(f"/proc/{process.pid}/fd").iterdir()
        }
        own = [line.split() for line in sockets if f"socket:[{line.split()[9]}]" in inodes]
        assert [line[1].partition(":")[0] for line in own] == ["0100007F"]
