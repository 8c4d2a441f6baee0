"""Downloads over a stand-in of the hub: what is said, kept, gone on with and told; hub_cases.py has the table."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hub_cases
import pytest
from hub_stand_in import HubStandIn, look_there, served

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.published import Checkpoint
from counterfactory.export.graphs import download as module
from counterfactory.export.graphs.download import HubFile, download
from counterfactory.export.graphs.hub import fetch, locate, require_access

COMMIT = "c" * 40
LARGE = HubFile("owner/name", COMMIT, "model.safetensors")
SIZE = 12_000_000


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    folder = tmp_path / "hub" / "owner" / "name"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(250)) * (SIZE // 250))
    (folder / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None))
    with served(tmp_path / "hub", {"owner/name": COMMIT}) as made:
        look_there(made, tmp_path / "cache", monkeypatch)
        yield made


def patience(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of downloads, none of which is waited for."""
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append, time=lambda: 1_700_000_000.0, monotonic=lambda: 0.0)
    monkeypatch.setattr(module, "time", clock)
    return waits


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "0"}, 1),
        ({"Retry-After": " 12 "}, 13),
        ({"Retry-After": "Tue, 14 Nov 2023 22:14:20 GMT"}, 61),
        ({"Retry-After": "Tue, 14 Nov 2023 22:12:20 GMT"}, 1),  # that was
        ({"ratelimit": '"resolvers";r=0;t=55', "Retry-After": "9"}, 56),
        ({"ratelimit": '"resolvers";r=5;t=55', "Retry-After": "9"}, 10),
    ],
)
@pytest.mark.parametrize("where", ["status", "content"])
def test_a_hub_that_asks_for_patience_is_waited_for_aloud(
    where: str, headers: dict[str, str], wait_s: int, hub: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, lines = patience(monkeypatch), list[str]()
    hub.fault(**{"file": "model", where: 429, "headers": headers, "times": 2})
    assert download(LARGE, say=lines.append).stat().st_size == SIZE
    assert waits == [wait_s, wait_s]
    assert sum(f"the hub asks to wait {wait_s} s" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("said", "wait", "most"),
    [("3600", "3601 s", 0), ("0", "1 s", 900), ("299", "300 s", 3), ("soon", "some time", 0), ("-5", "some time", 0)],
)
def test_patience_has_an_end(said: str, wait: str, most: int, hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = patience(monkeypatch)
    hub.fault(file="model", status=429, headers={"Retry-After": said})
    with pytest.raises(CounterfactoryError, match=rf"wait {wait} \(429\); say the same command again") as caught:
        download(LARGE, say=lambda _: None)
    assert type(caught.value) is CounterfactoryError
    assert len(waits) == most
    hub.faults.clear()
    assert download(LARGE).stat().st_size == SIZE


# The profile with the fewest files in all ways, and one that fills the hub's cache in those that are about it.
QUICK = [
    *(("cpu", way) for way in hub_cases.WAYS),
    ("gpu", "full cache, no network"),
    ("gpu", "links that lead nowhere"),
]


@pytest.mark.parametrize(("profile", "way"), QUICK)
def test_each_way_of_failing_says_its_reason_and_loses_nothing(profile: str, way: str, tmp_path: Path) -> None:
    with hub_cases.hub_of_published(tmp_path) as work:
        assert hub_cases.tried(profile, way, work).wrong == ""


@pytest.mark.slow
def test_all_ways_of_failing_of_the_profile_with_most_files(tmp_path: Path) -> None:
    """The command of hub_cases.py tries all profiles."""
    for way in hub_cases.WAYS:
        with hub_cases.hub_of_published(tmp_path / way.replace("/", " ")) as work:
            assert hub_cases.tried("a10g", way, work).wrong == "", way


def test_the_cases_are_on_record() -> None:
    kept = json.loads((Path(__file__).parents[2] / "docs" / "a10g.json").read_text())
    assert (kept["hub_cases"], kept["hub_cases_wrong"]) == (len(hub_cases.PROFILES) * len(hub_cases.WAYS), 0)


def test_every_repository_that_a_profile_names_is_in_the_table() -> None:
    named = {
        source.partition("@")[0] for name in hub_cases.PROFILES for source in hub_cases.sources(load_profile(name))
    }
    assert named == hub_cases.PUBLISHED.keys()


# --- progress and parts ---


def test_a_line_for_each_percent_with_the_time_that_is_left(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)
    lines: list[str] = []
    path = download(LARGE, say=lines.append)
    assert path.stat().st_size == SIZE
    assert "owner/name: 0.01 GB to fetch" in lines[0]
    percents = [int(re.findall(r"(\d+) %", line)[0]) for line in lines[1:]]
    assert percents == list(range(1, 101))
    assert all(re.search(r"of 0\.01 GB, \d+ %, \d:\d\d:\d\d left$", line) for line in lines[1:-1])
    lines.clear()
    download(HubFile("owner/name", COMMIT, "config.json"), say=lines.append)
    assert len(lines) == 1


@pytest.mark.parametrize("local", [False, True])
def test_a_cut_file_goes_on_where_it_was_cut(
    hub: HubStandIn, local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as chunks of the client's go; it tries six times within one download."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 500_000)
    folder = tmp_path / "weights" if local else None
    hub.fault(file="model", cut=5_000_000, times=1)
    hub.fault(file="model", cut=0, times=6)
    with pytest.raises(CounterfactoryError, match=r"cannot be reached .* goes on from what there is"):
        download(LARGE, folder)
    hub.faults, hub.asked[:] = [], []
    lines: list[str] = []
    path = download(LARGE, folder, lines.append)
    assert path.read_bytes() == (hub.root / "owner/name/model.safetensors").read_bytes()
    starts = [int(range_.removeprefix("bytes=").partition("-")[0]) for _, _, range_ in hub.asked if range_]
    assert min(starts) > 4_000_000, "what there was is not asked for again"
    assert re.search(r"from [45]\.\d\d MB on$", lines[0])
    assert not list(tmp_path.rglob("*.part"))


def test_a_part_of_another_file_is_not_built_on(hub: HubStandIn) -> None:
    cache = Path(download(HubFile("owner/name", COMMIT, "config.json"))).resolve().parent
    digest = hashlib.sha256((hub.root / "owner/name/model.safetensors").read_bytes()).hexdigest()
    part = cache / f"{digest}.part"
    part.write_bytes(b"?" * 1000)
    with pytest.raises(CounterfactoryError, match="did not arrive as it was published"):
        download(LARGE)
    assert not part.exists()
    part.write_bytes(b"?" * (SIZE + 1))  # longer than the whole: begun anew
    assert download(LARGE).stat().st_size == SIZE


def test_two_commands_do_not_write_one_file(hub: HubStandIn, tmp_path: Path) -> None:
    folder = tmp_path / "weights" / "owner" / "name"
    folder.mkdir(parents=True)
    digest = hashlib.sha256((hub.root / "owner/name/model.safetensors").read_bytes()).hexdigest()
    with (folder / f"{digest}.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CounterfactoryError, match="another command fetches"):
            download(LARGE, tmp_path / "weights")


def test_a_token_goes_to_the_hub_and_not_to_the_host_of_its_content(
    hub: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    download(LARGE)
    assert hub.tokens == []


def test_what_is_here_is_not_asked_for(hub: HubStandIn) -> None:
    """Also of forms that are looked for last, and where the cache has no marks of what the hub lacks."""
    locate(f"owner/name@{COMMIT}", part="unet")
    hub.asked.clear()
    assert locate(f"owner/name@{COMMIT}", part="unet").is_dir()
    assert hub.asked == []


def test_files_that_the_exporter_chooses_among_are_its_own(hub: HubStandIn, tmp_path: Path) -> None:
    fetch(Checkpoint("owner/name", COMMIT, "MIT", {"model-*-of-*.safetensors": 3}), tmp_path, pytest.fail)
    assert hub.asked == []


def test_access_is_not_asked_of_a_hub_that_does_not_answer(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unreachable(_: Any, repository: str) -> None:
        asked.append(repository)
        raise ConnectionError("no network")

    sources = [f"owner/name@{COMMIT}", f"other/one@{COMMIT}", f"other/two@{COMMIT}"]
    require_access([sources[0]])
    with pytest.raises(CounterfactoryError, match="accept its terms"):
        require_access(sources)  # the stand-in knows no other
    monkeypatch.setattr("huggingface_hub.hf_api.HfApi.auth_check", unreachable)
    require_access(sources)
    assert asked == ["owner/name"], "nobody waits for each of them"
    download(HubFile("owner/name", COMMIT, "config.json"))
    asked.clear()
    require_access(sources[:1])
    assert asked == [], "who has something of it had access"


def test_what_is_told_says_nothing_of_libraries() -> None:
    assert "Error" not in module._reason(ConnectionError("reset"), {"ConnectionError"}, LARGE)
