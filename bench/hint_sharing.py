"""Claim: edges and hint embedding made once a source, not once a variant and step, save denoising time.

Baseline: for every variant the edge map, and at every step the hint encoder, as a ControlNet pipeline does it. Both
sides denoise the same rows in the same batches. Pictures must be equal. The last line is JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from measure import compare, finish
from numpy.typing import NDArray
from streets import set_up

from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.maps.edges import edge_maps
from counterfactory.engine.stages.paint.paint_variants import paint


@dataclass(frozen=True)
class _Forgetful(PaintPlans):
    """Embeds the hint of each row anew; a row's hint is its variant's edge map."""

    def evaluate(self, rows: Sequence[DenoiserRow]) -> Sequence[Any]:
        edges = np.stack([row.hint for row in rows]).astype(np.uint8)
        hints = self.embed_hints(edges)
        return super().evaluate([replace(row, hint=hint) for row, hint in zip(rows, hints, strict=True)])


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=3)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    profile = load_profile("pocket")
    easel = set_up(profile, asked.sources, asked.variants)
    images = np.stack([EMBEDDED.draw(EMBEDDED.scene(55, i)).picture for i in range(asked.sources)])
    kept: dict[str, dict[int, NDArray[np.uint8]]] = {}

    def each_time() -> None:
        jobs = []
        for i, job in enumerate(easel.jobs):
            source = i // asked.variants
            edges = edge_maps(images[source][None], profile.edges)[0]
            plans = _Forgetful(job.plans.hint, job.plans.denoiser, job.plans.decoder, job.plans.latent_shape)
            jobs.append(replace(job, hint=edges.astype(np.float32), plans=plans))
        kept["each"] = dict(paint(jobs, easel.negative, profile.paint))

    def once() -> None:
        edges = edge_maps(images, profile.edges)
        hints = [easel.jobs[0].plans.embed_hints(one[None])[0] for one in edges]
        jobs = [replace(job, hint=hints[i // asked.variants]) for i, job in enumerate(easel.jobs)]
        kept["once"] = dict(paint(jobs, easel.negative, profile.paint))

    ratio = compare(each_time, once, asked.rounds)
    assert all(np.array_equal(kept["each"][i], kept["once"][i]) for i in kept["once"]), "pictures differ"
    print(f"hint shared by {asked.variants} variants and {profile.paint.sampler.steps} steps: {ratio}; equal pictures")
    finish("hint_sharing", ratio)


if __name__ == "__main__":
    main()
