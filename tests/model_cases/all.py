"""All reports: a file for each part of the product that they are about, each of which fills the table."""

from . import asking, data_sets, detection_truth, files, geometry, given_answers  # noqa: F401
from .table import CASES

__all__ = ["CASES"]
