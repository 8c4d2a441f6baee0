"""OpenAI's image edits: the form that goes out, the answers that come, and pictures that are none."""

from __future__ import annotations

import base64
import json
import re
import struct
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Answer, Asked, Reply, file_of, json_reply, pixels_of, serving
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.server import ServerSettings
from counterfactory.engine.server.client import SEEDS, PaintClient, SamePictureError, open_client, seed_of
from counterfactory.engine.server.exchange import PictureRefusedError, ServerBusyError, ServerGoneError

SETTINGS = ServerSettings("http://127.0.0.1:1", "openai", 64, 16, 30.0, 0, 2, model="klein")
RANDOM = np.random.default_rng(7)
# Something with structure and detail, 48 x 64.
LIGHT = np.linspace(30, 200, 64)[None, :, None] + RANDOM.normal(0, 12, (48, 64, 3)) + np.eye(48, 64)[:, :, None] * 60
PICTURE = LIGHT.clip(0, 255).astype(np.uint8)
OTHER = (255 - PICTURE).astype(np.uint8)


def client(address: str, waits: list[float] | None = None, **changes: Any) -> PaintClient:
    waits = [] if waits is None else waits
    return open_client(replace(SETTINGS, address=address, **changes), waits.append)


def of(picture: NDArray[np.uint8], format_: str = "PNG", **options: Any) -> Reply:
    """The answer with a picture."""
    return json_reply({"data": [{"b64_json": base64.b64encode(file_of(picture, format_, **options)).decode()}]})


def painting(answer: Callable[[Asked], Answer], picture: NDArray[np.uint8] = PICTURE, **changes: Any) -> Any:
    with serving(answer) as served:
        return client(served.address, **changes).paint(picture, "Make it foggy.", 5)


def refusal(answer: Callable[[Asked], Answer], **changes: Any) -> str:
    """The sentence that a picture is refused with, after the address."""
    with pytest.raises(PictureRefusedError) as refused:
        painting(answer, **changes)
    said = str(refused.value)
    assert said.isprintable()
    assert re.match(r"http://127\.0\.0\.1:\d+ ", said)
    return said.partition(" ")[2]


def test_a_picture_goes_out_and_an_edited_one_comes_back() -> None:
    with serving(lambda _: of(OTHER)) as served:
        painted = client(served.address).paint(PICTURE, "Make it night – now.", 77)
    np.testing.assert_array_equal(painted, OTHER)
    (asked,) = served.asked
    assert (asked.method, asked.path) == ("POST", "/v1/images/edits")
    told = {"model": "klein", "prompt": "Make it night – now.", "n": "1", "size": "64x48"}
    assert asked.text == told | {"response_format": "b64_json", "seed": "77"}
    np.testing.assert_array_equal(pixels_of(asked.form["image"]), PICTURE)


def test_fields_are_added_changed_and_left_out() -> None:
    fields = {"num_inference_steps": "4", "size": "auto", "response_format": "", "seed": ""}
    with serving(lambda _: of(OTHER)) as served:
        client(served.address, fields=fields).paint(PICTURE, "Make it night.", 77)
    text = served.asked[0].text
    assert text == {"model": "klein", "prompt": "Make it night.", "n": "1", "num_inference_steps": "4", "size": "auto"}


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/openai/v2"])
def test_an_address_may_end_in_v1_or_have_another_path(path: str) -> None:
    with serving(lambda _: of(OTHER)) as served:
        client(served.address + path).paint(PICTURE, "Make it night.", 77)
    assert served.asked[0].path == f"{'/openai/v2' if 'openai' in path else '/v1'}/images/edits"


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "WEBP"])
def test_three_kinds_of_files_are_read(format_: str) -> None:
    painted = painting(lambda _: of(OTHER, format_))
    assert np.abs(painted.astype(int) - OTHER).mean() < 12


