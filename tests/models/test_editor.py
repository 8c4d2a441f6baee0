"""Rows of the editor become a batch: whom each follows, and each array under its input's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.editor import EditorPlans, EditorRow, RowHint
from counterfactory.engine.models.picture_networks import LatentEncoder
from counterfactory.engine.runtime.session import Array, Port, Signature

LATENT, TOKENS, WIDTH = (2, 3, 4), 5, 6


class Recording:
    """A network that keeps what it was given and answers with numbers that tell the rows apart."""

    def __init__(self, batch: int = 4) -> None:
        self.batch, self.given = batch, list[dict[str, Array]]()
        self.signature = Signature((Port("hint", (4, 1, None, None), "float32"),), ())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        self.given.append(dict(feeds))
        if list(feeds) == ["hint"]:
            return {"hint_embedding": feeds["hint"] * 3}
        if list(feeds) == ["latents"]:
            return {"pixel_values": feeds["latents"] / 100}
        return {"prediction": feeds["latents"] * 2, "attention": feeds["words"] + 7}


def plans(network: Recording) -> EditorPlans:
    batched = cast(Batched, network)
    return EditorPlans(LatentEncoder(batched), batched, batched, LATENT)


def row(number: int, follows: int = 0, takes_self: bool = False) -> EditorRow:
    def full(base: int, *shape: int) -> Any:
        return np.full(shape, base + number, np.float32)

    edit = full(200, TOKENS, TOKENS), full(300, TOKENS), full(400, TOKENS)
    return EditorRow(full(0, *LATENT), 10 * number, full(100, TOKENS, WIDTH), *edit, follows, takes_self)


def test_rows_bring_what_their_controlnet_follows() -> None:
    network = Recording()
    hints = [RowHint(np.full((6, 3, 4), number, np.float32), 0.5 * number) for number in (1, 2)]
    plans(network).evaluate([replace(row(number), hint=hint) for number, hint in enumerate(hints)])
    (fed,) = network.given
    assert fed["hint_embedding"].shape == (2, 6, 3, 4)
    assert fed["hint_embedding"][:, 0, 0, 0].tolist() == [1, 2]
    assert (fed["control_scale"].dtype, fed["control_scale"].tolist()) == (np.float32, [0.5, 1.0])
    edges = np.full((2, 8, 8), 255, np.uint8)
    embedded = replace(plans(Recording()), hints=(cast(Batched, network),)).embed_hints(edges)
    assert [(found.shape, float(found.max())) for found in embedded] == [((1, 8, 8), 3.0)] * 2


def test_rows_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="the editor's plan takes 4 rows, got 5"):
        plans(Recording()).evaluate([row(i) for i in range(5)])
    with pytest.raises(ValueError, match="a row follows one that is not in its batch"):
        plans(Recording()).evaluate([row(1), row(2, follows=2)])


def test_latents_become_pictures() -> None:
    (shown,) = plans(Recording()).decode(np.full((1, 3, 2, 2), 100, np.float32))
    assert (shown.dtype, shown.shape) == (np.uint8, (2, 2, 3))
    assert (shown == 255).all()
