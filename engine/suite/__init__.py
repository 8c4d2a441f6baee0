"""The suite on disk: images, masks, their record, and the ledger that makes every run resumable."""

from .images import NewPicture, Provenance
from .metadata import accepted_edits, read_metadata, require_finished
from .picture_row import Crop, Origin, PaintedRow, Painting, PictureRow, caution, count_outside
from .run_record import RunRecord, read_run
from .suite import Suite, image_path, mask_path

__all__ = [
    "Crop",
    "NewPicture",
    "Origin",
    "PaintedRow",
    "Painting",
    "PictureRow",
    "Provenance",
    "RunRecord",
    "Suite",
    "accepted_edits",
    "caution",
    "count_outside",
    "image_path",
    "mask_path",
    "read_metadata",
    "read_run",
    "require_finished",
]
