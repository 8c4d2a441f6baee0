"""The table's rows before they are a table: they leave sorted, and nothing of them stays."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_rows import picture_row

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import PictureRow
from counterfactory.engine.suite.row_spool import RowSpool
from counterfactory.engine.variant import KINDS, Kind


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
        assert len(draft) == len(rows)


def test_files_can_be_asked_after(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        for number in range(1200):
            draft.add(table_row(number, mask=f"{number}.mask" if number % 2 else None))
        assert list(draft.files()) == sorted(
            [f"{i}.png" for i in range(1200)] + [f"{i}.mask" for i in range(1, 1200, 2)]
        )
        asked = [f"{i}.mask" for i in range(2000)]  # more than one statement takes
        assert draft.listed(asked) == {f"{i}.mask" for i in range(1, 1200, 2)}
        assert draft.listed([]) == set()


def test_rows_of_one_file_are_refused_and_one_mask_for_two_is_not(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        draft.add(table_row(0, mask="m"))
        draft.add(table_row(1, mask="m"))
        with pytest.raises(ValueError, match=r"two rows name 0\.png"):
            draft.add(table_row(0, source="t"))


def test_the_names_of_scores_are_gathered(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        assert draft.score_names == []
        for number, scores in enumerate([{"text": 1}, {}, {"layout": 0.5, "text": 0}]):
            draft.add(table_row(number, scores=scores))
        assert draft.score_names == ["layout", "text"]


def test_a_drafts_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with RowSpool(tmp_path) as draft:
        draft._db.execute("PRAGMA max_page_count = 12")  # SQLite's own full disk

        def fill() -> None:
            for number in range(1000):
                draft.add(table_row(number, caption="x" * 500))

        with pytest.raises(CounterfactoryError, match=r"cannot use .*draft.*full; free some space"):
            fill()
    assert list(tmp_path.iterdir()) == []
