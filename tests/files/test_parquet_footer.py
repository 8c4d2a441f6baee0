"""What a Parquet footer says of its columns, against PyArrow's own reading of sound files."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.files.parquet_footer import chunk_sizes, footer_bytes

TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=40)


@given(TEXTS, st.integers(1, 9), st.sampled_from(["none", "zstd"]), st.booleans())
def test_sizes_are_pyarrow_s(texts: list[str | None], group: int, compression: str, checksums: bool) -> None:
    lists = [[number, -number] if number % 3 else None for number in range(len(texts))]
    nested = [{"a": number * 10**12, "b": [str(number)] * (number % 3)} for number in range(len(texts))]
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    columns = {"t": (texts, pa.string()), "n": (lists, pa.list_(pa.int64())), "s": (nested, struct)}
    table = pa.table({name: pa.array(*of) for name, of in columns.items()})
    file = io.BytesIO()
    options = {"compression": compression, "write_page_checksum": checksums, "store_schema": checksums}
    pq.write_table(table, file, row_group_size=group, **options)
    data = file.getvalue()
    facts = pq.ParquetFile(io.BytesIO(data)).metadata
    chunks = [[facts.row_group(i).column(j) for j in range(facts.num_columns)] for i in range(facts.num_row_groups)]
    expected = [[(one.num_values, one.total_uncompressed_size) for one in group] for group in chunks]
    assert chunk_sizes(data[-footer_bytes(data[-8:]) :]) == expected


@pytest.mark.parametrize("cut", [0, 1, 8, 40])
def test_a_footer_that_ends_early_is_named(cut: int) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), file)
    tail = file.getvalue()[-footer_bytes(file.getvalue()[-8:]) :]
    damaged = tail[: len(tail) - 8 - cut] + bytes([0x8C] * 12) + tail[-8:] if cut else b"PAR1"
    with pytest.raises(ValueError, match="damaged"):
        chunk_sizes(damaged)
