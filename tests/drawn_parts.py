"""Workers that paint nothing: each hands over a part with the right files and rows, one small picture in all places.

For benches of what the driver does; they stand where Ray's actors are (tests/stand_in_ray.py).
"""

from __future__ import annotations

import hashlib
import pickle
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from stand_in_ray import StandInRay

from counterfactory.engine.cluster import ray_boxes
from counterfactory.engine.cluster.parts import open_place, part_name, write_part
from counterfactory.engine.cluster.worker import Introduction, Receipt, WorkOrder
from counterfactory.engine.content_keys import shard_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import Crop, NewPicture, Origin, Painting, PictureRow, Suite
from counterfactory.engine.suite.outcome import Outcome, Outcomes
from counterfactory.engine.suite.run_record import count_verdicts


class DrawnWorker:
    """A worker's face: an original and a variant of each source, 8 pixels square."""

    def __init__(self, _: str, order: bytes) -> None:
        self._order: WorkOrder = pickle.loads(order)
        self._place = open_place(self._order.place)

    def introduce(self) -> Introduction:
        """It can always work."""
        return Introduction("bench", 1, 1, None)

    def work(self, sources: bytes) -> Receipt:
        """The part of a shard."""
        shard: tuple[Source, ...] = pickle.loads(sources)
        key = shard_key([source.whole_key for source in shard])
        name = part_name(key, self._order.maker)
        with TemporaryDirectory() as folder, Suite.open(Path(folder) / "suite") as suite:
            noted = suite.ledger.noted = set[tuple[str, str]]()
            rows = _draw(suite, shard)
            files = {file: suite._store.records([file])[file].bytes for row in rows for file in row.files}
            outcome = Outcome(**count_verdicts(rows), files=files, dropped=(), shortfalls=())
            Outcomes(suite, self._order.maker).keep(shard, outcome, rows, finished=True)
            head = {"shard": key, "maker": self._order.maker, "problems": ()}
            write_part(Path(folder) / "part", suite, noted, head)
            self._place.put(name, Path(folder) / "part")
        return Receipt(name, "bench", 0.0, 0, (), ())


def _draw(suite: Suite, shard: tuple[Source, ...]) -> list[PictureRow]:
    pixels = np.zeros((8, 8, 3), np.uint8)
    keys = {source: hashlib.sha256(source.key.encode()).hexdigest() for source in shard}
    originals = [NewPicture(source.key, source.name, pixels, top="originals") for source in shard]
    variants = [NewPicture(keys[source], source.name, pixels) for source in shard]
    placed = suite.write_images("original", originals), suite.write_images("paint", variants)
    rows = list[PictureRow]()
    for source in shard:
        original = placed[0][source.key].image.path
        for files, key in ((placed[0], source.key), (placed[1], keys[source])):
            kind: Any = "original" if files is placed[0] else "variant"
            picture = files[key].image
            rows.append(
                PictureRow(
                    file_name=picture.path,
                    sha256=picture.sha256,
                    kind=kind,
                    source=source.name,
                    label=source.label,
                    mask=None,
                    original=original,
                    control=None,
                    caption="a photograph",
                    edited_caption="a photograph in fog",
                    edits=() if kind == "original" else (Edit("weather", "", "foggy"),),
                    number=0,
                    painting=None if kind == "original" else Painting(0, 0, 1.0, 0.0, 0.0),
                    scores={},
                    reason=None,
                    origin=Origin(source.file, source.digest, source.size[1], source.size[0]),
                    crop=Crop(0.0, 0.0, float(source.size[1]), float(source.size[0])),
                    source_key=source.key,
                    key=key,
                )
            )
    return rows


def install() -> None:
    """Has `generate --ray` find these workers."""
    ray_boxes.ShardWorker = DrawnWorker
    ray_boxes.connected = StandInRay(random.Random(0)).connected