@pytest.mark.parametrize("absolute", [False, True])
def test_a_picture_may_lie_on_the_same_server(absolute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PICTURES_KEY", "abc")
    address = [""]

    def answer(asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply(file_of(OTHER), kind="image/png")
        return json_reply({"data": [{"url": f"{address[0] if absolute else ''}/v1/images/1/a b?c=d e&f=ä"}]})

    with serving(answer) as served:
        address[0] = served.address
        np.testing.assert_array_equal(client(served.address, key_env="PICTURES_KEY").paint(PICTURE, "Now.", 1), OTHER)
    assert served.asked[1].path == "/v1/images/1/a%20b?c=d%20e&f=%C3%A4"
    assert served.asked[1].headers["Authorization"] == "Bearer abc"


def test_a_picture_may_come_as_a_file_or_in_a_url() -> None:
    url = f"data:image/png;base64,{base64.b64encode(file_of(OTHER)).decode()}"
    for reply in (Reply(file_of(OTHER), kind="image/png"), json_reply({"data": [{"url": url}]})):
        np.testing.assert_array_equal(painting(lambda _, reply=reply: reply), OTHER)


@pytest.mark.parametrize(
    "url", ["{}/a.png", "//{}/a.png", "file:///etc/passwd", "http://[", "http://\ud800", "ftp://h/a", "http://a@b/"]
)
def test_no_other_server_is_asked(url: str) -> None:
    with serving(lambda _: Reply(file_of(OTHER), kind="image/png")) as other:
        there = url.format(other.address if url.startswith("{}") else other.address.removeprefix("http://"))
        said = refusal(lambda _: json_reply({"data": [{"url": there}]}))
    assert said.startswith("names a picture at ")
    assert said.endswith(', and no other server is asked: have it answer "b64_json"')
    assert not other.asked


@pytest.mark.parametrize("url", ["/a.png", "/\ud800\n.png"])
def test_a_picture_that_is_not_there_costs_itself(url: str) -> None:
    said = refusal(
        lambda asked: json_reply({"data": [{"url": url}]}) if asked.method == "POST" else Reply(b"", status=404)
    )
    assert said == "answered status 404 (application/json): nothing"


def bomb() -> bytes:
    """A small PNG file that says it is 60,000 pixels a side."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(10**6))
    chunks = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (head, data, b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"<p>Hello</p>", kind="text/html"), "answered status 200 (text/html): Hello, which is no JSON"),
        (Reply(b"{", kind="application/json"), "answered status 200 (application/json): {, which is no JSON"),
        (Reply(b"[" * 10**5), f"answered status 200 (application/json): {'[' * 160}..., which is no JSON"),
        (Reply(b""), "answered status 200 (application/json): nothing, which is no JSON"),
        (Reply(b"", 204), "answered status 204 (application/json): nothing, which is no JSON"),
        (json_reply({"data": []}), 'answered status 200 (application/json): {"data": []}, without a picture'),
        (json_reply([1]), "answered status 200 (application/json): [1], without a picture"),
        (json_reply({"error": "busy"}), "answered status 200 (application/json): busy, without a picture"),
        (json_reply({"data": [{"b64_json": ""}]}), None),
        (json_reply({"data": [{"b64_json": None, "url": None}]}), None),
        (json_reply({"data": [{"b64_json": "no base"}]}), "answered a b64_json that is no base64"),
        (json_reply({"data": [{"b64_json": "äöü="}]}), "answered a b64_json that is no base64"),
        (json_reply({"data": [{"b64_json": "ab*cd"}]}), "answered a b64_json that is no base64"),
        (json_reply({"data": [{"b64_json": "\ud800"}]}), "answered a b64_json that is no base64"),
        (json_reply({"error": "\ud800busy"}), "answered status 200 (application/json): busy, without a picture"),
        (Reply(b'{"data": []}', kind="text/html"), 'answered status 200 (text/html): {"data": []}, which is no JSON'),
        (Reply(b"GIF89a", kind="image/gif"), "answered no picture in PNG, JPEG or WebP: GIF89a"),
        (Reply(b"<svg/>no", kind="image/svg+xml"), "answered no picture in PNG, JPEG or WebP: no"),
        (Reply(b"", kind="image/png"), "answered no picture in PNG, JPEG or WebP: nothing"),
        (Reply(file_of(OTHER)[:-900], kind="image/png"), None),
        (Reply(b"RIFF1234WAVE", kind="image/webp"), None),
        (Reply(bomb(), kind="image/png"), None),
    ],
)
def test_what_is_no_picture_is_refused_in_one_sentence(reply: Reply, said: str | None) -> None:
    refused = refusal(lambda _: reply)
    assert refused == said if said else re.match("answered (a picture that cannot be used: |status 200)", refused)


def failure_of(painter: PaintClient) -> CounterfactoryError | None:
    """What a picture ends in; None where it comes."""
    try:
        painter.paint(PICTURE, "Now.", 1)
    except CounterfactoryError as failure:
        return failure
    return None


KEYS = ("data", "b64_json", "url", "error", "message", "detail", "a")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.just(base64.b64encode(file_of(OTHER)).decode()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


def test_any_answer_is_a_picture_or_one_sentence() -> None:
    body = [b""]
    with serving(lambda asked: Reply(body[0])) as served:
        painter = client(served.address)

        @given(st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode()))
        def ask(answer: bytes) -> None:
            body[0] = answer
            failure = failure_of(painter)
            assert failure is None or (isinstance(failure, PictureRefusedError) and str(failure).isprintable())

        ask()


@pytest.mark.parametrize("size", [(96, 128), (24, 32), (47, 64), (100, 128)])
def test_another_size_of_the_same_shape_is_scaled_back(size: tuple[int, int]) -> None:
    rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
    large = np.dstack([rows * 255 // size[0], columns * 255 // size[1], rows * 0]).astype(np.uint8)
    painted = painting(lambda _: of(large))
    assert painted.shape == PICTURE.shape
    assert painted.dtype == np.uint8
    # A place in the answer is that place in the picture, half a pixel of the answer apart.
    rows, columns = np.mgrid[0:48, 0:64]
    np.testing.assert_allclose(painted[:, :, 0], ((rows + 0.5) / 48 - 0.5 / size[0]) * 255, atol=4)
    np.testing.assert_allclose(painted[:, :, 1], ((columns + 0.5) / 64 - 0.5 / size[1]) * 255, atol=4)


@pytest.mark.parametrize("size", [(64, 64), (64, 48), (128, 128)])
def test_another_shape_is_refused(size: tuple[int, int]) -> None:
    said = refusal(lambda _: of(np.zeros((*size, 3), np.uint8)))
    shape = f"answered {size[1]} x {size[0]} pixels to 64 x 48, another shape: have it keep the size that it is sent"
    assert said == shape


def test_a_shape_is_held_to_the_multiple() -> None:
    wide = of(np.zeros((48, 66, 3), np.uint8))
    painting(lambda _: wide, multiple=16)
    assert "another shape" in refusal(lambda _: wide, multiple=1)


def test_a_large_picture_goes_out_smaller_and_comes_back_whole() -> None:
    large = np.repeat(np.repeat(PICTURE, 3, 0), 3, 1)[:140]
    with serving(lambda asked: of((255 - pixels_of(asked.form["image"])).astype(np.uint8))) as served:
        painted = client(served.address).paint(large, "Invert it.", 5)
    assert served.asked[0].text["size"] == "64x48"
    assert painted.shape == large.shape
    np.testing.assert_allclose(painted.mean(), 255 - large.mean(), atol=2)


@pytest.mark.parametrize(("format_", "quality"), [("PNG", 100), ("JPEG", 75), ("JPEG", 95), ("WEBP", 80)])
def test_the_same_picture_back_is_no_edit(format_: str, quality: int) -> None:
    with pytest.raises(SamePictureError, match=r"^http\S* returned the picture that it was sent$") as same:
        painting(lambda asked: of(pixels_of(asked.form["image"]), format_, quality=quality))
    assert same.value.picture.shape == PICTURE.shape
    assert np.abs(same.value.picture.astype(int) - PICTURE).mean() < 12


# Edges at all places of the blocks of a file and of the comparison, in black and white and in colours.
DISC = ((np.indices((48, 64)) - [[[24]], [[30]]]) ** 2).sum(0)[:, :, None]
EDGES = np.where(DISC < 300, (255, 255, 255), 0).astype(np.uint8)
COLOURS = np.where(DISC // 60 % 2 > 0, (200, 40, 30), (20, 60, 190)).astype(np.uint8)


@pytest.mark.parametrize("picture", [EDGES, COLOURS], ids=["edges", "colours"])
@pytest.mark.parametrize("size", [(72, 96), (24, 32), (47, 64)])
def test_the_same_picture_at_another_size_is_no_edit(size: tuple[int, int], picture: NDArray[np.uint8]) -> None:
    scaled = np.array(Image.fromarray(picture).resize(size[::-1], Image.Resampling.LANCZOS))
    with pytest.raises(SamePictureError):
        painting(lambda _: of(scaled), picture)


@pytest.mark.parametrize("picture", [EDGES, COLOURS], ids=["edges", "colours"])
def test_edges_blurred_by_a_file_are_no_edit(picture: NDArray[np.uint8]) -> None:
    with pytest.raises(SamePictureError):
        painting(lambda _: of(picture, "JPEG", quality=75), picture)


GREY, SPOT = np.full((48, 64, 3), 100, np.uint8), PICTURE.copy()
SPOT[20:30, 30:40] //= 2
TINTED = (GREY + np.array([28, -9, -28], np.int16)).astype(np.uint8)  # 0.299 R + 0.587 G + 0.114 B stays


@pytest.mark.parametrize(("before", "after"), [(GREY, GREY + 8), (GREY, TINTED), (PICTURE, SPOT)])
def test_a_little_more_light_another_colour_and_a_small_change_are_edits(before: Any, after: Any) -> None:
    np.testing.assert_array_equal(painting(lambda _: of(after), before), after)


def test_pictures_that_take_too_long_end_the_run_when_they_follow_each_other() -> None:
    with serving(lambda _: None) as served:
        painter = client(served.address, timeout_s=0.1, retries=2)
        for _ in range(2):
            with pytest.raises(ServerBusyError, match=r"took more than timeout_s = 0.1 seconds$"):
                painter.paint(PICTURE, "Now.", 1)
        with pytest.raises(ServerGoneError, match=r"seconds, 3 pictures in a row: lower parallel, or raise timeout_s$"):
            painter.paint(PICTURE, "Now.", 1)
    assert len(served.asked) == 3


def test_a_picture_or_a_refusal_in_between_shows_that_the_server_is_there() -> None:
    between, busy = iter([503, 503, 200, 503, 503, 400, 503, 503, 503]), ServerBusyError
    with serving(lambda _: of(OTHER) if (status := next(between)) == 200 else json_reply({}, status)) as served:
        painter = client(served.address)
        ends = [type(failure_of(painter)) for _ in range(9)]
    assert ends == [busy, busy, type(None), busy, busy, PictureRefusedError, busy, busy, ServerGoneError]


def test_threads_get_their_own_pictures() -> None:
    together = threading.Barrier(4)

    def answer(asked: Asked) -> Reply:
        together.wait()
        return of(np.full_like(PICTURE, int(asked.text["seed"])))

    with serving(answer) as served, ThreadPoolExecutor(4) as pool:
        painter = client(served.address)
        painted = pool.map(lambda seed: painter.paint(PICTURE, "Now.", seed), range(10, 14))
        assert [int(picture.max()) for picture in painted] == [10, 11, 12, 13]
        painter.close()


def test_seeds_belong_to_keys() -> None:
    seeds = [seed_of(f"key {number}") for number in range(1000)]
    assert seeds == [seed_of(f"key {number}") for number in range(1000)]
    assert len(set(seeds)) > 990
    assert min(seeds) >= 0
    assert SEEDS / 2 < max(seeds) < SEEDS


def test_a_missing_key_is_an_error_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PICTURES_KEY", raising=False)
    with pytest.raises(CounterfactoryError, match="PICTURES_KEY"):
        client("http://127.0.0.1:1", key_env="PICTURES_KEY")
