"""metadata.parquet: a table that depends on its rows alone, and that other tools open."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_rows import PAINTING, control_row, original_row, picture_row, written
from picture_rows import picture_row as row
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.sources.shapes import Box, Keypoint
from counterfactory.engine.suite import (
    NewPicture,
    PictureRow,
    RunRecord,
    Suite,
    accepted_edits,
    metadata,
    read_metadata,
)
from counterfactory.engine.suite.images import encode_picture
from counterfactory.engine.suite.metadata import COLUMNS
from counterfactory.engine.suite.row_spool import RowSpool
from counterfactory.engine.variant import KINDS, Kind

CONTRACT = [
    *("file_name", "sha256", "kind", "source", "label", "mask_file_name", "boxes", "original_file_name"),
    *("control_file_name", "caption", "protected", "edited_caption", "edits", "edit_types", "number", "repeat"),
    *("level", "levels", "seed", "steps", "guidance_scale", "guidance_start", "guidance_stop", "self_attention"),
    *("painter", "scores", "verdict", "reason", "source_path", "source_sha256", "source_width", "source_height"),
    *("crop", "known_world", "source_key", "key"),
]
PAINTED = CONTRACT[CONTRACT.index("seed") : CONTRACT.index("scores")]


def encoded(rows: Iterable[PictureRow]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return (written(Path(folder), rows) / "metadata.parquet").read_bytes()


def test_has_the_columns_of_the_contract_in_order(tmp_path: Path) -> None:
    assert list(COLUMNS) == CONTRACT
    table = pq.read_table(written(tmp_path, [row()]) / "metadata.parquet")
    assert table.column_names == CONTRACT
    assert str(table.schema.field("scores").type) == "struct<layout: double, text: double>"
    assert str(table.schema.field("number").type) == "int64"


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    boxes = (Box(0, 1.5, 20, 30, "bus"), Box(2, 3, 4, 5, "person", (Keypoint(3, 4, 2), Keypoint(0, 0, 0))))
    boxes += (Box(1, 1, 9, 9, "bus", ignored="crowd"), Box(1, 1, 9, 9, "", ignored="difficult"))
    files = {"mask": "masks/bus/0000/0000000000000001.png", "control": control_row().file_name}
    about = {"label": None, "reason": "text 0.1 is below 0.2", "boxes": boxes}
    painting = replace(PAINTING, self_attention=0.6)
    rows = [original_row(), control_row(), row(), row(1, **files, **about, painting=painting)]
    for some in (rows, [], [row(scores={})]):
        assert read_metadata(written(tmp_path, some)) == some


def test_the_table_says_verdicts_types_of_edits_and_all_scores(tmp_path: Path) -> None:
    edits = (Edit("weather", "dry", "snowy"), Edit("time", "day", "night"))
    rows = [row(edits=edits), row(1, reason="text 0.1 is below 0.2", edits=())]
    table = pq.read_table(written(tmp_path, rows) / "metadata.parquet").to_pylist()
    assert [line["verdict"] for line in table] == ["accepted", "rejected"]
    assert [line["edit_types"] for line in table] == [["weather", "time"], []]
    assert [(line["guidance_start"], line["guidance_stop"]) for line in table] == [(0.25, 0.75)] * 2
    rows = [row(0, scores={"text": 1}), row(1, scores={"layout": 0.5}), row(2, scores={})]
    table = pq.read_table(written(tmp_path, rows) / "metadata.parquet")
    assert [line["scores"] for line in table.to_pylist()] == [
        {"layout": None, "text": 1.0},
        {"layout": 0.5, "text": None},
        None,
    ]
    assert read_metadata(tmp_path) == rows


def test_the_edits_of_accepted_variants_are_read_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_ROWS_PER_PART", 2)
    snow, rain = Edit("weather", "dry", "snowy"), Edit("weather", "", "in the rain")
    rows = [original_row(), control_row(), row(0), row(1, reason="no"), row(2, edits=(rain, snow))]
    assert list(accepted_edits(written(tmp_path, rows))) == [snow, rain, snow]


@settings(max_examples=20)
@given(order=st.permutations(range(7)))
def test_bytes_depend_on_the_rows_alone(order: list[int]) -> None:
    scores = [("text", 0.25), ("layout", 0.875)]
    shuffled = [row(i, scores=dict(random.Random(i).sample(scores, k=2))) for i in order]
    assert encoded(shuffled) == encoded([row(i) for i in range(7)])


@settings(max_examples=8)
@given(count=st.integers(0, 30), part=st.integers(1, 6), parts=st.integers(1, 4))
def test_groups_have_one_size_whatever_the_rows_come_from(count: int, part: int, parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(metadata, "_ROWS_PER_PART", part)
        patch.setattr(metadata, "_PARTS_PER_GROUP", parts)
        rows = [row(number) for number in range(count)]
        assert encoded(iter(rows)) == encoded(one for chunk in (rows[:7], rows[7:8], rows[8:]) for one in chunk)
        path = written(Path(folder), rows) / "metadata.parquet"
        found = pq.ParquetFile(path).metadata
        sizes = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
        assert sizes == [min(part * parts, count - start) for start in range(0, count, part * parts)]
        assert [r.key for r in read_metadata(Path(folder))] == [r.key for r in rows]


def foreign(folder: Path, **changes: Any) -> Path:
    """A table of two rows, the second with changes that this program would not write."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row(0).to_json(), row(1).to_json() | changes]
    pq.write_table(pa.Table.from_pylist(lines), folder / "metadata.parquet")
    return folder


