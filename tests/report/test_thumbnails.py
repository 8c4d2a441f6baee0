"""The page of large photographs shows small copies, and opens the pictures."""

from __future__ import annotations

import os
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_pages import Reader, frame, strip

import counterfactory as cf
from counterfactory.engine.report.thumbnails import draw_thumbnails, embed_pictures


def test_large_pictures_are_shown_small_and_opened_whole(tmp_path: Path) -> None:
    gradient = np.linspace(0, 255, 900 * 1200 * 3).reshape(900, 1200, 3).astype(np.uint8)
    for name, size in (("large", (1200, 900)), ("small", (320, 240))):
        path = tmp_path / "photos" / "dog" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(gradient).resize(size).save(path)
    suite = cf.generate(tmp_path / "photos", out=tmp_path / "suite", profile="light", variants=1, warn=lambda _: None)
    files = suite.report(warn=lambda _: None)
    strips = Reader(files.page.read_text()).strips
    links = [shown["image"] for one in strips for shown in (one, *one["frames"])]
    assert [one["control"] for one in strips] == [None, None]
    assert len(links) == 4
    for shown, opened in (link if len(link) > 1 else link * 2 for link in links):
        assert (files.page.parent / opened).is_file()
        if "/large/" in opened:
            assert shown.startswith("thumbnails/")
            copy, whole = Image.open(files.page.parent / shown), Image.open(files.page.parent / opened)
            assert max(copy.size) == 480
            assert np.abs(np.asarray(copy).mean((0, 1)) - np.asarray(whole).mean((0, 1))).max() < 3
        else:
            assert shown == opened


@pytest.mark.slow
def test_embedded_pictures_are_small_whole_and_fit_a_mail(tmp_path: Path) -> None:
    album = []
    for g in range(30):
        path = tmp_path / f"{g}.png"
        Image.effect_noise((400, 300), 80).convert("RGB").save(path)
        album.append(strip(frame(path), name=str(g)))
    chosen, addresses = embed_pictures(album)
    assert [one.name for one in chosen] == [str(g) for g in range(30)]
    kind, _, coded = addresses[album[7].image].partition(";base64,")
    assert kind == "data:image/webp"
    small = Image.open(BytesIO(b64decode(coded, validate=True)))
    assert (small.format, small.size) == ("WEBP", (256, 192))
    size = sum(map(len, addresses.values()))
    some, fitting = embed_pictures(album, most=size // 3)
    assert sum(map(len, fitting.values())) <= size // 3
    assert 8 <= len(some) <= 10
    assert (some[0].name, some[-1].name) == ("0", "29")
    assert {path for one in some for path in one.files} == fitting.keys()


def test_what_is_no_picture_is_empty_in_a_page_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    chosen, addresses = embed_pictures([strip(frame(tmp_path / "a.png"), edges=tmp_path / "missing.png")])
    assert len(chosen) == 1
    assert set(addresses.values()) == {"data:,"}


def test_small_copies_stay_until_their_picture_changes(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    path = tmp_path / "images" / "a.png"
    Image.new("RGB", (900, 600), (9, 9, 9)).save(path)
    (copy,) = draw_thumbnails([strip(frame(path))], tmp_path, tmp_path / "small", tmp_path).values()
    copy.write_bytes(b"kept")
    os.utime(path, ns=(0, 0))
    assert list(draw_thumbnails([strip(frame(path))], tmp_path, tmp_path / "small", tmp_path).values()) == [copy]
    assert copy.read_bytes() == b"kept"
    os.utime(copy, ns=(0, 0))
    draw_thumbnails([strip(frame(path))], tmp_path, tmp_path / "small", tmp_path)
    assert Image.open(copy).size == (480, 320)
