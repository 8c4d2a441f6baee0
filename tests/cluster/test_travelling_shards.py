"""Shards on many boxes, without Ray's processes: whatever order, deaths and damage, the bytes are those of one box."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from light_sets import make_suite, photographs
from refusing import refusal
from stand_in_ray import StandInRay

from counterfactory.engine import journey
from counterfactory.engine.api.finished import FinishedSuite
from counterfactory.engine.cluster import ray_boxes, worker
from counterfactory.engine.cluster.parts import Part, PartError, open_place
from counterfactory.engine.cluster.worker import ShardWorker, WorkOrder, packed
from counterfactory.engine.models.library import Library
from counterfactory.engine.packages import release
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.suite import Suite, read_run
from counterfactory.engine.suite.status import read_status
from counterfactory.engine.suite.verify import verify_suite

Warnings = list[str]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photographs(tmp_path_factory.mktemp("photos"), range(6))


@pytest.fixture(scope="module")
def one_box(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedSuite:
    return make_suite(photos, tmp_path_factory.mktemp("one") / "suite")


@pytest.fixture(autouse=True)
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers keep what they need."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(worker.tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def on_boxes(
    ray: StandInRay, photos: Path, out: Path, warnings: Warnings | None = None, **options: Any
) -> FinishedSuite:
    """A suite that workers make, a source a shard."""
    heard = [] if warnings is None else warnings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_boxes, "connected", ray.connected)
        return make_suite(photos, out, ray="auto", shard=1, warn=heard.append, **options)


@pytest.mark.slow
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 4), st.sets(st.integers(1, 9), max_size=3))
def test_any_order_workers_and_deaths_give_the_bytes_of_one_box(
    photos: Path, one_box: FinishedSuite, tmp_path_factory: Any, seed: int, workers: int, deaths: set[int]
) -> None:
    out, warnings = tmp_path_factory.mktemp("many") / "suite", Warnings()
    died = list[int]()

    def fate(method: str, number: int) -> str:
        dies = method == "work" and number in deaths
        died.extend([number] * dies)
        return "dies" if dies else "works"

    suite = on_boxes(StandInRay(random.Random(seed), fate, workers), photos, out, warnings)
    assert suite.digest == one_box.digest
    assert verify_suite(out).sound
    assert not (out / "parts").exists()
    assert sum(text.startswith("lost a worker on ") for text in warnings) == len(died)
    status = read_status(out)
    assert (status.state, status.shards, status.done, status.passed, status.lost) == ("finished", 6, 6, 0, len(died))
    assert suite.summary.painted == 12, "what a dead worker painted and did not hand over is painted by another"


def test_two_workers_of_which_one_dies_give_the_bytes_of_one_box(
    photos: Path, one_box: FinishedSuite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    test_any_order_workers_and_deaths_give_the_bytes_of_one_box.hypothesis.inner_test(  # type: ignore[attr-defined]
        photos, one_box, tmp_path_factory, 7, 2, {4}
    )


def test_costs_are_those_of_the_workers(photos: Path, one_box: FinishedSuite, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    suite = on_boxes(StandInRay(random.Random(1), cores=3), photos, tmp_path / "suite", metrics=metrics)
    (session,) = read_run(suite.path).sessions  # type: ignore[union-attr]
    costs = session.costs
    assert costs.device_s is not None
    assert costs.devices == 3
    assert 0 < costs.device_hours < 3 * costs.wall_s / 3600, "a worker counts from when it is there"
    (paint,) = (cost for cost in costs.stages if cost.stage == "paint")
    assert paint.made == paint.items == costs.painted == 12
    assert suite.costs.device_hours == {"core": costs.device_hours}
    assert suite.summary.session_device_hours_per_1k_accepted == suite.summary.device_hours_per_1k_accepted
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert records[-1]["device_hours"] == pytest.approx(costs.device_hours)
    assert max(record["devices"] for record in records) <= 3
    assert read_status(suite.path).device_hours == pytest.approx(costs.device_hours)
    assert read_run(one_box.path).sessions[0].costs.device_s is None  # type: ignore[union-attr]


def test_that_a_box_keeps_nothing_of_what_it_compiled_is_told_once(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = Warnings()
    monkeypatch.setattr(worker.platform, "node", lambda: "box")
    monkeypatch.setattr(Library, "cache_problem", property(lambda _: "kernels are not kept"))
    suite = on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite", warnings)
    assert suite.summary.cache_problem == "box: kernels are not kept"
    assert [text for text in warnings if "kernels" in text] == ["box: kernels are not kept"]


@pytest.mark.slow
def test_what_other_boxes_do_is_no_rate_of_this_one(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = list[object]()
    monkeypatch.setattr(journey, "save_rates", saved.append)
    on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "many")
    assert saved == []
    make_suite(photos, tmp_path / "one")
    assert len(saved) == 1


def test_two_drivers_and_more_values_than_variants_are_refused(photos: Path, tmp_path: Path) -> None:
    with Suite.open(tmp_path / "suite"), refusal("in use by process") as refused:
        on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite")
    assert "\n" not in str(refused.value)
    values = {"weather": ["snowy", "rainy", "foggy"]}
    with refusal("with --ray give as many variants as values"):
        on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite", interventions=values)


def test_a_set_in_this_box_s_cache_is_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_boxes, "Cell", type(None))  # what a file's blob is
    with refusal("save its pictures to a shared folder for --ray"):
        on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite")


def test_workers_are_asked_of_ray_as_the_profile_needs_them(photos: Path, tmp_path: Path) -> None:
    ray = StandInRay(random.Random(0), cores=64)
    on_boxes(ray, photos, tmp_path / "suite", workers=2)
    assert ray.options_asked == {"max_restarts": -1, "num_cpus": 1}
    assert read_run(tmp_path / "suite").sessions[0].costs.devices == 2  # type: ignore[union-attr]
    with refusal("has no core for a worker"):
        on_boxes(StandInRay(random.Random(0), cores=0), photos, tmp_path / "none")


@pytest.mark.parametrize("last", [4, 8])
def test_a_box_that_never_comes_back_leaves_its_shard_to_others(
    photos: Path, one_box: FinishedSuite, tmp_path: Path, last: int
) -> None:
    """Also where the others had nothing left to do: two introductions and six shards are eight answers."""
    ray = StandInRay(random.Random(0), lambda method, number: "loses its box" if number == last else "works")
    suite = on_boxes(ray, photos, tmp_path / "suite")
    assert suite.digest == one_box.digest
    assert len(ray.homeless) == 1
    assert read_status(suite.path).lost == 1


def test_a_part_that_was_spoilt_on_its_way_is_made_again(
    photos: Path, one_box: FinishedSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, written = worker.write_part, list[Path]()

    def spoil_the_last(path: Path, *rest: Any) -> None:
        really(path, *rest)
        written.append(path)
        if len(written) == 6:
            path.write_bytes(path.read_bytes()[:-30])

    monkeypatch.setattr(worker, "write_part", spoil_the_last)
    warnings = Warnings()
    suite = on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite", warnings)
    assert suite.digest == one_box.digest
    assert len(written) == 7
    assert any("is no whole part" in text and "its shard is worked on again" in text for text in warnings)


def test_a_worker_that_cannot_start_is_told_once(photos: Path, tmp_path: Path) -> None:
    ray = StandInRay(random.Random(0), lambda method, _: "dies" if method == "introduce" else "works")
    with refusal("no worker is left: a box: a worker cannot start"):
        on_boxes(ray, photos, tmp_path / "suite")
    assert read_status(tmp_path / "suite").lost == 2


def test_a_shard_that_kills_its_workers_is_named_and_the_others_are_made(photos: Path, tmp_path: Path) -> None:
    class Killed(StandInRay):
        def get(self, call: Any) -> Any:
            kills = call.method == "work" and pickle.loads(call.args[0])[0].name == "a/0002"
            self.fate = lambda *_: "dies" if kills else "works"
            return super().get(call)

    with refusal("of 6 shards 1 are left, .*: a/0002; the last because their processes died") as refused:
        on_boxes(Killed(random.Random(0), cores=1), photos, tmp_path / "suite")
    assert "\n" not in str(refused.value)
    assert read_status(tmp_path / "suite").done == 5


def test_where_every_shard_kills_its_worker_the_run_ends(photos: Path, tmp_path: Path) -> None:
    ray = StandInRay(random.Random(0), lambda method, _: "dies" if method == "work" else "works", cores=1)
    with refusal("no worker is left: .*as where memory does not suffice"):
        on_boxes(ray, photos, tmp_path / "suite")
    assert read_status(tmp_path / "suite").lost == 5


class Stopping(StandInRay):
    """Interrupts its own process once, as Ctrl-C does."""

    after = 4

    def get(self, call: Any) -> Any:
        answer = super().get(call)
        if self.answered == self.after:
            signal.raise_signal(signal.SIGTERM if self.luck.random() < 0.5 else signal.SIGINT)
        return answer


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_stopped_run_drains_and_goes_on(photos: Path, one_box: FinishedSuite, tmp_path: Path, seed: int) -> None:
    warnings, out = Warnings(), tmp_path / "suite"
    with pytest.raises(KeyboardInterrupt):
        on_boxes(Stopping(random.Random(seed)), photos, out, warnings)
    assert any(text.startswith("stopping: shards in hand are finished first") for text in warnings)
    status = read_status(out)
    assert status.state == "stopped"
    assert 0 < status.done < 6
    assert not (out / "parts").exists(), "all that was handed over was taken"
    suite = on_boxes(StandInRay(random.Random(seed)), photos, out)
    assert suite.digest == one_box.digest
    assert read_status(out).passed == status.done
    assert suite.summary.painted == 12 - 2 * status.done


def test_parts_of_a_driver_that_was_killed_are_taken(part: Path, photos: Path, one_box: FinishedSuite) -> None:
    assert part.suffix == ".part"
    for half in (f"{part.name}.77.tmp", "driver-0123456789abcdef"):  # of what was killed in the midst of writing
        (part.parent / half).write_bytes(part.read_bytes()[:99])
    suite = on_boxes(StandInRay(random.Random(0)), photos, part.parents[1])
    assert suite.digest == one_box.digest
    assert suite.summary.painted == 10, "the shard of the part that was left is not painted again"
    assert not part.parent.exists()


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_a_source_that_vanished_is_a_problem_and_comes_the_next_time(
    photos: Path, one_box: FinishedSuite, tmp_path: Path
) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    gone = tmp_path / "photos" / "b" / "0003.png"

    class Losing(StandInRay):
        def get(self, call: Any) -> Any:
            if gone.exists():
                gone.rename(tmp_path / "kept.png")
            return super().get(call)

    warnings = Warnings()
    suite = on_boxes(Losing(random.Random(0)), tmp_path / "photos", tmp_path / "suite", warnings)
    assert {row.source for row in suite.rows} == {f"{'ab'[at % 2]}/{at:04d}" for at in (0, 1, 2, 4, 5)}
    assert any("skipped b/0003" in text for text in warnings)
    assert suite.summary.sources == 5
    (tmp_path / "kept.png").rename(gone)
    assert on_boxes(StandInRay(random.Random(0)), tmp_path / "photos", tmp_path / "suite").digest == one_box.digest


@pytest.fixture
def part(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The part of a shard, as a worker left it."""
    with monkeypatch.context() as patch:
        patch.setattr(ray_boxes.Gathering, "take", lambda *_: raise_interrupt())
        with pytest.raises(KeyboardInterrupt):
            on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite")
    (path,) = (tmp_path / "suite" / "parts").iterdir()
    return path


