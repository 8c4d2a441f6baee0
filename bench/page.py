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
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import bench_parser, finish, keep_figures, show
from PIL import Image
from simulated_suites import classes_suite

from counterfactory.engine.suite import Painting
from counterfactory.engine.suite.metadata import write_table
from counterfactory.engine.suite.row_spool import RowSpool

_ROOT = Path(__file__).parents[1]
_PAINTING = Painting(seed=0, steps=1, guidance_scale=1, guidance_start=0, guidance_stop=1)
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
    """Make, report, open, scroll."""
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
        command = [sys.executable, "-m", "counterfactory.engine", "report", suite, "--predictions", answers]
        took, peak = _run([*command, "--limit", str(sources), "--profile", "pocket"])
        figures: dict[str, Any] = {"report_s": round(took, 1), "report_peak_mb": round(peak)}
        figures |= open_page(suite / "report" / "index.html")
    named = {f"{name}_{asked.variants // 1000}k": value for name, value in figures.items()}
    show("The page", ("figure", "value"), tuple((name, str(value)) for name, value in named.items()))
    if asked.write:
        keep_figures(_ROOT / "docs" / "evaluation.json", named)
    finish("the page of a large suite", **named)


def make_suite(suite: Path, sources: int) -> Path:
    """Write a suite of so many sources, and a table of a model's answers, of which the path is returned."""
    rows, answers = classes_suite(20, sources)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 60, (_PICTURES, _SIDE, _SIDE, 3), np.uint8)
    pictures = [Image.fromarray(noise[k] + np.uint8(rng.integers(0, 190))) for k in range(_PICTURES)]
    suite.mkdir(parents=True, exist_ok=True)
    for k, picture in enumerate(pictures):
        picture.save(suite / f"{k}.png")
    lines = ["image,prediction"]
    with RowSpool(suite) as spool, (suite / "metadata.parquet").open("wb") as file:
        for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            top = "originals" if row.kind == "original" else "images"
            name, original = f"{top}/{row.file_name}", f"originals/{row.original}"
            control = None if row.control is None else f"images/{row.control}"
            painted = None if row.kind == "original" else _PAINTING
            scores = {} if row.kind == "original" else {"edit": float(rng.random()), "valid": float(rng.random())}
            spool.add(replace(row, file_name=name, original=original, control=control, painting=painted, scores=scores))
            (suite / name).parent.mkdir(parents=True, exist_ok=True)
            (suite / name).unlink(missing_ok=True)
            (suite / name).hardlink_to(suite / f"{i % _PICTURES}.png")
            lines.append(f"{name},{answer}")
        write_table(spool, spool.score_names, file)
    (suite / "answers.csv").write_text("\n".join(lines))
    return suite / "answers.csv"


def _run(command: list[str | Path]) -> tuple[float, float]:
    """Seconds of one core that a command takes, and its memory at most, in MB."""
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def open_page(page: Path) -> dict[str, Any]:
    """When the first picture is there, the longest tasks until then and while all is scrolled through, in ms."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900}, bypass_csp=True)
        tab.add_init_script(_WATCH)
        began = time.perf_counter()
        tab.goto(page.resolve().as_uri(), wait_until="commit")
        tab.wait_for_function(_DRAWN)
        opened = 1000 * (time.perf_counter() - began)
        tab.wait_for_function("frames.length === start.variants", timeout=300_000)
        tab.wait_for_timeout(1000)
        loading = tab.evaluate("window.tasks.splice(0)")
        tab.evaluate("document.querySelector('#more').click()")
        tab.mouse.move(640, 450)
        while tab.evaluate(f"drawn < Math.min(chosen.length, {_SCROLLED})"):
            for _ in range(10):
                tab.mouse.wheel(0, 3000)
                tab.wait_for_timeout(30)
        drawn = tab.evaluate("drawn")
        scrolling = tab.evaluate("window.tasks.splice(0)")
        tab.evaluate("location.hash = '#answer=wrong'")
        tab.wait_for_timeout(1500)
        filtering = tab.evaluate("window.tasks.splice(0)")
        heap = tab.evaluate("performance.memory.usedJSHeapSize / 1e6")
        browser.close()
    return {
        "page_first_view_ms": round(opened),
        "page_longest_task_loading_ms": round(max(loading, default=0)),
        "page_longest_task_scrolling_ms": round(max(scrolling, default=0)),
        "page_longest_task_filter_ms": round(max(filtering, default=0)),
        "page_sources_scrolled": drawn,
        "page_heap_mb": round(heap),
    }


def _draw_readme(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 1560}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_load_state("networkidle")
        tab.wait_for_timeout(500)
        picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        browser.close()
    picture.thumbnail((900, 10_000), Image.Resampling.LANCZOS)
    picture.save(_ROOT / "docs" / "report.webp", quality=72, method=6)


if __name__ == "__main__":
    main()
