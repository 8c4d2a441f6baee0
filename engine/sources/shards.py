"""WebDataset shards: tar files whose members belong together by their names up to the first dot. Where shards count
their samples from the beginning each, the shard's name goes before those that recur.

Pictures are read where they lie, so shards have to be tar files without compression. `.cls` or `cls.txt` is the label,
or the key label, class or cls of `.json`; `.seg.png`, `.mask.png` or `.semseg.png` the mask.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from ..files.reading import open_file, parse_json
from .blobs import Stretch, path_of, printable, read_blob, unprintable
from .labels import label_text
from .listing import SUFFIXES, Entry, Listing, file_stem, finish, is_file, is_folder, several

_MASKS = ("seg.png", "mask.png", "semseg.png")
_LABEL_KEYS = ("label", "class", "cls")
_MOST_LABEL_BYTES = 1 << 20

_Members = dict[str, Stretch]


def is_sharded(root: Path) -> bool:
    """Whether it is a tar file, or a folder of tar files and no images."""
    if root.is_file():
        return root.suffix.lower() == ".tar"
    suffixes = set[str]()
    with os.scandir(root) as children:  # a million pictures beside each other are no list
        for path in map(Path, children):
            if is_folder(path) or (path.suffix.lower() in SUFFIXES and is_file(path)):
                return False
            suffixes.add(path.suffix.lower())
    return ".tar" in suffixes


def list_shards(root: Path) -> Listing:
    """The samples of a shard or of a folder's shards, in order. A shard that cannot be read is a problem."""
    shards = [root] if root.is_file() else sorted(path for path in root.iterdir() if path.suffix.lower() == ".tar")
    if not shards:
        raise CounterfactoryError(f"{root} has no .tar files; compressed shards have to be unpacked to .tar first")
    listing = Listing("webdataset")
    for shard in shards:
        seen = set[str]()
        try:
            for key, members in _samples(shard):
                _add(listing, seen, shard, key, members)
        except (tarfile.TarError, OSError, EOFError) as error:
            listing.skip(shard.name, f"cannot be read as a tar file ({error}); unpack it where it is compressed")
    entries = listing.entries
    if recurring := several(lambda: (file_stem(entry.name) for entry in entries)):
        listing.entries = DiskList(_of_shard(one) if file_stem(one.name) in recurring else one for one in entries)
        listing.note_first(list(recurring), "keys are in several shards, and have the shard's name before them")
    return finish(listing)


def _of_shard(entry: Entry) -> Entry:
    return replace(entry, name=f"{path_of(entry.blob).stem}/{entry.name}")


def _samples(shard: Path) -> Iterator[tuple[str, _Members]]:
    """Each sample's key and members by what follows the first dot."""
    key, members = "", _Members()
    with open_file(shard) as opened, tarfile.open(fileobj=opened, mode="r:") as tar:
        for member in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # or a million of them would be kept
            folder, slash, file = member.name.rpartition("/")
            stem, dot, ending = file.partition(".")
            if not member.isreg() or member.issparse() or not dot or not stem:
                continue
            if folder + slash + stem != key and members:
                yield key, members
                members = _Members()
            key = folder + slash + stem
            members[ending.lower()] = Stretch(str(shard), member.offset_data, member.size)
    if members:
        yield key, members


def _add(listing: Listing, seen: set[str], shard: Path, key: str, members: _Members) -> None:
    image = next((ending for ending in members if f".{ending}" in SUFFIXES), None)
    name = key.removeprefix("./").lstrip("/")
    file = f"{shard.name}/{name}"
    mask = next((members[ending] for ending in _MASKS if ending in members), None)
    try:
        if image is None:
            dotted = "; a key ends at the first dot" if any("." in ending for ending in members) else ""
            raise ValueError(f"has no picture among {', '.join(map(printable, members))}{dotted}")
        if name in seen or ".." in name.split("/") or not name:
            raise ValueError("another sample of this shard has this key, or it leads out of its folder; write it anew")
        seen.add(name)
        entry = Entry(f"{name}.{image}", printable(f"{file}.{image}"), members[image], _label(members), mask)
        listing.entries.append(entry)
    except ValueError as error:
        listing.skip(file, str(error))


def _label(members: _Members) -> str | None:
    """Raises ValueError for a label that cannot be used."""
    for ending in ("cls", "cls.txt", "json"):
        if ending not in members:
            continue
        if members[ending].size > _MOST_LABEL_BYTES:
            raise ValueError(f"its .{ending} has {members[ending].size} bytes")
        try:
            data = read_blob(members[ending])
            content = parse_json(data, float) if ending == "json" else {"cls": data.decode()}
        except ValueError as error:
            raise ValueError(f"its .{ending} cannot be read: {error}") from error
        keys = _LABEL_KEYS if isinstance(content, dict) else ()
        label = next((content[key] for key in keys if content.get(key) is not None), None)
        if label is not None and (label_text(label) or not str(label).strip()):
            text = (label_text(label) or "").strip()
            if unprintable(text) or not text:
                raise ValueError(f"its .{ending} holds no label that can be printed")
            return text
    return None
