"""torch's caching allocator over a stand-in for the device, by its rules: what is freed it keeps for itself.

Blocks are rounded to 512 bytes and cut out of segments: 2 MB for those up to 1 MB, 20 MB for those up to 10 MB, and
for larger ones what they need in whole 2 MB. Only `empty_cache` gives segments back, and of those only the ones in
which nothing is used any longer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.cuda import call

_MB = 1 << 20
_ROUND, _SMALL, _SMALL_SEGMENT, _LARGE, _LARGE_SEGMENT, _WHOLE = 512, _MB, 2 * _MB, 10 * _MB, 20 * _MB, 2 * _MB


@dataclass(eq=False)
class _Piece:
    """Part of a segment, `used` or not; pieces of a segment lie in order."""

    start: int
    size: int
    used: bool = False


@dataclass(eq=False)
class _Segment:
    pointer: int
    small: bool
    pieces: list[_Piece]


@dataclass
class CachingAllocator:
    """`runtime` is the module cuda.bindings.runtime, or what stands in for it."""

    runtime: Any
    _segments: list[_Segment] = field(default_factory=list)

    @property
    def reserved(self) -> int:
        """Bytes that the device has given."""
        return sum(piece.size for segment in self._segments for piece in segment.pieces)

    def allocate(self, nbytes: int) -> int:
        """The address of so many bytes, at least one. Raises CounterfactoryError where the device has no room."""
        size = -(-nbytes // _ROUND) * _ROUND
        small = size <= _SMALL
        fitting = [
            (piece.size, segment, piece)
            for segment in self._segments
            if segment.small == small
            for piece in segment.pieces
            if not piece.used and piece.size >= size
        ]
        if fitting:
            _, segment, piece = min(fitting, key=lambda one: one[0])
        else:
            whole = _SMALL_SEGMENT if small else _LARGE_SEGMENT if size < _LARGE else -(-size // _WHOLE) * _WHOLE
            piece = _Piece(0, whole)
            segment = _Segment(0, small, [piece])
            self._segments.append(segment)  # counted from before the device gives it, for who watches the device
            try:
                segment.pointer = int(call(self.runtime, "cudaMalloc", whole))
            except CounterfactoryError:
                self._segments.remove(segment)
                raise
        rest = piece.size - size
        if rest >= (_ROUND if small else _SMALL):
            segment.pieces.insert(segment.pieces.index(piece) + 1, _Piece(piece.start + size, rest))
            piece.size = size
        piece.used = True
        return segment.pointer + piece.start

    def free(self, pointer: int) -> None:
        """Take a block back, to be given again; neighbours that are free become one."""
        for segment in self._segments:
            for at, piece in enumerate(segment.pieces):
                if piece.used and segment.pointer + piece.start == pointer:
                    piece.used = False
                    for left in (at, at - 1):
                        pair = segment.pieces[max(left, 0) : left + 2]
                        if left >= 0 and len(pair) == 2 and not any(one.used for one in pair):
                            pair[0].size += pair[1].size
                            segment.pieces.remove(pair[1])
                    return
        raise ValueError(f"no block begins at {pointer:#x}")

    def empty_cache(self) -> None:
        """Give back what nobody uses."""
        for segment in list(self._segments):
            if not any(piece.used for piece in segment.pieces):
                call(self.runtime, "cudaFree", segment.pointer)
                self._segments.remove(segment)
