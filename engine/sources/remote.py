"""Photographs in an object store: class folders below an URL that fsspec reaches, such as s3://bucket/photos.

Names are listed page by page, as the store gives them; each picture is read where it lies, when it is needed.
"""

from __future__ import annotations

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from .blobs import StoredObject, printable
from .listing import Entry, Listing, finish, is_picture, label_folders


def list_remote(url: str) -> Listing:
    """The images below `url`, labelled by folders as on a disk. Raises CounterfactoryError for an unknown one."""
    from fsspec.core import url_to_fs

    listing, root, paths = Listing("folders"), url.rstrip("/"), DiskList[str]()
    try:
        store, base = url_to_fs(root)
        for folder, _, files in store.walk(base):
            inner = str(folder)[len(base) :].strip("/")
            for path in (f"{inner}/{name}" if inner else name for name in sorted(files)):
                if is_picture(path, listing.problems):
                    paths.append(path)
    except Exception as error:  # each store's client has exceptions of its own
        reason = f"{url} cannot be read ({(str(error) or type(error).__name__).splitlines()[0]})"
        raise CounterfactoryError(f"{reason}: see that the address and the rights are right") from error
    listing.notes, label_of = label_folders(paths)
    blobs = ((path, StoredObject(f"{root}/{path}")) for path in paths)
    listing.entries = DiskList(Entry(path, printable(path), blob, label_of(path)) for path, blob in blobs)
    return finish(listing)