def test_half_a_part_is_none(part: Path, photos: Path, one_box: FinishedSuite) -> None:
    whole = part.read_bytes()
    for size in (0, 1, 22, len(whole) // 2, len(whole) - 22, len(whole) - 1):
        part.write_bytes(whole[:size])
        with pytest.raises(PartError, match="is no whole part"):
            Part(part, part.name)
    part.write_bytes(whole[: len(whole) // 2])
    suite = on_boxes(StandInRay(random.Random(0)), photos, part.parents[1])
    assert suite.digest == one_box.digest
    assert not part.exists()


def test_a_bit_that_turned_makes_a_part_none(part: Path) -> None:
    whole, luck = part.read_bytes(), random.Random(0)
    with zipfile.ZipFile(part) as archive:
        sizes = [(info.header_offset + 30 + len(info.filename), info.file_size) for info in archive.infolist()]
    for start, size in sizes:
        data = bytearray(whole)
        data[start + luck.randrange(size)] ^= 1 << luck.randrange(8)
        part.write_bytes(data)
        with pytest.raises(PartError):
            Part(part, part.name)
    part.write_bytes(whole)
    with Part(part, part.name) as read:
        assert read.head.problems == ()
    with pytest.raises(PartError, match="of another shard"):
        Part(part, "0" * 64 + part.name[64:])


def remade(part: Path, changes: dict[str, bytes], compress: bool = False) -> None:
    """The part with other members."""
    with zipfile.ZipFile(part) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | changes
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("name", ["../out.png", "images/../../out.png", "/images/x.png", "run.json", "images\\x.png"])
def test_a_part_names_no_file_outside_of_the_suite(part: Path, name: str) -> None:
    with zipfile.ZipFile(part) as archive:
        head, rows = json.loads(archive.read("part.json")), json.loads(archive.read("rows.json"))
    rows["suite/files"][name] = [True, 1, hashlib.sha256(b"x").hexdigest(), 0]
    text = json.dumps(rows).encode()
    head["rows"] = hashlib.sha256(text).hexdigest()
    remade(part, {"part.json": json.dumps(head).encode(), "rows.json": text, name: b"x"})
    with refusal("names no file below"):
        Part(part, part.name)


def test_a_compressed_or_encrypted_part_is_refused(part: Path) -> None:
    whole = part.read_bytes()
    remade(part, {}, compress=True)
    with pytest.raises(PartError, match="are compressed"):
        Part(part, part.name)
    flags = whole.index(b"PK\1\2") + 8
    part.write_bytes(whole[:flags] + b"\1" + whole[flags + 1 :])
    with pytest.raises(PartError, match="encrypted"):
        Part(part, part.name)


@pytest.fixture
def order(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkOrder:
    """What the driver of a run tells its workers."""
    orders = list[WorkOrder]()

    def keep(_: Any, __: Any, order: WorkOrder, *___: Any) -> None:
        orders.append(order)
        place = open_place(order.place)
        with place.fetched(order.token) as path:
            shutil.copy(path, tmp_path / "token")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ray_boxes.RayBoxes, "_hire", keep)
        with pytest.raises(KeyboardInterrupt):
            on_boxes(StandInRay(random.Random(0)), photos, tmp_path / "suite")
    (order,) = orders
    open_place(order.place).put(order.token, tmp_path / "token")
    return order


def test_workers_are_told_paths_that_hold_from_any_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = list[WorkOrder]()

    class Keeping(ShardWorker):
        def __init__(self, wanted: str, order: bytes) -> None:
            super().__init__(wanted, order)
            orders.append(pickle.loads(order))

    monkeypatch.setattr(ray_boxes, "ShardWorker", Keeping)
    monkeypatch.chdir(photos.parent)
    suite = on_boxes(StandInRay(random.Random(0), cores=1), Path(photos.name), tmp_path / "suite", parts="parts")
    assert suite.summary is not None
    assert {(order.source.path, order.place) for order in orders} == {
        (photos / "a" / "0000.png", str(photos.parent / "parts"))
    }


def problem(order: WorkOrder, wanted: str | None = None) -> str | None:
    return ShardWorker(wanted or release(), packed(order)).introduce().problem


def test_a_worker_says_why_it_cannot_work(order: WorkOrder, tmp_path: Path) -> None:
    assert problem(order) is None
    assert str(problem(order, "9.9")).startswith(f"it has release {release()} where 9.9 makes the suite")
    other = problem(replace(order, maker="0" * 64, makers={**order.makers, "paint": "0" * 64}))
    assert str(other).startswith("it has other weights, plans or libraries of the stage paint")
    assert str(problem(replace(order, maker="0" * 64))).startswith("it has other settings of the profile")
    unshared = problem(replace(order, place=str(tmp_path / "elsewhere")))
    assert str(unshared).startswith("it does not see the driver's parts in")
    elsewhere = problem(replace(order, source=replace(order.source, path=tmp_path / "no.png")))
    assert str(elsewhere).startswith(f"it cannot read {tmp_path / 'no.png'} (there is no file")
    changed = problem(replace(order, source=replace(order.source, digest="0" * 64)))
    assert str(changed).startswith("it has another file at")
    plans = replace(load_profile("pocket"), models=ModelPaths(str(tmp_path)))
    assert "is missing" in str(problem(replace(order, profile=plans)))


def test_a_profile_without_networks_arrives_without(order: WorkOrder) -> None:
    arrived = pickle.loads(packed(order))
    assert arrived == order
    assert arrived.profile.by_rule


def test_workers_that_cannot_work_are_named_by_host_before_anything_begins(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_boxes, "release", lambda: "9.9")
    warnings, ray = Warnings(), StandInRay(random.Random(0))
    with refusal(r"no worker is left: .*: it has release .* where 9\.9"):
        on_boxes(ray, photos, tmp_path / "suite", warnings)
    assert ray.answered == 2, "two were introduced, and none had work"


def test_what_killed_workers_left_is_removed(order: WorkOrder, own_scratch: Path) -> None:
    dead = own_scratch / "counterfactory-worker-dead"
    (dead / "suite").mkdir(parents=True)
    alive = ShardWorker(release(), packed(order))
    assert alive.introduce().problem is None
    assert not dead.exists()
    assert problem(order) is None
    assert len(list(own_scratch.glob("counterfactory-worker-*"))) >= 1, "a living worker's stays"
    assert alive.introduce().problem is None
