"""The suite on disk: images, masks, their record, and the ledger that makes every run resumable."""

from .images import Painted
from .ledger import Ledger
from .metadata import read_metadata
from .spool import Spool
from .suite import Suite, image_path, mask_path

__all__ = ["Ledger", "Painted", "Spool", "Suite", "image_path", "mask_path", "read_metadata"]