def test_a_table_by_another_hand_is_read_when_it_is_right(tmp_path: Path) -> None:
    assert read_metadata(foreign(tmp_path)) == [row(0), row(1)]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"caption": None}, "'caption' should be text, found None"),
        ({"kind": "copy"}, "'kind' cannot be 'copy'; choose from: original, control, variant"),
        ({"seed": None}, r"key 'seed' is missing \(a whole number\)"),
        ({"source_width": None}, "key 'source_width' is missing"),
        (dict.fromkeys(PAINTED), "a variant needs seed and steps"),
        ({"label": "bus", "verdict": "maybe"}, "'verdict' should be 'accepted', as there is no reason"),
        ({"verdict": "rejected"}, "'verdict' should be 'accepted'.*found 'rejected'"),
        ({"reason": "too dark"}, "'verdict' should be 'rejected', as there is the reason 'too dark'"),
        ({"scores": {"text": float("nan"), "layout": 1.0}}, r"'scores\.text' should be a finite number, found nan"),
        ({"edits": [{"type": "time", "keyword": None, "alternative": "x"}]}, r"'edits\[0\]\.keyword' should be text"),
    ],
)
def test_a_wrong_value_is_named_with_its_file_row_and_key(tmp_path: Path, changes: dict[str, Any], found: str) -> None:
    with refusal(rf"metadata\.parquet, row 2: {found}.*run the `counterfactory gen"):
        read_metadata(foreign(tmp_path, **changes))


def test_no_table_a_damaged_one_and_another_are_sentences(tmp_path: Path) -> None:
    with refusal("counterfactory generate"):
        read_metadata(tmp_path)
    path = written(tmp_path, [row(i) for i in range(50)]) / "metadata.parquet"
    whole = path.read_bytes()
    for keep in (0, 3, 100, 2000):
        path.write_bytes(whole[:keep])
        with refusal(r"cannot be read.*repaints nothing"):
            read_metadata(tmp_path)
    pq.write_table(pa.table({"file_name": ["a.png"]}), tmp_path / "metadata.parquet")
    with refusal("lacks sha256, kind"):
        read_metadata(tmp_path)


LOAD = """
import json, sys
from datasets import load_dataset
found = load_dataset("imagefolder", data_dir=sys.argv[1], cache_dir=sys.argv[2])
(split,) = found
shown = lambda picture: picture and [list(picture.size), picture.getpixel((0, 0))]
names = found[split].column_names
pictures = {name for name in names if name in ("image", "mask", "original", "control")}
rows = [row | {name: shown(row[name]) for name in pictures} for row in found[split]]
print(json.dumps({"columns": found[split].column_names, "rows": rows}))
"""


