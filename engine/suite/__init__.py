"""The suite on disk: images, masks, their record, and the ledger that makes every run resumable."""

from .images import Painted
from .ledger import Ledger
from .metadata import read_metadata
from .suite import Suite, files_of, image_path, mask_path

__all__ = ["Ledger", "Painted", "Suite", "files_of", "image_path", "mask_path", "read_metadata"]
