"""The page's script in Chromium: what it draws, filters, opens and saves, and that anybody can use it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_pages import frame, needs_chromium, opened, strip, until

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.report import page as page_module
from counterfactory.engine.report.album import Answer, Strip
from counterfactory.engine.report.findings import ReportFinding
from counterfactory.engine.report.forest import Forest, ForestRow
from counterfactory.engine.report.page import ReportText, write_page
from counterfactory.engine.report.table import Table
from counterfactory.engine.report.thumbnails import embed_pictures

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium
HOSTILE = "</script><img src=x onerror=alert(1)> \" ' & {{ 7 * 7 }}"
NIGHT, FOG = Edit("time", "day", "at night"), Edit("weather", "clear", "foggy")


def album(picture: Path, sources: int = 20) -> list[Strip]:
    """Each source has a night that is answered wrongly, a rejected fog, and a fog that is answered rightly."""

    def strip_of(g: int) -> Strip:
        frames = (
            frame(picture, Answer("car", g % 2 == 0), edits=(NIGHT,), file_name=f"{g}/night", scores={"edit": g / 99}),
            frame(picture, Answer("bus", True), edits=(FOG,), file_name=f"{g}/lost", reason="edit 0.1 is below 0.2"),
            frame(picture, Answer("bus", True), edits=(FOG,), file_name=f"{g}/fog", scores={"edit": 0.5, "odd": 1.0}),
        )
        control = frame(picture, file_name=f"{g}/control")
        label = ("bus", "car")[g % 2]
        return strip(*frames, name=f"{label}/{g}", label=label, caption="a street.", control=control, mask=picture)

    return [strip_of(g) for g in range(sources)]


def text_of(**changes: Any) -> ReportText:
    row = ForestRow("time: at night", "-5 (-9 ... -1)", 7, True, 10.0, 20.0, 30.0, "value")
    forest = Forest("What edits do", (("", (row,)), ("1 class", (row,))), ((0.0, "-50"), (50.0, "0")), 50.0)
    values: dict[str, Any] = {
        "findings": (
            ReportFinding("Night costs 5 points.", True, (("type", "time"),)),
            ReportFinding("Nothing is known of fog."),
        ),
        "forests": (forest,),
        "tables": (Table("Effects", ("edit", "q"), (("time", "0.1"),), ("a note",), of="type"),),
        "figures": (("sources", "20"),),
        "notes": ("a note of all",),
        "remarks": ("a remark",),
        "classes": ("sky", "road"),
        "limits": {"edit": (0.2, None)},
    }
    return ReportText("Title", "Subtitle", **values | changes)


@pytest.fixture
def tab(chromium: Browser, picture: Path, tmp_path: Path) -> Iterator[Page]:
    write_page(album(picture), tmp_path / "page.html", text_of())
    with opened(chromium, tmp_path / "page.html", viewport={"width": 1280, "height": 900}) as tab:
        yield tab


def shown(tab: Page) -> str:
    return str(tab.locator("output").inner_text())


def names(tab: Page) -> list[str]:
    found: list[str] = tab.locator("figure[data-name]").evaluate_all("all => all.map(one => one.dataset.name)")
    return found


def test_a_row_of_the_chart_shows_its_pictures_wrong_ones_first(tab: Page) -> None:
    assert shown(tab) == "60 of 60 variants"
    tab.locator("a.effect").first.click()
    assert shown(tab) == "20 of 60 variants"
    assert names(tab) == [f"{g}/night" for g in (1, 3, 5, 7, 9, 11)], "six sources, of those answered wrongly"
    assert tab.evaluate("document.querySelector('form').getBoundingClientRect().top") < 60
    tab.go_back()
    assert shown(tab) == "60 of 60 variants"
    tab.locator(".findings a").click()
    assert shown(tab) == "20 of 60 variants"
    tab.locator("#tables th a").click()
    assert tab.evaluate("location.hash") == "#type=time"


def test_filters_and_orders_do_what_they_are_called(tab: Page) -> None:
    tab.locator("input[name=verdict][value=rejected]").check(force=True)
    assert shown(tab) == "20 of 60 variants"
    assert all(name.endswith("lost") for name in names(tab))
    tab.goto(tab.url.partition("#")[0] + "#class=car&answer=wrong")
    until(tab, "document.querySelector('output').textContent.startsWith('10 ')")
    tab.goto(tab.url.partition("#")[0] + "#sort=score:edit&value=time: at night")
    until(tab, "document.querySelector('output').textContent.startsWith('20 ')")
    assert names(tab) == [f"{g}/night" for g in range(6)]
    tab.goto(tab.url.partition("#")[0] + "#said=car&class=bus")
    until(tab, "document.querySelector('output').textContent.startsWith('10 ')")
    tab.locator("input[name=text]").fill("no such words")
    assert shown(tab) == "0 of 60 variants"
    assert tab.locator("#none").is_visible()


def test_all_sources_come_when_they_are_asked_for_and_tables_follow(tab: Page) -> None:
    assert tab.locator(".strip").count() == 6
    assert tab.locator("#more").inner_text() == "show all 20 sources"
    tab.locator("nav a", has_text="Tables").click()
    assert tab.evaluate("document.activeElement.id") == "tables"
    tab.locator("#more").click()
    tab.locator("footer").scroll_into_view_if_needed()
    until(tab, "document.querySelectorAll('.strip').length === 20")
    assert tab.locator("#more").is_hidden()


def test_the_viewer_shows_a_variant_beside_its_source_and_explains_its_scores(tab: Page) -> None:
    tab.locator("figure[data-name='1/fog'] a").click()
    viewer = tab.locator("#viewer")
    assert viewer.locator("h3").all_inner_texts() == ["source", "control", "variant"]
    assert tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('open')") == "1/fog"
    tab.locator("#scores summary").click()
    rows = [row.split("\t") for row in viewer.locator("tbody tr").all_inner_texts()]
    assert [(row[1], row[2], row[3]) for row in rows] == [("0.50", "at least 0.20", "edit")], "what has words"
    assert "one edit undone" in rows[0][0]
    tab.keyboard.press("ArrowDown")
    assert viewer.locator("h2").inner_text() == "car: car/3"
    tab.keyboard.press("m")
    assert tab.locator("input[name=masks]").is_checked()
    tab.keyboard.press("Escape")
    assert viewer.is_hidden()
    assert shown(tab) == "60 of 60 variants"


def test_a_csv_is_safe_in_a_spreadsheet(chromium: Browser, picture: Path, tmp_path: Path) -> None:
    words = {"file_name": '=HYPERLINK("x")', "edited_caption": "+1", "scores": {"edit": -0.5}}
    album = strip(frame(picture, Answer("=cmd()", False), **words), name="@x", label="-a,b")
    write_page([album], tmp_path / "page.html", text_of())
    with opened(chromium, tmp_path / "page.html") as tab:
        with tab.expect_download() as download:
            tab.locator("#csv").click()
        (row,) = csv.DictReader(io.StringIO(download.value.path().read_text()))
    assert (row["file_name"], row["source"], row["label"]) == ('\'=HYPERLINK("x")', "'@x", "'-a,b")
    assert (row["caption"], row["prediction"], row["edit"]) == ("'+1", "'=cmd()", "-0.5")


def test_hostile_words_stay_words(chromium: Browser, picture: Path, tmp_path: Path) -> None:
    edits = (Edit(HOSTILE, HOSTILE, HOSTILE),)
    bad = frame(picture, Answer(HOSTILE, False), file_name=HOSTILE, edited_caption=HOSTILE, reason=HOSTILE, edits=edits)
    one = strip(bad, name=HOSTILE, label=HOSTILE, caption=HOSTILE, control=bad, answer=Answer(HOSTILE, True))
    table = Table(HOSTILE, (HOSTILE, "q"), ((HOSTILE, HOSTILE),), (HOSTILE,), of="class")
    text = text_of(findings=(ReportFinding(HOSTILE),), tables=(table,), notes=(HOSTILE,), remarks=(HOSTILE,))
    write_page([one, strip(frame(picture), label="bus")], tmp_path / "page.html", text)
    with opened(chromium, tmp_path / "page.html") as tab:
        figure = tab.locator("figure[data-name]").first
        assert figure.get_attribute("title") == HOSTILE
        assert HOSTILE in figure.inner_text()
        figure.locator("a").click()
        assert HOSTILE in tab.locator("#viewer").inner_text()
        assert tab.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_a_large_album_is_read_from_files_beside_the_page(
    chromium: Browser, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "_SHARD", 8)
    write_page(album(picture), tmp_path / "page.html", text_of())
    with opened(chromium, tmp_path / "page.html") as tab:
        until(tab, "document.querySelector('output').textContent === '60 of 60 variants'")
        tab.goto(tab.url + "#sort=suite")
        until(tab, "document.querySelector('figure[data-name]').dataset.name === '0/night'")
    (tmp_path / "album" / "2.js").unlink()
    with opened(chromium, tmp_path / "page.html") as tab:
        until(tab, "document.querySelector('output').textContent.includes('missing')")


def test_a_page_of_one_file_needs_no_other(chromium: Browser, picture: Path, tmp_path: Path) -> None:
    strips, pictures = embed_pictures(album(picture))
    (tmp_path / "alone").mkdir()
    write_page(strips, tmp_path / "alone" / "page.html", text_of(), embedded=pictures)
    picture.unlink()
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["page.html"]
    with opened(chromium, tmp_path / "alone" / "page.html") as tab:
        tab.locator("#pictures img").first.scroll_into_view_if_needed()
        until(tab, "document.querySelector('#pictures img').naturalWidth === 128")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_shut_out(chromium: Browser, picture: Path, tmp_path: Path, scheme: str, width: int) -> None:
    """WCAG 2.2 AA, as far as axe tells, and no sideways scrolling on a phone."""
    package = find_spec("axe_playwright_python")
    if package is None or not package.submodule_search_locations:
        pytest.skip("axe is not installed: contrast, names and roles went unchecked")
    axe = Path(package.submodule_search_locations[0]) / "axe.min.js"
    write_page(album(picture), tmp_path / "page.html", text_of(footer=64 * "0"))
    with opened(chromium, tmp_path / "page.html", viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        tab.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
        tab.add_script_tag(path=axe)
        for step in ("page", "viewer"):
            if step == "viewer":
                tab.locator("figure[data-name] a").first.click()
            rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
            violations = tab.evaluate("rules => axe.run(rules).then(found => found.violations)", rules)
            assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == [], step


def test_printed_it_has_no_controls(tab: Page) -> None:
    tab.emulate_media(media="print")
    assert tab.locator("form").is_hidden()
    assert tab.locator("#more").is_hidden()
    assert tab.locator(".findings").is_visible()
    assert tab.locator(".forest").is_visible()


def test_effects_of_all_kinds_fit_the_chart(chromium: Browser, picture: Path, tmp_path: Path) -> None:
    """No bar or dot leaves its row, whatever the effect."""
    from counterfactory.engine.judging.evaluation import Effects
    from counterfactory.engine.report.forest import draw_forest

    ends = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0), (-0.01, -1.0, 1.0), (0.0, 0.0, 0.0))
    types = tuple(Effect(f"t{i}", *values, 0.5, 0.5, 9, 9) for i, values in enumerate(ends))
    forest = draw_forest(Effects("control", None, types, (), (), (), ()))
    assert forest is not None
    write_page(album(picture), tmp_path / "page.html", text_of(forests=(forest,)))
    with opened(chromium, tmp_path / "page.html") as tab:
        inside = tab.locator(".effect .bar").evaluate_all(
            """all => all.map(bar => {
                const row = bar.closest('.plot').getBoundingClientRect(), box = bar.getBoundingClientRect();
                return box.left >= row.left - 1 && box.right <= row.right + 4 && box.width > 0;
            })"""
        )
        assert inside == [True] * 4


def test_nothing_but_the_pages_own_script_runs(chromium: Browser, picture: Path, tmp_path: Path) -> None:
    """Whatever a suite's text might come to one day: the page's policy is asked by a browser, not read."""
    (tmp_path / "evil.js").write_text("document.title = 'ran'")
    write_page(album(picture, 2), tmp_path / "page.html", text_of())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    evil = """<img src="x" onerror="document.title = 'ran'"><script>document.title = 'ran'</script>
        <script src="evil.js"></script><a id="link" href="javascript:document.title = 'ran'">x</a>
        <img id="far" src="http://127.0.0.1:9/x.png"></body>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", evil), encoding="utf-8")
    with opened(chromium, tmp_path / "page.html") as tab:
        stopped: list[str | None] = []
        tab.on("requestfailed", lambda request: stopped.append(request.failure))
        tab.reload()
        until(tab, "document.querySelectorAll('.strip').length === 2")
        tab.locator("#link").evaluate("link => link.click()")
        tab.wait_for_timeout(200)
        assert tab.title() != "ran"
        assert "csp" in stopped
