"""A Llama on a CPU whose rows come and go: one compiled graph and the rows' keys and values.

The graph is made by export/language/llama_steps.py.

It takes tokens for any of the rows, a different number for each, and returns the logits after each row's last one. The
beginning that all prompts share is read once; a row holds only what follows. Everything that a row is made of (the
beginning, its tokens, where they were cut into steps) is its own: neighbours, rows that wait and free places are
weighed with exact zeros, so that a row's logits do not depend on its company. What tokens mean is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import file_digest
from ..profile.rewrite import LLAMA_FILES, LLAMA_GRAPH
from ..runtime import dequantize
from ..runtime.blob_cache import BlobCache
from ..runtime.compiling import CompileInputs, compile_model, least_threads
from ..runtime.openvino import Precision, open_core
from ..runtime.quiet_openvino import ov
from ..runtime.session import require_finite
from .token_filter import load_tokenizer, read_vocabulary

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
# Keys and values [H, n, D] of n tokens, of every layer in turn.
Piece = Sequence[NDArray[Any]]
# Rows and tokens of each that a call has room for.
Shape = tuple[int, int]
# Places of a row's cache come in blocks, so that sums over them are formed in the same order at every size.
_BLOCK = 64
# A call reads so many rows and so many tokens of each; beyond the first ones: multiples.
_ROWS, _MORE_ROWS = (1,), 8
_WIDTHS, _MORE_TOKENS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48), 64
# What a row and a call cost on top of their tokens, and the first call of a shape, for which OpenVINO 2026.4.1 prepares
# its products anew: in tokens, measured with the pocket model. Calls of more tokens take memory that pays no more.
_ROW_COST, _CALL_COST, _SHAPE_COST, _MOST_TOKENS = 1, 100, 150, 1024
# Weights of fewer bytes are multiplied on one thread: a team takes a fifth more core-seconds to wait for each other.
_SMALL = 1 << 24
# How much of that it keeps, in operations: with the 5,000 that it keeps if not told, long runs take 45 MB more.
_KEPT_OPERATIONS = 64
# What stands before a text whose surprise is measured, and how many are read together.
_BEGINNING, _SIDE_BY_SIDE = "A caption of a photograph:", 64


class Llama:
    """An exported folder, compiled. `precision` is that of the products and of the kept keys and values."""

    def __init__(
        self,
        folder: Path,
        *,
        precision: Precision,
        threads: int,
        blobs: BlobCache | None = None,
        digest: Callable[[Path], str] = file_digest,
    ) -> None:
        """A small network takes one thread, whatever `threads` says. In `blobs` the compiled graph is kept; `digest`
        says what the content of a file is.

        Raises CounterfactoryError when the folder is missing or holds no export of a Llama.
        """
        missing = [name for name in LLAMA_FILES if not (folder / name).is_file()]
        if missing:
            raise CounterfactoryError(
                f"the language model's folder {folder} lacks {', '.join(missing)}; restore the folder, or name another "
                "in [llm] model"
            )
        core = open_core()
        try:
            graph = core.read_model(folder / LLAMA_GRAPH)
            end, self.context = (int(graph.get_rt_info(["counterfactory", name]).value) for name in ("end", "context"))
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CounterfactoryError(f"{folder / LLAMA_GRAPH} is no exported Llama: {reason}") from error
        self.vocabulary = read_vocabulary(folder / "tokenizer.json", end)
        self._tokenizer = load_tokenizer(folder / "tokenizer.json")
        self._caches = [port.get_any_name().removeprefix("new_") for port in graph.outputs[1:]]
        self._heads, _, self._size = graph.input("prefix_key_0").get_partial_shape()
        self._element = ov.Type.bf16 if precision == "bf16" else ov.Type.f32
        files = [folder / name for name in LLAMA_FILES]
        small = sum(file.stat().st_size for file in files) < _SMALL
        config: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "CPU_RUNTIME_CACHE_CAPACITY": _KEPT_OPERATIONS,
        }
        if threads or small:
            config["INFERENCE_NUM_THREADS"] = max(least_threads(precision), 1 if small else threads)
        making = CompileInputs(files, (__file__, dequantize.__file__), {}, config)
        prepare = partial(_prepared, graph, self._element)
        compiled = compile_model(core, making, prepare, blobs, digest)
        self._request = compiled.create_infer_request()
        # The shapes of calls so far, by the places of rows and of the beginning.
        self._met: dict[Shape, set[Shape]] = {}
        self._missed: dict[Shape, Counter[Shape]] = {}
        self._nothing = self._common(0)

    @property
    def token_bytes(self) -> int:
        """What a token of a row takes in the cache."""
        return int(len(self._caches) * self._heads.get_length() * self._size.get_length() * self._element.size)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text's tokens; special tokens that it names ("<|im_start|>") are those tokens, and none are added."""
        return [list(e.ids) for e in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def rows(self, count: int, places: int) -> RowCache:
        """A cache of `count` rows with room for `places` tokens each, and for more when they come."""
        return RowCache([self._empty(count + _MORE_ROWS, _blocks(places)) for _ in self._caches])

    def beginning(self, tokens: Sequence[int]) -> Common:
        """What all rows of a call begin with, read; `tokens` may be empty."""
        common = self._common(len(tokens))
        (piece,) = self.pieces([tokens], self._nothing)
        for held, part in zip(common.arrays, piece, strict=True):
            held[:, : len(tokens)] = part
        return common

    def pieces(self, runs: Sequence[Sequence[int]], common: Common) -> list[Piece]:
        """Keys and values of runs of tokens, each right after the common beginning; a run may be empty."""
        pieces: list[Piece] = [[self._empty(1, 0)[0] for _ in self._caches] for _ in runs]
        for rows, shape in self._calls(runs, _BLOCK, common):
            tokens, fresh = _padded([runs[i] for i in rows], shape)
            nothing = [self._empty(shape[0], _BLOCK) for _ in self._caches]
            out = self._run(tokens, fresh, common, np.zeros_like(fresh), nothing)
            new = [self._bits(out[f"new_{name}"]) for name in self._caches]
            for at, i in enumerate(rows):
                pieces[i] = [array[at, :, : len(runs[i])].copy() for array in new]
        return pieces

    def step(self, runs: Sequence[Sequence[int]], common: Common, cache: RowCache, first: int, read: Ids) -> Floats:
        """Read a run of tokens for each of the cache's rows from `first` on, after the `read` [B] that it holds.

        The cache takes the new keys and values up. Returns logits, float32 [B, V], after each run; those of a row
        whose run is empty mean nothing.
        """
        cache.grow(max(int(held) + len(run) for held, run in zip(read, runs, strict=True)), first + len(runs))
        logits = np.zeros((len(runs), self.vocabulary.size), np.float32)
        for rows, shape in self._calls(runs, cache.arrays[0].shape[2], common):
            low, lines, ours = min(rows), list(rows), set(rows)
            end = first + low + shape[0]
            if max(rows) - low < shape[0] and end <= len(cache.arrays[0]):  # what lies side by side is not copied
                lines = list(range(low, min(low + shape[0], len(runs))))
                held = [array[first + low : end] for array in cache.arrays]
            else:
                held = [array[np.resize(lines, shape[0]) + first] for array in cache.arrays]
            tokens, fresh = _padded([runs[i] if i in ours else () for i in lines], shape)
            own = np.pad(read[lines], (0, shape[0] - len(lines)))
            out = self._run(tokens, fresh, common, own, held)
            row = np.repeat(np.arange(shape[0]), fresh)
            place = np.concatenate([np.arange(count) for count in fresh])
            line = np.array(lines)[row] + first
            for array, name in zip(cache.arrays, self._caches, strict=True):
                array[line, :, own[row] + place] = self._bits(out[f"new_{name}"])[row, :, place]
            going = np.flatnonzero(fresh)
            logits[np.array(lines)[going], :] = out["logits"][going]
            require_finite("llm", {"logits": logits[rows]})
        return logits

    def surprises(self, texts: Sequence[str]) -> list[float]:
        """The mean of -log p over the tokens of each text, in nats: the perplexity that text filters and benches go by
        is e to that. A text depends on no other; one without letters is no surprise, and gives 0.

        Texts are read side by side behind one beginning, token by token: the graph gives logits after a row's last one.
        """
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        means = np.zeros(len(texts))
        *before, last = self.encode([_BEGINNING])[0]
        common = self.beginning(before)
        for start in range(0, len(order), _SIDE_BY_SIDE):
            part = order[start : start + _SIDE_BY_SIDE]
            rows = [[last, *tokens] for tokens in self.encode([f" {texts[i]}" for i in part])]
            longest = max(map(len, rows))
            cache, total = self.rows(len(rows), longest), np.zeros(len(rows))
            for at in range(longest - 1):
                runs = [row[at : at + 1] if at + 1 < len(row) else [] for row in rows]
                logits = self.step(runs, common, cache, 0, np.full(len(rows), at))
                for i, row in enumerate(rows):
                    if runs[i]:
                        scores = logits[i] - logits[i].max()
                        total[i] += float(np.log(np.exp(scores).sum()) - scores[row[at + 1]])
            means[part] = total / [max(1, len(row) - 1) for row in rows]
        return means.tolist()

    def _calls(self, runs: Sequence[Sequence[int]], places: int, common: Common) -> Iterator[tuple[list[int], Shape]]:
        """The calls that read the runs of rows with so many places; what shapes there were is kept."""
        at = places, common.arrays[0].shape[1]
        met, missed = self._met.setdefault(at, set()), self._missed.setdefault(at, Counter())
        for rows, shape in calls_of(list(map(len, runs)), met, missed):
            met.add(shape)
            yield rows, shape
            least = _least_shape(len(rows), max(len(runs[i]) for i in rows))
            missed[least] += _cost(shape) - _cost(least)

    def _run(self, tokens: Ids, fresh: Ids, common: Common, read: Ids, held: Piece) -> Mapping[str, NDArray[Any]]:
        """One inference; what comes out is the runtime's memory until the next one."""
        feeds: dict[str, Any] = {"tokens": tokens, "read": read, "fresh": fresh, "common": np.array([common.filled])}
        for name, beginning, row in zip(self._caches, common.arrays, held, strict=True):
            feeds[f"prefix_{name}"] = ov.Tensor(beginning, beginning.shape, self._element)
            feeds[name] = ov.Tensor(row, row.shape, self._element)
        results = self._request.infer(feeds, share_inputs=True, share_outputs=True)
        return {port.get_any_name(): value for port, value in results.items()}

    def _common(self, filled: int) -> Common:
        return Common([self._empty(1, _blocks(filled))[0] for _ in self._caches], filled)

    def _empty(self, rows: int, places: int) -> NDArray[Any]:
        """Keys or values of one layer; bf16 as its bits, since NumPy knows no such type."""
        kind = np.uint16 if self._element == ov.Type.bf16 else np.float32
        return np.zeros((rows, self._heads.get_length(), places, self._size.get_length()), kind)

    def _bits(self, value: NDArray[Any]) -> NDArray[Any]:
        return value.view(np.uint16) if self._element == ov.Type.bf16 else value


@dataclass(frozen=True)
class Common:
    """Keys and values [H, P, D] of the tokens that rows begin with, layer by layer, in the first `filled` places."""

    arrays: list[NDArray[Any]]
    filled: int


@dataclass
class RowCache:
    """Keys and values [B, H, T, D] of rows, layer by layer; the caller knows how many places each row fills."""

    arrays: list[NDArray[Any]]

    def grow(self, places: int, rows: int) -> None:
        """Make room for `places` tokens per row; the first `rows` hold some."""
        held, heads, before, size = self.arrays[0].shape
        if before >= places:
            return
        for i, array in enumerate(self.arrays):
            self.arrays[i] = np.zeros((held, heads, _blocks(places), size), array.dtype)
            self.arrays[i][:rows, :, :before] = array[:rows]

    def put(self, row: int, piece: Piece) -> None:
        """A row begins with `piece`."""
        self.grow(piece[0].shape[1], row)
        for array, part in zip(self.arrays, piece, strict=True):
            array[row, :, : part.shape[1]] = part

    def move(self, row: int, to: int, filled: int) -> None:
        """The `filled` places of a row become another's."""
        for array in self.arrays:
            array[to, :, :filled] = array[row, :, :filled]


def _blocks(places: int) -> int:
    """Room for `places`, and never none: the CPU's products over nothing are not zero (OpenVINO 2026.4.1)."""
    return max(1, -(-places // _BLOCK)) * _BLOCK


def calls_of(
    lengths: Sequence[int], met: Collection[Shape] = (), missed: Mapping[Shape, int] = MappingProxyType({})
) -> list[tuple[list[int], Shape]]:
    """Which of the rows with so many tokens to read are read in one call, and its shape; those with none in none.

    Rows of like lengths share a call as far as that costs less than calls of their own. A shape in `met` costs less
    than one that no call had, until larger ones in its place have `missed` as much.
    """

    def shape(rows: int, width: int) -> Shape:
        return min([_least_shape(rows, width), *(s for s in met if s[0] >= rows and s[1] >= width)], key=cost)

    def cost(shape: Shape) -> int:
        return _cost(shape) + (0 if shape in met else max(0, _SHAPE_COST - missed.get(shape, 0)))

    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    parts: list[tuple[list[int], Shape]] = []
    for width, group in groupby(order, lambda i: _least(lengths[i], _WIDTHS, _MORE_TOKENS)):
        alike, most = list(group), max(_MORE_ROWS, _MOST_TOKENS // width // _MORE_ROWS * _MORE_ROWS)
        for at in range(0, len(alike), most):
            rows = alike[at : at + most]
            part = rows, shape(len(rows), width)
            if parts:
                both = [*parts[-1][0], *rows]
                joint = shape(len(both), parts[-1][1][1])
                few = joint[0] * joint[1] <= _MOST_TOKENS
                if few and cost(joint) <= cost(part[1]) + cost(parts[-1][1]):
                    parts[-1] = both, joint
                    continue
            parts.append(part)
    return parts


def _cost(shape: Shape) -> int:
    """What a call of a shape that was met costs, in tokens."""
    return _CALL_COST + shape[0] * (shape[1] + _ROW_COST)


def _least_shape(rows: int, length: int) -> Shape:
    """The least shape of a call for so many rows of up to so many tokens."""
    return _least(rows, _ROWS, _MORE_ROWS), _least(length, _WIDTHS, _MORE_TOKENS)


def _padded(runs: Sequence[Sequence[int]], shape: Shape) -> tuple[Ids, Ids]:
    """Tokens [B, K] and how many of each row are its own; rows and columns beyond the runs are padding."""
    tokens, fresh = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
    for i, run in enumerate(runs):
        tokens[i, : len(run)] = run
        fresh[i] = len(run)
    return tokens, fresh


def _least(count: int, sizes: Sequence[int], more: int) -> int:
    """The least of the sizes, and then of the multiples of `more`, that holds `count`."""
    return next((size for size in sizes if size >= count), -(-count // more) * more)


def _prepared(graph: Any, element: Any) -> Any:
    """The graph with its weights widened, and keys and values going in and out as `element`, so none is converted."""
    dequantize.widen_unless_multiplied(graph)
    ports = ov.preprocess.PrePostProcessor(graph)
    for port in graph.inputs[4:]:
        ports.input(port.get_any_name()).tensor().set_element_type(element)
    for port in graph.outputs[1:]:
        ports.output(port.get_any_name()).tensor().set_element_type(element)
    return ports.build()
