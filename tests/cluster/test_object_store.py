"""Parts in an object store: S3 by moto's server on this machine, and another file system of fsspec."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from light_sets import make_suite, photographs
from stand_in_ray import StandInRay
from test_travelling_shards import on_boxes

from counterfactory.engine.cluster import parts
from counterfactory.engine.errors import CounterfactoryError


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a store that speaks S3."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
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
    with pytest.raises(
        CounterfactoryError, match=r"s3://nobody/run cannot be used \(.*\): see that the address"
    ) as refused:
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


def test_an_unknown_kind_of_store_is_a_sentence() -> None:
    with pytest.raises(CounterfactoryError, match="nothing://x cannot be used"):
        parts.open_place("nothing://x")
