"""A plan on its way to the disk: written as the compiler makes it, so that memory never holds it whole.

What is to be known of its bytes, their digest and the fused kernels named among them, is taken as they pass. A plan
that fails leaves the file from before.
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

# Fused attention as compiled kernels are named in a plan's bytes.
_FUSED_ATTENTION = re.compile(rb"_gemm_mha_v2_0x[0-9a-f]{32}")
_LONGEST_NAME = len(b"_gemm_mha_v2_0x") + 32


@dataclass(frozen=True)
class WrittenPlan:
    """Bytes of a plan's file, their SHA-256, and the distinct kernels of fused attention."""

    plan_bytes: int
    sha256: str
    fused_attention: int


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
    return WrittenPlan(writer.plan_bytes, writer.digest.hexdigest(), len(writer.kernels))


def _writer(compiler: Any, file: BinaryIO) -> Any:
    class PlanWriter(compiler.IStreamWriter):  # type: ignore[misc]
        def __init__(self) -> None:
            compiler.IStreamWriter.__init__(self)
            self.plan_bytes = 0
            self.digest = sha256()
            self.kernels: set[bytes] = set()
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
            # A name may begin in one piece and end in the next.
            seam = self._last + bytes(data[:_LONGEST_NAME])
            self.kernels.update(_FUSED_ATTENTION.findall(seam), _FUSED_ATTENTION.findall(data))
            self._last = (self._last + bytes(data[-_LONGEST_NAME:]))[-_LONGEST_NAME + 1 :]
            return len(data)

    return PlanWriter()
