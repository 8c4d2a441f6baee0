"""How surprising texts are to a Llama on a CPU: the perplexity that text filters and benches go by.

Texts are read side by side behind one beginning, which is read once. The graph gives logits after a row's last token
alone, so that rows go on token by token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .llama import Common, Llama

_BEGINNING = "A caption of a photograph:"
_ROWS = 64


def surprises(llama: Llama, texts: Sequence[str]) -> list[float]:
    """The mean of -log p over the tokens of each text, in nats; its perplexity is e to that.

    A text depends on no other. One without letters is no surprise, and gives 0.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    means = np.zeros(len(texts))
    *before, last = llama.encode(_BEGINNING)
    common = llama.beginning(before)
    for start in range(0, len(order), _ROWS):
        part = order[start : start + _ROWS]
        means[part] = _read(llama, [[last, *llama.encode(f" {texts[i]}")] for i in part], common)
    return [float(value) for value in means]


def _read(llama: Llama, rows: Sequence[Sequence[int]], common: Common) -> list[float]:
    longest = max(map(len, rows))
    cache = llama.rows(len(rows), longest)
    total = np.zeros(len(rows))
    for at in range(longest - 1):
        runs = [row[at : at + 1] if at + 1 < len(row) else [] for row in rows]
        logits = llama.step(runs, common, cache, 0, np.full(len(rows), at))
        for i, row in enumerate(rows):
            if runs[i]:
                scores = logits[i] - logits[i].max()
                total[i] += float(np.log(np.exp(scores).sum()) - scores[row[at + 1]])
    return [value / max(1, len(row) - 1) for value, row in zip(total, rows, strict=True)]
