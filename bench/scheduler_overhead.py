"""Claim: the scheduler and the sampler cost next to nothing beside the networks, and leave no slot of a batch empty.

Paints variants with real plans: wall time against the time inside sessions, and rows against slots. Then 500 variants
over a session that answers at once: what is left is the host's time per row, and the fill. The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure import figures_of, finish, keep_quiet
from streets import set_up

from counterfactory.engine.meter.meter import Work
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.session import Array, Signature
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint


@dataclass(frozen=True)
class _Instant:
    """Answers every batch with arrays made beforehand."""

    signature: Signature
    answer: dict[str, Array]

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        return dict(self.answer)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=8)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--scheduled", type=int, default=500, help="variants over instant plans")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    profile = load_profile("pocket")
    easel = set_up(profile, asked.sources, asked.variants)
    easel.meter.current = "paint"

    def paint_once(_: int) -> float:
        """Wall time over time inside sessions."""
        before = sum(plan.busy_s for plan in easel.meter.plans())
        began = time.perf_counter()
        list(paint(easel.jobs, easel.negative, profile.paint))
        wall = time.perf_counter() - began
        return wall / (sum(plan.busy_s for plan in easel.meter.plans()) - before)

    paint_once(-1)  # warms up
    shares = keep_quiet(paint_once, asked.rounds).results
    real = statistics.median(shares)
    job = easel.jobs[0]
    batch, shape = profile.paint.batch, job.plans.latent_shape
    work = Work()
    zeros = np.zeros((batch, *shape), np.float32)
    pixels = np.zeros((profile.paint.decode_batch, 3, 128, 128), np.float32)
    instant = PaintPlans(
        job.plans.hint,
        Batched(_Instant(job.plans.denoiser.signature, {"prediction": zeros}), lambda: work),
        Batched(_Instant(job.plans.decoder.signature, {"pixel_values": pixels})),
        shape,
    )
    jobs = [PaintJob(f"{i:04d}", job.text, job.hint, instant) for i in range(asked.scheduled)]
    began = time.perf_counter()
    list(paint(jobs, easel.negative, profile.paint))
    host = time.perf_counter() - began
    rows = asked.scheduled * profile.paint.rows_per_variant
    assert work.rows == rows, "rows were lost or made twice"
    spread = f"{min(shares):.3f} to {max(shares):.3f}, {len(shares)} of {asked.rounds} rounds"
    print(f"painting {len(easel.jobs)} variants: wall time over time inside sessions {real:.3f} ({spread})")
    print(f"{asked.scheduled} variants over instant plans: {1e6 * host / rows:.0f} us of host time per row")
    print(f"fill {work.fill:.2%} ({work.rows} rows in {work.calls} batches of {batch})")
    print(f"host time outside sessions {1 - 1 / real:.2%} of the wall time")
    finish(
        "scheduler_overhead",
        None,
        **figures_of(shares, asked.rounds),
        fill=work.fill,
        host_share=1 - 1 / real,
        host_us_per_row=1e6 * host / rows,
    )


if __name__ == "__main__":
    main()
