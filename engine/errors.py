"""The one kind of exception that a user sees: a sentence that says what was asked, what was found, and what to do."""

import re
from collections.abc import Sequence

# What CUDA's runtime and driver, cuBLAS, cuDNN, torch and ONNX Runtime call errors after which a context answers every
# call with the same error, and others that pass: memory that someone else holds, a device that is busy.
_LOST = re.compile(
    r"illegal.?(address|memory.access|instruction)|misaligned.?address|invalid.?(address.?space|program.counter|pc\b)"
    r"|launch.?(failure|failed|timeout|timed.out)|hardware.?stack.?error|uncorrectable|device.side.assert|errorassert"
    r"|context.?is.?destroyed|devices?.?unavailable|busy.or.unavailable|external.?device|error.?contained"
    r"|error.?unknown|unknown.error|memory.?allocation|out.?of.?memory|cuda failure 2\b|fallen off the bus"
    r"|status_(execution_failed|alloc_failed|internal_error|mapping_error|not_initialized)",
    re.IGNORECASE,
)
_OF_CUDA = re.compile(r"cuda|cublas|cudnn|gpu", re.IGNORECASE)


class CounterfactoryError(Exception):
    """Something the user can mend; the command line prints it as one sentence and exits with status 2."""


class TryAgainError(CounterfactoryError):
    """What a new process gets over, such as a lost device; the command line exits with status 75."""


def lost_device(text: str) -> bool:
    """Whether a library's words are of a GPU that this process has lost, and a new one may have again."""
    return _OF_CUDA.search(text) is not None and _LOST.search(text) is not None


def list_some(items: Sequence[str], most: int) -> str:
    """The first `most` items with commas between, and how many more there are."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
