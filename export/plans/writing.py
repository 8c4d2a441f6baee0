"""A plan on its way to the disk: written as the compiler makes it, so that memory never holds it whole.

What is to be known of its bytes, their digest and the calls of fused attention among them, is taken as they pass. A
plan that fails leaves the file from before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import open_whole

# A call of a kernel of fused attention, as a plan's bytes have it.
_FUSED_CALL = re.compile(rb"function=\{ name=_gemm_mha_v2 ")
_OVERLAP = len(b"function={ name=_gemm_mha_v2 ") - 1


@dataclass(frozen=True)
class WrittenPlan:
    """Bytes of a plan's file, their SHA-256, and the calls of fused attention, of all profiles together."""

    plan_bytes: int
    sha256: str
    fused_calls: int


def write_plan(compiler: Any, path: Path, build: Callable[[Any], bool], why: Callable[[], str]) -> WrittenPlan:
    """Write to `path` what `build` gives to the writer that it is called with, whole or not at all.

    `build` says whether it succeeded, `why` what is wrong if not. Raises CounterfactoryError with that, and for a disk
    that takes no more.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_whole(path) as file:
        writer = _writer(compiler, file)
        built = build(writer)
        if writer.error is not None:
            raise writer.error
        if not built:
            raise CounterfactoryError(why())
    return WrittenPlan(writer.plan_bytes, writer.digest.hexdigest(), writer.fused_calls)


def _writer(compiler: Any, file: BinaryIO) -> Any:
    class PlanWriter(compiler.IStreamWriter):  # type: ignore[misc]
        def __init__(self) -> None:
            compiler.IStreamWriter.__init__(self)
            self.plan_bytes = 0
            self.digest = sha256()
            self.fused_calls = 0
            self.error: OSError | None = None
            self._last = b""

        def write(self, data: Any) -> int:
            try:
                file.write(data)
            except OSError as error:  # the library calls this and knows no exceptions
                self.error = error
                return 0
            self.digest.update(data)
            self.plan_bytes += len(data)
            # A call may begin in one piece and end in the next.
            seam = self._last + bytes(data[:_OVERLAP])
            self.fused_calls += len(_FUSED_CALL.findall(seam)) + len(_FUSED_CALL.findall(data))
            self._last = (self._last + bytes(data[-_OVERLAP:]))[-_OVERLAP:]
            return len(data)

    return PlanWriter()
