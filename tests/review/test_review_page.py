"""The review's page in Chromium: keyboard first, nothing lost, nobody shut out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_pages import needs_chromium, until
from reviewing import book_of, rows_of, study_of, suite_of

from counterfactory.engine.review.answer_book import AnswerBook
from counterfactory.engine.review.serving import ReviewApp, open_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium
HOSTILE = "</script><img src=x onerror=alert(1)> \" ' & {{ 7 * 7 }}"


@dataclass
class Served:
    """A study behind an address; `stop` ends the server, `start` brings it back to the same port."""

    book: AnswerBook
    suite: Path
    rows: Any
    port: int = 0

    def start(self) -> None:
        app = ReviewApp(self.book, self.suite, self.rows, [])
        self.server = open_server(app, self.port)
        self.port = self.server.port
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/r/{self.book.raters['anna']}/"

    def values(self) -> dict[tuple[int, str], int]:
        return {(one.item, one.asked): one.value for one in self.book.ratings()}


@contextmanager
def review_of(folder: Path, rows: Any, questions: str = "dillema", **plan: Any) -> Iterator[Served]:
    suite = suite_of(folder / "suite", rows)
    with closing(book_of(folder, study_of(rows, questions, **({"sample": 3, "checks": 0} | plan)), "anna")) as book:
        served = Served(book, suite, rows)
        served.start()
        yield served
        served.stop()


@contextmanager
def tab_of(chromium: Browser, link: str, **options: Any) -> Iterator[Page]:
    """The page; an error of its script fails the test, and so does what its policy stops."""
    context = chromium.new_context(**options)
    tab, errors = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None)
    tab.on("dialog", lambda dialog: errors.append(dialog.message))
    tab.goto(link)
    until(tab, "item !== null")
    yield tab
    context.close()
    assert errors == []


def press(tab: Page, *keys: str) -> None:
    """Presses keys, each when what the one before did is done."""
    for key in keys:
        tab.keyboard.press(key)
        until(tab, "!sending && !waiting.length && !loading")


def count(tab: Page) -> str:
    return str(tab.locator("#count").inner_text())


def test_all_is_answered_and_taken_back_by_keys(chromium: Browser, tmp_path: Path) -> None:
    with review_of(tmp_path, rows_of(4)) as served, tab_of(chromium, served.link) as tab:
        first = tab.evaluate("item.number")
        assert tab.locator("figcaption").all_inner_texts()[:2] == ["source", "control"]
        press(tab, "n", "y")
        assert count(tab) == "1 of 3 answered"
        assert served.values() == {(first, "label"): 0, (first, "protected: person"): 1}
        assert tab.evaluate("item.number") != first
        press(tab, "ArrowDown", "n", "u")
        assert len(served.values()) == 2
        press(tab, "ArrowLeft")
        assert tab.evaluate("item.number") == first
        assert tab.locator("[aria-pressed=true]").all_inner_texts() == ["no N", "yes Y"]
        press(tab, "y")
        assert served.values()[first, "label"] == 1
        assert tab.evaluate("item.number") == first, "a change of mind stays where it is"
        press(tab, "Enter", "y", "y", "y", "y")
        assert tab.locator("#done").is_visible()
        assert count(tab) == "3 of 3 answered"
        press(tab, "u")
        assert (count(tab), tab.locator("#work").is_visible()) == ("2 of 3 answered", True)


def test_scales_and_notes_are_answered_by_keys(chromium: Browser, tmp_path: Path) -> None:
    with review_of(tmp_path, rows_of(4), "lance") as served, tab_of(chromium, served.link) as tab:
        first = tab.evaluate("item.number")
        press(tab, "5", "4", "1", "y", "y")
        assert tab.evaluate("item.number") == first, "a note is asked for"
        tab.keyboard.type("a face, 123 yes no")
        press(tab, "Enter")
        assert tab.evaluate("item.number") != first
        assert not tab.locator("textarea").count()
        assert [served.values()[first, asked] for asked in ("realism", "edit success", "fidelity")] == [5, 4, 1]
        (note,) = [one.note for one in served.book.ratings() if one.note]
        assert note == "a face, 123 yes no"
        assert sum(value for (item, _), value in served.values().items() if item != first) == 0


def test_the_source_takes_the_variant_s_place_and_pictures_open_large(chromium: Browser, tmp_path: Path) -> None:
    with review_of(tmp_path, rows_of(4)) as served, tab_of(chromium, served.link) as tab:
        picture = tab.locator(".variant img")
        tab.keyboard.down(" ")
        assert str(picture.get_attribute("src")).endswith("/source")
        tab.keyboard.up(" ")
        assert str(picture.get_attribute("src")).endswith("/variant")
        press(tab, "z", "ArrowRight")
        assert tab.locator("#zoom h2").inner_text() == "source"
        press(tab, "y")
        assert served.values() == {}, "keys answer nothing behind a dialog"
        press(tab, "Escape", "?")
        assert tab.locator("#keys").is_visible()


def test_a_server_that_comes_back_gets_the_answer(chromium: Browser, tmp_path: Path) -> None:
    with review_of(tmp_path, rows_of(4)) as served, tab_of(chromium, served.link) as tab:
        first = tab.evaluate("item.number")
        served.stop()
        tab.keyboard.press("y")
        until(tab, "!document.querySelector('#alert').hidden")
        assert "Not saved yet" in tab.locator("#alert").inner_text()
        tab.keyboard.press("n")
        served.start()
        until(tab, "document.querySelector('#alert').hidden && !waiting.length")
        assert served.values() == {(first, "label"): 1, (first, "protected: person"): 0}


@pytest.mark.slow
def test_hostile_words_stay_words(chromium: Browser, tmp_path: Path) -> None:
    from counterfactory.engine.edit import Edit

    edits = (Edit(HOSTILE, HOSTILE, HOSTILE),)
    rows = [
        replace(row, label=HOSTILE, caption=HOSTILE, edited_caption=HOSTILE, protected=(HOSTILE,))
        for row in rows_of(4, edits=edits, edit_scores=())
    ]
    for questions in ("dillema", "edits"):
        with review_of(tmp_path / questions, rows, questions) as served, tab_of(chromium, served.link) as tab:
            assert HOSTILE in tab.locator("#panes").inner_text()
            assert HOSTILE in tab.locator("#questions").inner_text()
            assert tab.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_a_phone_shows_all_pictures_at_one_size_and_takes_taps(chromium: Browser, tmp_path: Path) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with review_of(tmp_path, rows_of(4), "lance") as served, tab_of(chromium, served.link, **phone) as tab:
        until(tab, "[...document.querySelectorAll('#panes img')].every(image => image.naturalWidth === 48)")
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        boxes = [one.bounding_box() for one in tab.locator("#panes img").all()]
        assert len({(round(box["width"]), round(box["height"])) for box in boxes if box}) == 1
        buttons = [one.bounding_box() for one in tab.locator("#questions button").all()]
        assert min(min(box["width"], box["height"]) for box in buttons if box) >= 44
        tab.locator(".choices button", has_text="3").first.tap()
        until(tab, "!waiting.length && !sending")
        assert [*served.values().values()] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_shut_out_of_a_review(chromium: Browser, tmp_path: Path, scheme: Any, width: int) -> None:
    """WCAG 2.2 AA, as far as axe tells, and no sideways scrolling."""
    package = find_spec("axe_playwright_python")
    if package is None or not package.submodule_search_locations:
        pytest.skip("axe is not installed: contrast, names and roles went unchecked")
    axe = (Path(package.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")
    options: dict[str, Any] = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "bypass_csp": True}
    for questions in ("lance", "edits"):
        with (
            review_of(tmp_path / questions, rows_of(4), questions, sample=1) as served,
            tab_of(chromium, served.link, **options) as tab,
        ):
            tab.evaluate(axe)
            for step in ("page", "answered", "zoom", "done"):
                if step == "answered":
                    press(tab, *("5", "5", "5", "y", "y") if questions == "lance" else ("y", "y"))
                elif step == "zoom" and questions == "lance":
                    tab.locator(".picture").first.click()
                elif step == "done":
                    press(tab, "Escape")
                    tab.locator("#questions button").last.click()
                    press(tab, "Enter")
                    until(tab, "item.number === null")
                assert tab.evaluate("document.documentElement.scrollWidth") == width
                rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
                violations = tab.evaluate("rules => axe.run(rules).then(found => found.violations)", rules)
                assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == [], (questions, step)
