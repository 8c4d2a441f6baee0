"""What becomes of workers that fail, and of their shards, without Ray's processes: nothing is lost, and the bytes are
those of one box. The clock is the stand-in's.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from light_sets import make_suite, photographs
from refusing import refusal
from stand_in_ray import StandInRay

from counterfactory.engine.api.finished import FinishedSuite
from counterfactory.engine.cluster import ray_boxes, worker
from counterfactory.engine.cluster.dispatch import Patience
from counterfactory.engine.cluster.ray_boxes import RayBoxes
from counterfactory.engine.cluster.worker import ShardWorker
from counterfactory.engine.errors import CounterfactoryError, TryAgainError
from counterfactory.engine.suite.status import read_status

LOST = TryAgainError("CUDA's cudaStreamSynchronize failed with cudaErrorIllegalAddress: an illegal memory access")
# Whether a process fails over a shard that begins with a source, by the order in which processes were made.
Fails = Callable[[int, str], Exception | None]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photographs(tmp_path_factory.mktemp("photos"), range(6))


@pytest.fixture(scope="module")
def one_box(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedSuite:
    return make_suite(photos, tmp_path_factory.mktemp("one") / "suite")


@pytest.fixture(autouse=True)
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(worker.tempfile, "tempdir", str(tmp_path / "scratch"))


class Boxes:
    """Runs over workers that fail as they are told; `said` are the warnings, `tried` processes and first sources."""

    def __init__(self, photos: Path) -> None:
        self.photos, self.said, self.tried = photos, list[str](), list[tuple[int, str]]()

    def make(self, out: Path, fails: Fails, ray: StandInRay | None = None, cores: int = 2) -> FinishedSuite:
        boxes, tried, numbers = ray or StandInRay(random.Random(0), cores=cores), self.tried, count()

        class Failing(ShardWorker):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.number = next(numbers)

            def work(self, sources: bytes) -> Any:
                first = pickle.loads(sources)[0].name
                tried.append((self.number, first))
                if (error := fails(self.number, first)) is not None:
                    raise error
                return super().work(sources)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ray_boxes, "ShardWorker", Failing)
            patch.setattr(ray_boxes, "connected", boxes.connected)
            patch.setattr(ray_boxes, "RayBoxes", partial(RayBoxes, clock=lambda: boxes.now))
            return make_suite(self.photos, out, ray="auto", shard=1, warn=self.said.append)


@pytest.fixture
def boxes(photos: Path) -> Boxes:
    return Boxes(photos)


NAMES = [f"{'ab'[at % 2]}/{at:04d}" for at in range(6)]
ERRORS = [LOST, CounterfactoryError("no space"), ValueError("a bug"), MemoryError(), OSError(5, "input/output error")]


@pytest.mark.parametrize(
    ("error", "cores"),
    [(LOST, 2), *(pytest.param(error, cores, marks=pytest.mark.slow) for error in ERRORS for cores in (1, 2))],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_worker_that_fails_once_gets_a_new_process_and_nothing_is_lost(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path, error: Exception, cores: int
) -> None:
    ray = StandInRay(random.Random(0), cores=cores)
    suite = boxes.make(tmp_path / "suite", lambda process, _: error if process == 0 else None, ray)
    assert suite.digest == one_box.digest
    assert len(ray.killed) == 1
    assert [process for process, _ in boxes.tried].count(0) == 1
    assert {process for process, _ in boxes.tried} == set(range(cores + 1))
    assert read_status(suite.path).lost == 1
    assert any("it gets a new process" in text for text in boxes.said)


def test_a_shard_goes_to_another_worker_than_the_one_that_failed_over_it(boxes: Boxes, tmp_path: Path) -> None:
    boxes.make(tmp_path / "suite", lambda process, first: LOST if process == 0 else None)
    ((_, shard),) = [one for one in boxes.tried if one[0] == 0]
    assert [process for process, first in boxes.tried if first == shard] == [0, 1]


def test_a_worker_whose_new_process_fails_too_is_given_up_and_the_others_finish(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path
) -> None:
    suite = boxes.make(tmp_path / "suite", lambda process, _: LOST if process != 1 else None)
    assert suite.digest == one_box.digest
    assert sorted({process for process, _ in boxes.tried}) == [0, 1, 2]
    assert [text for text in boxes.said if text.startswith("gave up a worker on ")]
    assert read_status(suite.path).lost == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [(LOST, TryAgainError), pytest.param(ERRORS[1], CounterfactoryError, marks=pytest.mark.slow)],
)
def test_where_all_fail_the_run_ends_and_says_whether_it_is_worth_trying_again(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path, error: Exception, kind: type[Exception]
) -> None:
    with refusal("no worker is left") as refused:
        boxes.make(tmp_path / "suite", lambda *_: error)
    assert type(refused.value) is kind
    assert str(error) in str(refused.value)
    assert read_status(tmp_path / "suite").state == "failed"
    assert boxes.make(tmp_path / "suite", lambda *_: None).digest == one_box.digest


@pytest.mark.parametrize(
    ("cores", "broken"),
    [(1, [1, 4]), *(pytest.param(n, at, marks=pytest.mark.slow) for n in (1, 2, 3) for at in ([0], [5], [0, 2]))],
)
def test_a_shard_that_breaks_its_workers_is_set_aside_and_the_others_are_made(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path, cores: int, broken: list[int]
) -> None:
    error = MemoryError() if cores == 2 else ValueError("a bug")
    names = {NAMES[at] for at in broken}
    order = ["a/0000", "a/0002", "a/0004", "b/0001", "b/0003", "b/0005"]
    with refusal(r"of 6 shards \d are left") as refused:
        boxes.make(tmp_path / "suite", lambda _, first: error if first in names else None, cores=cores)
    assert all(name in str(refused.value) for name in names)
    assert not any(name in str(refused.value) for name in set(order) - names)
    assert f"{type(error).__name__}" in str(refused.value)
    assert "test_recovery.py:" in str(refused.value), "where a bug is"
    assert "\n" not in str(refused.value)
    for name in names:
        assert [first for _, first in boxes.tried].count(name) == 3
    assert len(boxes.tried) == 6 - len(names) + 3 * len(names), "the others are worked on once"
    status = read_status(tmp_path / "suite")
    assert (status.state, status.done) == ("failed", 6 - len(names))
    boxes.tried.clear()
    assert boxes.make(tmp_path / "suite", lambda *_: None).digest == one_box.digest
    assert {first for _, first in boxes.tried} == names


def test_a_lost_context_that_a_library_raises_as_its_own_is_known(boxes: Boxes, tmp_path: Path) -> None:
    with refusal("no worker is left") as refused:
        boxes.make(tmp_path / "suite", lambda *_: RuntimeError("CUDA error: an illegal memory access was encountered"))
    assert type(refused.value) is TryAgainError


def test_a_worker_that_hangs_is_killed_and_its_shard_made_by_others(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path
) -> None:
    """Call 3 is the first shard of one of two workers."""
    ray = StandInRay(random.Random(0), hangs=lambda method, number: number == 3)
    suite = boxes.make(tmp_path / "suite", lambda *_: None, ray)
    assert suite.digest == one_box.digest
    assert len(ray.killed) == 1
    assert any("has not finished a shard after" in text for text in boxes.said)
    assert ray.now > 1800, "its first shard may take long"


def test_one_that_never_begins_is_given_up_when_its_new_process_does_not_either(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path
) -> None:
    ray = StandInRay(random.Random(0), hangs=lambda method, _: method == "introduce")
    with refusal("no worker is left: .*has not begun after") as refused:
        boxes.make(tmp_path / "suite", lambda *_: None, ray)
    assert type(refused.value) is TryAgainError
    assert len(ray.killed) == 4
    once = StandInRay(random.Random(0), cores=1, hangs=lambda _, number: number == 1)
    assert boxes.make(tmp_path / "suite", lambda *_: None, once).digest == one_box.digest


def test_one_that_meets_a_bug_before_it_begins_is_given_up(
    boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: ShardWorker) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(ShardWorker, "introduce", broken)
    ray = StandInRay(random.Random(0))
    with refusal("no worker is left: .*OSError"):
        boxes.make(tmp_path / "suite", lambda *_: None, ray)
    assert len(ray.killed) == 6


def test_one_that_waits_for_its_place_has_all_the_time(boxes: Boxes, one_box: FinishedSuite, tmp_path: Path) -> None:
    """The cluster has room for one of two workers, and the first hangs: the second is not blamed."""

    class Full(StandInRay):
        def cluster_resources(self) -> dict[str, float]:
            return {"CPU": 1.0 if self.asked else 2.0}

    ray = Full(random.Random(0), hangs=lambda method, number: number in (2, 3))
    suite = boxes.make(tmp_path / "suite", lambda *_: None, ray)
    assert suite.digest == one_box.digest
    assert [actor for actor in ray.killed if actor.instance] == ray.killed
    assert not any("has not begun" in text for text in boxes.said)


def test_deaths_one_after_the_other_end_a_worker_not_the_run(
    boxes: Boxes, one_box: FinishedSuite, tmp_path: Path
) -> None:
    """A box on which every process dies loses its shards to the other."""
    broken = list[Any]()

    class Dying(StandInRay):
        def get(self, call: Any) -> Any:
            broken.extend([call.actor] if not broken else [])
            self.fate = lambda method, _: "dies" if call.actor is broken[0] and method == "work" else "works"
            return super().get(call)

    suite = boxes.make(tmp_path / "suite", lambda *_: None, Dying(random.Random(1)))
    assert suite.digest == one_box.digest
    assert read_status(suite.path).lost <= 5


def test_a_deadline_is_learned_from_the_shards_before() -> None:
    patience = Patience(start_s=1000, least_s=50, own=3, others=10, source_s=600)
    assert patience.limit_s(10, [], [], first=True) == 7000
    assert patience.limit_s(10, [], [2.0, 5.0, 1.0], first=False) == 500
    assert patience.limit_s(10, [4.0, 1.0], [9.0], first=False) == 120
    assert patience.limit_s(10, [0.1], [9.0], first=False) == 50
    assert patience.limit_s(10, [4.0], [], first=True) == 1120, "a new process loads and compiles again"
    assert Patience.of(on_gpu=False).source_s > Patience.of(on_gpu=True).source_s
