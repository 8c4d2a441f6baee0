"""Parts in an object store: S3 by moto's server on this machine, and another file system of fsspec."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from light_sets import make_suite, photographs
from refusing import refusal
from stand_in_ray import StandInRay
from test_travelling_shards import on_boxes

from counterfactory.engine.cluster import parts
from counterfactory.engine.sources.data_set import SetOptions, read_set


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a store that speaks S3."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    words = {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": "testing", "DEFAULT_REGION": "us-east-1"}
    for name, value in (words | {"ENDPOINT_URL": f"http://{host}:{port}"}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.filesystem("s3", skip_instance_cache=True).makedirs("parts", exist_ok=True)
    yield "s3://parts/run"
    fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


@pytest.mark.slow
def test_parts_go_through_a_bucket(bucket: str, tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(4))
    one = make_suite(photos, tmp_path / "one")
    seen = set[str]()

    class Looking(StandInRay):
        def get(self, call: Any) -> Any:
            answer = super().get(call)
            seen.update(parts.open_place(bucket).names())
            return answer

    many = on_boxes(Looking(random.Random(0)), photos, tmp_path / "many", parts=bucket)
    assert many.digest == one.digest
    assert len(seen) == 4
    assert fsspec.filesystem("s3").find("parts") == []
    assert not (tmp_path / "many" / "parts").exists()


@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_a_sentence(bucket: str, tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(2))
    with refusal(r"s3://nobody/run cannot be used \(.*\): see that the address") as refused:
        on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite", parts="s3://nobody/run")
    assert "\n" not in str(refused.value)


def test_another_file_system_holds_parts_too(tmp_path: Path) -> None:
    place = parts.open_place(f"file://{tmp_path}/store")
    name = f"{'0' * 64}-{'1' * 16}.part"
    (tmp_path / "data").write_bytes(b"x" * 100)
    place.put(name, tmp_path / "data")
    place.put("driver-1", tmp_path / "data")
    assert place.names() == {name}
    with place.fetched(name) as path:
        assert path.read_bytes() == b"x" * 100
    place.remove(name)
    place.remove(name)
    assert place.names() == set()
    with pytest.raises(FileNotFoundError), place.fetched(name):
        pass


def test_what_is_not_there_or_unknown_by_an_url_is_a_sentence(tmp_path: Path) -> None:
    with refusal("nothing://x cannot be used"):
        parts.open_place("nothing://x")
    for url, sentence in (
        (f"file://{tmp_path}/none", "no images found"),
        ("nothing://x", "nothing://x cannot be read"),
    ):
        with refusal(sentence):
            read_set(url, SetOptions())
    with refusal(r"leave --masks .* out"):
        read_set("s3://x/y", SetOptions(masks=tmp_path))


@pytest.mark.slow
def test_photographs_of_a_bucket_are_those_of_a_folder(bucket: str, tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(4))
    store = fsspec.filesystem("s3")
    store.put(str(photos), "parts/photos", recursive=True)
    one = make_suite(photos, tmp_path / "one")
    assert make_suite("s3://parts/photos", tmp_path / "bucket").digest == one.digest  # type: ignore[arg-type]
    many = on_boxes(StandInRay(random.Random(0)), "s3://parts/photos", tmp_path / "many", parts=bucket)  # type: ignore[arg-type]
    assert many.digest == one.digest


def test_photographs_of_another_file_system_are_those_of_a_folder(tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(4))
    (photos / "a" / "notes.txt").write_text("no picture")
    (photos / "a" / ".hidden.png").write_bytes(b"")
    (photos / "b" / "0009.heic").write_bytes(b"")
    by_path = read_set(str(photos), SetOptions())
    by_url = read_set(f"file://{photos}", SetOptions())
    assert [source.key for source in by_url.sources] == [source.key for source in by_path.sources]
    assert [(source.name, source.file, source.label) for source in by_url.sources] == [
        (source.name, source.file, source.label) for source in by_path.sources
    ]
    assert [problem.name for problem in by_url.problems] == ["b/0009.heic"]
