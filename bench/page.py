"""Claim: the page of 10,000 variants is made within 30 s of one core and 500 MB, and opens within 2 s in Chromium.

    python bench/page.py [--variants N] [--write] [--keep DIR]

A suite of five variants a source, of 128 pixels, with a control and an original each, is written, with a table of
answers. `report` runs over it as a command of its own. Then Chromium (`chromium` of the PATH, driven by Playwright)
opens the page from the disk, scrolls through 2,000 sources, and says when the first view was drawn, with pictures, and
which of its tasks took longer than 50 ms. `--write` puts the figures into docs/evaluation.json.
`--readme PAGE` draws the demo's into docs/report.webp instead.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measure import CLI, DOCS, bench_parser, finish, run_command, show
from PIL import Image
from simulated_suites import classes_suite, stored, write_rows

from counterfactory.engine.suite import PictureRow

_SIDE, _PICTURES = 128, 97
_VARIANTS = 5
# Sources that are scrolled through.
_SCROLLED = 2000
# What Chromium tells of itself: every task of more than 50 ms.
_WATCH = """
window.tasks = [];
const keep = list => window.tasks.push(...list.getEntries().map(one => one.duration));
new PerformanceObserver(keep).observe({type: "longtask", buffered: true});
"""
_DRAWN = (
    "document.readyState === 'complete' && drawn > 0 && performance.getEntriesByName('first-contentful-paint').length"
)


def main() -> None:
    parser = bench_parser(__doc__, write="docs/evaluation.json")
    parser.add_argument("--variants", type=int, default=10_000, metavar="N", help="variants in all (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a folder that is to hold the suite afterwards")
    parser.add_argument("--readme", type=Path, metavar="PAGE", help="draw docs/report.webp of the demo's page instead")
    asked = parser.parse_args()
    if asked.readme:
        _draw_readme(asked.readme)
        return
    with tempfile.TemporaryDirectory() as temporary:
        suite = (asked.keep or Path(temporary)) / f"suite-{asked.variants}"
        sources = asked.variants // _VARIANTS
        answers = make_suite(suite, sources)
        command = [*CLI, "report", suite, "--predictions", answers, "--limit", str(sources), "--profile", "pocket"]
        used = run_command(command)[1]
        figures: dict[str, Any] = {"report_s": round(used.ru_utime + used.ru_stime, 1)}
        figures["report_peak_mb"] = round(used.ru_maxrss * 1024 / 1e6)
        figures |= open_page(suite / "report" / "index.html")
    named = {f"{name}_{asked.variants // 1000}k": value for name, value in figures.items()}
    show("The page", ("figure", "value"), tuple((name, str(value)) for name, value in named.items()))
    finish("the page of a large suite", into=asked.write and DOCS / "evaluation.json", **named)


def make_suite(suite: Path, sources: int) -> Path:
    """Write a suite of so many sources, and a table of a model's answers, of which the path is returned."""
    rows, answers = classes_suite(20, sources)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 60, (_PICTURES, _SIDE, _SIDE, 3), np.uint8)
    pictures = [Image.fromarray(noise[k] + np.uint8(rng.integers(0, 190))) for k in range(_PICTURES)]
    suite.mkdir(parents=True, exist_ok=True)
    for k, picture in enumerate(pictures):
        picture.save(suite / f"{k}.png")
    lines, made = ["image,prediction"], list[PictureRow]()
    for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        scores = {} if row.kind == "original" else {"edit": float(rng.random()), "valid": float(rng.random())}
        made.append(stored(row, scores=scores))
        path = suite / made[-1].file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.hardlink_to(suite / f"{i % _PICTURES}.png")
        lines.append(f"{made[-1].file_name},{answer}")
    write_rows(suite, made)
    (suite / "answers.csv").write_text("\n".join(lines))
    return suite / "answers.csv"


@contextmanager
def chromium(height: int, **how: Any) -> Iterator[Any]:
    """A tab of Chromium, so many pixels high."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": height}, **how)
        yield tab
        browser.close()


def open_page(page: Path) -> dict[str, Any]:
    """When the first picture is there, the longest tasks until then and while all is scrolled through, in ms."""
    longest = "Math.max(0, ...window.tasks.splice(0))"
    with chromium(900, bypass_csp=True) as tab:
        tab.add_init_script(_WATCH)
        began = time.perf_counter()
        tab.goto(page.resolve().as_uri(), wait_until="commit")
        tab.wait_for_function(_DRAWN)
        figures = {"page_first_view_ms": 1000 * (time.perf_counter() - began)}
        tab.wait_for_function("frames.length === start.variants", timeout=300_000)
        tab.wait_for_timeout(1000)
        figures["page_longest_task_loading_ms"] = tab.evaluate(longest)
        tab.evaluate("document.querySelector('#more').click()")
        tab.mouse.move(640, 450)
        while tab.evaluate(f"drawn < Math.min(chosen.length, {_SCROLLED})"):
            for _ in range(10):
                tab.mouse.wheel(0, 3000)
                tab.wait_for_timeout(30)
        figures["page_sources_scrolled"] = tab.evaluate("drawn")
        figures["page_longest_task_scrolling_ms"] = tab.evaluate(longest)
        tab.evaluate("location.hash = '#answer=wrong'")
        tab.wait_for_timeout(1500)
        figures["page_longest_task_filter_ms"] = tab.evaluate(longest)
        figures["page_heap_mb"] = tab.evaluate("performance.memory.usedJSHeapSize / 1e6")
    return {name: round(value) for name, value in figures.items()}


def _draw_readme(page: Path) -> None:
    with chromium(1560, color_scheme="light") as tab:
        tab.goto(page.resolve().as_uri())
        tab.wait_for_load_state("networkidle")
        tab.wait_for_timeout(500)
        picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    picture.thumbnail((900, 10_000), Image.Resampling.LANCZOS)
    picture.save(DOCS / "report.webp", quality=72, method=6)


if __name__ == "__main__":
    main()
