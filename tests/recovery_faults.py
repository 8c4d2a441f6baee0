"""A command of the command line, and workers of Ray, that something goes wrong with: which, the environment says.

`python -c "import recovery_faults; recovery_faults.drive()" generate ...`. A fault that happens once leaves a file, so
that the next process, or the next command, has none.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from stand_in_cuda import Memory

from counterfactory.engine import journey
from counterfactory.engine.cluster import ray_boxes, worker
from counterfactory.engine.cluster.dispatch import Patience
from counterfactory.engine.cluster.gathering import Gathering
from counterfactory.engine.cluster.worker import ShardWorker
from counterfactory.engine.runtime.cuda import Cuda

FAULT, FOLDER = "RECOVERIES_FAULT", "RECOVERIES_FOLDER"
# Who does not answer is given so long here, where a shard takes a second and a start ten; others what is usual.
SHORT = {
    "a worker that hangs": Patience(start_s=120.0, least_s=8.0),
    "workers that never begin": Patience(start_s=40.0),
}


def is_first(name: str) -> bool:
    """Whether no process of this case was here before."""
    try:
        (Path(os.environ[FOLDER]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for(path: Path) -> None:
    """The last shards are for the case's own worker, which a faster one would leave none."""
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.1)


class Gpu:
    """A device of the stand-in driver, which can lose its context, for all calls to come."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.device = Cuda(self.memory)

    def lose(self) -> None:
        self.memory.faults.append("an illegal memory access was encountered")
        self.work()

    def work(self) -> None:
        self.device.wait()


class Faulty(ShardWorker):
    """A worker that has the fault of the case."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._fault, self._gpu, self._done = os.environ[FAULT], Gpu(), 0
        self._number = next(number for number in count() if is_first(f"process-{number}"))

    def introduce(self) -> Any:
        if self._fault == "a worker that cannot start" and self._number == 0:
            self._wanted = "9.9"
            is_first("given up")
        if self._fault == "workers that never begin" and self._number < 2:
            threading.Event().wait()
        return super().introduce()

    def work(self, sources: bytes) -> Any:
        fault, folder = self._fault, Path(os.environ[FOLDER])
        self._gpu.work()
        if fault == "a GPU that stays broken" and self._number in (0, 2):
            if self._number == 2:
                is_first("given up")
            self._gpu.lose()
        if fault in ("a GPU that stays broken", "a worker that cannot start") and self._done:
            wait_for(folder / "given up")
        if fault == "a lost context" and is_first("fault"):
            self._gpu.lose()
        if fault == "a worker that hangs" and self._done and is_first("fault"):
            threading.Event().wait()
        if fault == "a bug, once" and is_first("fault"):
            raise ZeroDivisionError("a bug")
        breaks = any(source.name == "b/0005" for source in pickle.loads(sources)) and not (folder / "mended").exists()
        if fault == "a source that breaks workers" and breaks:
            raise MemoryError
        if fault == "kill -9 of a worker" and is_first("fault"):
            worker.write_part = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        self._done += 1
        return super().work(sources)


def drive() -> None:
    """The command of the command line, with the fault of the case."""
    ray_boxes.ShardWorker = Faulty  # type: ignore[misc]
    fault, gpu, shards = os.environ[FAULT], Gpu(), count()
    ray_boxes.RayBoxes = partial(ray_boxes.RayBoxes, patience=SHORT.get(fault))  # type: ignore[misc,assignment]
    real_step, real_take = journey.step, Gathering.take

    def reached(at: int, name: str) -> bool:
        return next(shards) >= at and fault == name and is_first("fault")

    def step(*args: Any) -> Any:
        if reached(3, "a lost context, without Ray"):
            gpu.lose()
        if reached(3, "kill -9 of the run, without Ray"):
            os.kill(os.getpid(), signal.SIGKILL)
        return real_step(*args)

    def take(*args: Any) -> Any:
        if reached(3, "kill -9 of the driver"):
            os.kill(os.getpid(), signal.SIGKILL)
        return real_take(*args)

    journey.step, Gathering.take = step, take  # type: ignore[method-assign]
    from counterfactory.engine.cli.process import run

    run()
