"""From logits to tokens: greedy, nucleus sampling and beam search, for a batch of rows that are continued together.

`decode` takes the first logits and a function that continues rows, and returns token ids. The rules are those of
transformers' `generate`, in its order: repetition penalty (Keskar et al. 2019, arXiv 1909.05858, eq. 2; on
log-probabilities in a beam search), no n-gram twice (Paulus et al. 2017, arXiv 1705.04304, sec. 2.5), minimum length,
temperature, nucleus (Holtzman et al. 2020, arXiv 1904.09751, sec. 3.1). A row's result depends on its own logits and
random numbers, never on its neighbours. The meaning of tokens plays no part here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..profile.caption import DecodingSettings

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
# Takes the next token of each row [R] and the row whose past it continues [R]; returns logits [R, V].
Advance = Callable[[Ids, Ids], NDArray[np.float32]]

_NEVER = -np.inf


def decode(
    logits: NDArray[np.float32],
    advance: Advance,
    settings: DecodingSettings,
    prompt: Sequence[int],
    end: int,
    generators: Sequence[np.random.Generator],
) -> list[list[int]]:
    """The tokens of each text, without the end token `end`.

    `logits` [N * beams, V] follow the prompts, with the beams of a text in consecutive rows. `prompt` holds earlier
    tokens that count as repetitions. `generators`, one per text, are used by nucleus sampling, one draw per token.
    """
    if settings.mode == "beam":
        return _beam_search(logits, advance, settings, prompt, end)
    rows = np.arange(len(logits))
    texts: list[list[int]] = [[] for _ in rows]
    ended = np.zeros(len(logits), bool)
    while True:
        chosen = np.full(len(logits), end, np.int64)
        for row in np.flatnonzero(~ended).tolist():
            text = texts[row]
            scores = _apply_rules(logits[row].astype(np.float64), [*prompt, *text], len(text), settings, end)
            sampled = settings.mode == "nucleus"
            chosen[row] = _sample(scores, settings, generators[row]) if sampled else scores.argmax()
            if chosen[row] == end:
                ended[row] = True
            else:
                text.append(int(chosen[row]))
                ended[row] = len(text) == settings.max_tokens
        if ended.all():
            return texts
        logits = advance(chosen, rows)


def _apply_rules(scores: Floats, previous: Sequence[int], length: int, settings: DecodingSettings, end: int) -> Floats:
    """Apply the repetition penalty, no n-gram twice and the minimum length to scores [V], in place; returns them."""
    if settings.repetition_penalty != 1:
        again = np.unique(np.array(previous, np.int64))
        penalty = settings.repetition_penalty
        scores[again] = np.where(scores[again] < 0, scores[again] * penalty, scores[again] / penalty)
    if settings.no_repeat_ngram:
        scores[_repeating(previous, settings.no_repeat_ngram)] = _NEVER
    if length < settings.min_tokens:
        scores[end] = _NEVER
    return scores


def _repeating(previous: Sequence[int], count: int) -> list[int]:
    """The tokens with which the last `count` tokens would be some that came before."""
    if len(previous) < count:
        return []
    begun = list(previous[len(previous) - count + 1 :])
    return [
        previous[at + count - 1]
        for at in range(len(previous) - count + 1)
        if list(previous[at : at + count - 1]) == begun
    ]


def _sample(scores: Floats, settings: DecodingSettings, generator: np.random.Generator) -> int:
    """Sample one token of the nucleus: the likeliest tokens that together reach `top_p`, at least one."""
    probabilities = np.exp(_log_softmax(scores / settings.temperature))
    order = np.argsort(-probabilities, kind="stable")
    reached = np.cumsum(probabilities[order])
    nucleus = int(np.searchsorted(reached, settings.top_p)) + 1
    point = generator.random() * reached[min(nucleus, len(reached)) - 1]
    return int(order[np.searchsorted(reached[:nucleus], point, side="right").clip(max=nucleus - 1)])


def _log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max()
    normalised: Floats = shifted - np.log(np.exp(shifted).sum())
    return normalised


@dataclass
class _Text:
    """One text's search: its running beams by descending score, its finished ones by descending length-scaled score."""

    running: list[tuple[float, list[int]]]
    finished: list[tuple[float, list[int]]] = field(default_factory=list)
    over: bool = False


def _beam_search(
    logits: NDArray[np.float32], advance: Advance, settings: DecodingSettings, prompt: Sequence[int], end: int
) -> list[list[int]]:
    beams = settings.beams
    # All beams start equal, so only the first may be continued at the first step.
    texts = [_Text([(0.0 if beam == 0 else _NEVER, []) for beam in range(beams)]) for _ in range(len(logits) // beams)]
    for length in range(1, settings.max_tokens + 1):
        tokens, parents = np.full(len(logits), end, np.int64), np.arange(len(logits))
        for at, text in enumerate(texts):
            first = at * beams
            if not text.over:
                chosen = _extend(text, logits[first : first + beams], length, settings, prompt, end)
                tokens[first : first + beams] = [token for _, token in chosen]
                parents[first : first + beams] = [first + parent for parent, _ in chosen]
        if all(text.over for text in texts):
            break
        logits = advance(tokens, parents)
    return [text.finished[0][1] for text in texts]


def _extend(
    text: _Text, logits: NDArray[np.float32], length: int, settings: DecodingSettings, prompt: Sequence[int], end: int
) -> list[tuple[int, int]]:
    """Extend a text's beams by one token; returns (parent beam, token) of the new beams."""
    beams, last = settings.beams, length == settings.max_tokens
    scores = np.stack(
        [
            score + _apply_rules(_log_softmax(row.astype(np.float64)), [*prompt, *tokens], length - 1, settings, end)
            for row, (score, tokens) in zip(logits, text.running, strict=True)
        ]
    )
    best = np.argsort(-scores, axis=None, kind="stable")[: 2 * beams]
    candidates = [(*divmod(int(i), scores.shape[1]), float(scores.flat[i])) for i in best]
    scale = length**settings.length_penalty
    going: list[tuple[int, int, float]] = []
    for rank, (parent, token, score) in enumerate(candidates):
        if score == _NEVER:
            continue
        tokens = text.running[parent][1]
        if token == end or last:
            if rank < beams:  # as in transformers: an end outside the best `beams` candidates is dropped
                text.finished.append((score / scale, tokens if token == end else [*tokens, token]))
        elif len(going) < beams:
            going.append((parent, token, score))
    text.finished = sorted(text.finished, key=lambda text: -text[0])[:beams]
    if not going:
        text.over = True
        text.finished = text.finished or text.running[:1]  # every token would repeat
        return [(0, end)] * beams
    text.running = [(score, [*text.running[parent][1], token]) for parent, token, score in going]
    missing = beams - len(going)
    text.running += [(_NEVER, text.running[0][1])] * missing
    # No running beam can still beat the worst of the finished, were it to end now (transformers' early_stopping=False).
    full = len(text.finished) == beams
    text.over = full and (settings.early_stopping or text.running[0][0] / scale <= text.finished[-1][0])
    return [(parent, token) for parent, token, _ in going] + [(going[0][0], going[0][1])] * missing
