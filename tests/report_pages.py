"""A report's page as tests read it: tags, text, and the album that its script draws."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from picture_rows import picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.report.album import Answer, Frame, Strip
from counterfactory.engine.report.page import ReportText, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="no Chromium and Playwright here: what the page's script draws went unchecked",
)


class Reader(HTMLParser):
    """What a browser would see of a page before its script runs: tags with their attributes, the text, and the data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = self._data = ""
        self._in = ""
        self.feed(page)
        self.album: dict[str, Any] = json.loads(self._data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in = dict(attrs).get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "album":
            self._data += data
        elif not self._in:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    @property
    def strips(self) -> list[dict[str, Any]]:
        strips: list[dict[str, Any]] = self.album["strips"]
        return strips

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [frame for strip in self.strips for frame in strip["frames"]]

    @property
    def images(self) -> Iterator[str]:
        """The address of every picture, small ones, edges and masks included."""
        for strip in self.strips:
            controls = [strip["control"]] if strip["control"] else []
            for shown in (strip, *controls, *strip["frames"]):
                yield from shown["image"]
            yield from (strip[kind] for kind in ("edges", "mask") if strip[kind])

    @property
    def options(self) -> dict[str, list[str]]:
        """What each list offers, by its name; the first option is that of choosing none."""
        offered: dict[str, list[str]] = {}
        for tag, attributes in self.tags:
            if tag == "select":
                offered[str(attributes["name"])] = []
            elif tag == "option" and attributes["value"]:
                offered[list(offered)[-1]].append(str(attributes["value"]))
        return offered


def frame(image: Path, answer: Answer | None = None, **changes: Any) -> Frame:
    values: dict[str, Any] = {"edits": (Edit("weather", "clear", "foggy"),), "edited_caption": "a foggy street."}
    return Frame(picture_row(**{**values, "scores": {}, **changes}), image, answer)


def strip(*frames: Frame, **changes: Any) -> Strip:
    values: dict[str, Any] = {"name": "bus/1", "label": "bus", "caption": "", "edges": None, "control": None}
    values["image"] = frames[0].image if frames else Path("none.png")
    return Strip(**(values | changes), frames=frames)


def page_of(folder: Path, *album: Strip, **text: Any) -> Reader:
    write_page(album, folder / "p.html", ReportText("t", "s", **text))
    return Reader((folder / "p.html").read_text(encoding="utf-8"))


def until(tab: Page, condition: str) -> None:
    """Waits for a condition, which Playwright would do inside the page, whose policy runs no text."""
    for _ in range(400):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(condition)


@contextmanager
def opened(chromium: Browser, page: Path, **options: Any) -> Iterator[Page]:
    """The page in Chromium; an error of its script fails the test."""
    with chromium.new_context(**options) as context:
        tab, errors = context.new_page(), list[str]()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("dialog", lambda dialog: errors.append(dialog.message))
        tab.goto(page.resolve().as_uri())
        until(tab, "drawn > 0 || !start.variants")
        yield tab
    assert errors == []
