"""A suite in the forms of others' loaders: WebDataset's shards, or a `datasets` set of Parquet files with a card.

Every row of the table is a sample, rejected ones too, with its verdict. Files come out the same from the same suite; a
killed command leaves no half file, and is given again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from ..errors import CounterfactoryError
from ..files.reading import read_bytes
from ..files.writing import make_folder, open_whole, write_whole
from ..packages import release
from ..suite import PictureRow, read_run, require_finished
from ..suite.contents import suite_digest
from ..suite.metadata import iter_metadata
from ..suite.paths import Folder
from ..suite.suite import in_batches

Form = Literal["webdataset", "datasets"]
FORMS: tuple[Form, ...] = ("webdataset", "datasets")
# A row of the table with its files' bytes by the columns that name them.
Sample = tuple[PictureRow, dict[str, bytes]]
_TEXTS = ("kind", "source", "label", "caption", "edited_caption", "verdict", "reason", "key", "file_name")


def pack_suite(
    suite: Path, out: Path, form: Form, shard_mb: int = 500, on_sample: Callable[[int], None] = lambda _: None
) -> list[Path]:
    """Writes a finished suite's samples to files of about `shard_mb` in the new folder `out`; returns the files.

    `on_sample` is called with each sample that was read. Raises CounterfactoryError for a suite that is none, a file
    that cannot be read, and a folder with something in it.
    """
    require_finished(suite)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CounterfactoryError(f"{out} is there already: name a new folder for the {form} files")
    make_folder(out)
    write, files = {"webdataset": _write_tar, "datasets": _write_parquet}[form], list[Path]()
    for number, batch in enumerate(in_batches(_samples(suite, on_sample), _size, shard_mb * 1_000_000)):
        files.append(write(out, number, batch))
    if form == "datasets":
        write_whole(out / "README.md", _card(suite))
    return files


def _samples(suite: Path, on_sample: Callable[[int], None]) -> Iterator[Sample]:
    folder = Folder(suite)
    for number, row in enumerate(iter_metadata(suite), start=1):
        named = {"image": row.file_name, "mask": row.mask, "original": row.original}
        try:
            files = {name: read_bytes(folder.path(file)) for name, file in named.items() if file is not None}
        except OSError as error:
            raise CounterfactoryError(
                f"{suite}: {error.filename} cannot be read ({error.strerror}): verify it"
            ) from error
        on_sample(number)
        yield row, files


def _size(sample: Sample) -> int:
    return sum(map(len, sample[1].values()))


def _write_tar(out: Path, number: int, batch: Iterable[Sample]) -> Path:
    """Samples `KEY.png`, `KEY.mask.png`, `KEY.cls` and `KEY.json`, the row of the table; an original is by itself."""
    from webdataset import TarWriter

    path = out / f"suite-{number:06d}.tar"
    with open_whole(path) as file, TarWriter(file, mtime=0.0, encoder=False) as tar:
        for row, files in batch:
            sample: dict[str, Any] = {"__key__": row.file_name.removesuffix(".png").replace(".", "_")}
            sample |= {"png": files["image"], "json": json.dumps(row.to_json()).encode()}
            sample |= {"mask.png": files["mask"]} if "mask" in files else {}
            sample |= {"cls": row.label.encode()} if row.label is not None else {}
            tar.write(sample)
    return path


def _write_parquet(out: Path, number: int, batch: Iterable[Sample]) -> Path:
    """Columns of pictures (image, original, mask), of texts, and edits, edit_types and scores as the table has them."""
    from datasets import Dataset, Features, Image, Value

    text = Value("string")
    features = Features({name: Image() for name in ("image", "original", "mask")} | dict.fromkeys(_TEXTS, text))
    features |= {"edits": [{"type": text, "keyword": text, "alternative": text}], "scores": text}
    path = out / "data" / f"test-{number:06d}.parquet"
    lines = []
    for row, files in batch:
        edits = [{"type": one.type, "keyword": one.keyword, "alternative": one.alternative} for one in row.edits]
        line: dict[str, Any] = {name: getattr(row, name) for name in _TEXTS}
        pictures = {name: {"bytes": files[name], "path": None} if name in files else None for name in features}
        line |= {name: pictures[name] for name in ("image", "original", "mask")}
        lines.append(line | {"edits": edits, "scores": json.dumps(dict(row.scores))})
    with open_whole(path, below=out) as file:
        Dataset.from_list(lines, features=Features(features)).to_parquet(file)
    return path


def _card(suite: Path) -> str:
    """What the set is, for a page of the hub."""
    from huggingface_hub import DatasetCard, DatasetCardData

    counts = Counter((row.kind, row.verdict) for row in iter_metadata(suite))
    record = read_run(suite)
    licences = [] if record is None else [f"- {one.model}: {one.licence}" for one in record.licences]
    about = DatasetCardData(pretty_name=suite.resolve().name, tags=["counterfactory", "counterfactual", "robustness"])
    rows = "\n".join(f"| {kind} | {verdict} | {count:,} |" for (kind, verdict), count in sorted(counts.items()))
    licence = "\n".join(licences) or "- none"
    text = (
        f"---\n{about.to_yaml()}\n---\n# {suite.resolve().name}\n\n"
        f"A counterfactual test suite, made by Counterfactory {release()}; its digest is `{suite_digest(suite)}`. "
        "Pictures may be painted by models; the photographs' own licence is that of their set.\n\n"
        f"| kind | verdict | pictures |\n|---|---|---|\n{rows}\n\nLicences of the models:\n\n{licence}\n"
    )
    return str(DatasetCard(text))
