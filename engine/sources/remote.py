"""Photographs in an object store: class folders below an URL that fsspec reaches, such as s3://bucket/photos.

Names are listed page by page, as the store gives them; each picture is read where it lies, when it is needed.
"""

from __future__ import annotations

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from .blobs import StoredObject, printable
from .listing import SPLIT, SUFFIXES, UNREAD_SUFFIXES, Entry, Listing, finish


def list_remote(url: str) -> Listing:
    """The images below `url`: the first folder is the class, or the second where all first ones are called as splits.

    Raises CounterfactoryError where the store cannot be reached, or nothing is there.
    """
    from fsspec.core import url_to_fs

    listing, root = Listing("folders"), url.rstrip("/")
    try:
        store, base = url_to_fs(root)
        for folder, _, files in store.walk(base):
            inner = str(folder)[len(base) :].strip("/")
            for name in sorted(files):
                _add(listing, root, f"{inner}/{name}" if inner else name)
    except Exception as error:  # each store's client has exceptions of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CounterfactoryError(
            f"{url} cannot be read ({reason}): see that the address and the rights are right"
        ) from error
    splits = {entry.file.partition("/")[0] for entry in listing.entries}
    depth = 1 if splits and all(SPLIT.fullmatch(split) for split in splits) else 0
    if depth:
        listing.notes.append(f"{', '.join(sorted(splits))}: taken for splits of the set, not for classes")
    listing.entries = DiskList(_labelled(entry, depth) for entry in listing.entries)
    return finish(listing, None)


def _add(listing: Listing, root: str, relative: str) -> None:
    stem, _, ending = relative.rpartition("/")[2].rpartition(".")
    if not stem or relative.rpartition("/")[2].startswith("."):
        return
    if f".{ending.lower()}" in SUFFIXES:
        listing.entries.append(Entry(relative, printable(relative), StoredObject(f"{root}/{relative}")))
    elif f".{ending.lower()}" in UNREAD_SUFFIXES:
        listing.skip(relative, f".{ending} files are not read; convert them to JPEG or PNG")


def _labelled(entry: Entry, depth: int) -> Entry:
    folders = entry.name.split("/")[:-1]
    return Entry(entry.name, entry.file, entry.blob, folders[depth] if len(folders) > depth else None)