def test_datasets_opens_the_suite(tmp_path: Path) -> None:
    # Words for splits, hidden parts and wildcards are what `datasets` stumbles over; it lists masks and strays too.
    sources = ["bus/0003", "test/bus/1", "validation_2", "my-eval 7/x", "train", ".hidden", "a[1]*", "ä/ö", "dev1/val"]
    folder = tmp_path / "test" / "suite"
    picture, rows = np.zeros((8, 12, 3), np.uint8), list[PictureRow]()
    with Suite.open(folder) as suite:
        batch = [
            NewPicture(f"{i:064x}", name, picture + np.uint8(i), np.full((8, 12), i, np.uint16))
            for i, name in enumerate([*sources, "superseded/one"])
        ]
        written_rows = list(suite.write_images("paint", batch).values())
        images, masks = ([files[at].path for files in (made.files for made in written_rows)] for at in (0, 1))
        for i, name in enumerate(sources):
            files = {"file_name": images[i], "mask": masks[i], "original": images[i]}
            control, sha256 = None if i else images[0], written_rows[i].image.sha256
            rows.append(row(i, **files, source=name, control=control, sha256=sha256))
        suite.write_metadata(rows)
        suite.write_run(RunRecord())
    assert (folder / "superseded" / "images").is_dir()
    (folder / "contact_sheet.png").write_bytes(encode_picture(picture))
    (folder / "index.html").write_text("<p>sheet</p>")
    (folder / "draft.77.tmp").write_bytes(b"half")  # left by a kill
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "HF_DATASETS_OFFLINE": "1"}
    command = [sys.executable, "-c", LOAD, folder, tmp_path / "cache"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["columns"] == ["image", *(name.removesuffix("_file_name") for name in CONTRACT[1:])]
    assert [r["mask"] for r in found["rows"]] == [[[12, 8], r["image"][1][0]] for r in found["rows"]]
    assert [r["original"] for r in found["rows"]] == [r["image"] for r in found["rows"]]
    assert [r["control"] is None for r in found["rows"]] == [r["source"] != sources[0] for r in found["rows"]]
    assert {r["source"]: r["image"] for r in found["rows"]} == {
        name: [[12, 8], [i, i, i]] for i, name in enumerate(sources)
    }
    assert found["rows"][0]["edits"] == [{"type": "weather", "keyword": "dry", "alternative": "snowy", "score": 0.625}]


def table_row(index: int, /, **changes: Any) -> PictureRow:
    name = f"{index}.png"
    return picture_row(index, **{"file_name": name, "original": name, "source": "s", "number": index} | changes)


sort_keys = st.lists(
    st.tuples(st.text("aAäz/\U0001f600 ", max_size=3), st.sampled_from(KINDS), st.integers(-3, 10**12)), max_size=12
)


@settings(max_examples=30)
@given(sort_keys)
def test_rows_leave_sorted_as_python_sorts(keys: list[tuple[str, Kind, int]]) -> None:
    rows = [table_row(i, source=source, kind=kind, number=n) for i, (source, kind, n) in enumerate(keys)]
    with tempfile.TemporaryDirectory() as folder, RowSpool(Path(folder)) as draft:
        for row in rows:
            draft.add(row)
        in_order = sorted(rows, key=lambda row: (row.source, KINDS.index(row.kind), row.number, row.file_name))
        assert list(draft) == [row.to_json() for row in in_order]


def test_files_can_be_asked_after_and_are_of_one_row(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        for number in range(1200):
            draft.add(table_row(number, mask=f"{number}.mask" if number % 2 else None))
        assert list(draft.files()) == sorted(
            [f"{i}.png" for i in range(1200)] + [f"{i}.mask" for i in range(1, 1200, 2)]
        )
        asked = [f"{i}.mask" for i in range(2000)]  # more than one statement takes
        assert draft.listed(asked) == {f"{i}.mask" for i in range(1, 1200, 2)}
        assert draft.listed([]) == set()
    with RowSpool(tmp_path) as draft:
        draft.add(table_row(0, mask="m"))
        draft.add(table_row(1, mask="m"))
        with pytest.raises(ValueError, match=r"two rows name 0\.png"):
            draft.add(table_row(0, source="t"))


def test_a_drafts_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        draft._db.execute("PRAGMA max_page_count = 12")  # SQLite's own full disk

        def fill() -> None:
            for number in range(1000):
                draft.add(table_row(number, caption="x" * 500))

        with refusal(r"cannot use .*draft.*full; free some space"):
            fill()
    assert list(tmp_path.iterdir()) == []
