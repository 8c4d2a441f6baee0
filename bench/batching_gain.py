"""Claim: rows of many variants in one full batch are denoised faster than each variant by itself.

The same variants are painted with the profile's batch and with plans of two rows, one guided variant a call on all
cores, as a pipeline called image by image does it. Pictures must be equal. The last line is JSON.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from measure import compare, finish
from numpy.typing import NDArray
from streets import set_up

from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.paint.paint_variants import paint


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=4)
    parser.add_argument("--variants", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    batched = load_profile("pocket")
    single = replace(batched, paint=replace(batched.paint, batch=2, decode_batch=1, streams=1))
    one, many = (set_up(profile, asked.sources, asked.variants) for profile in (single, batched))
    pictures: dict[str, dict[int, NDArray[np.uint8]]] = {}

    def one_by_one() -> None:
        pictures["one"] = {
            i: picture for i, job in enumerate(one.jobs) for _, picture in paint([job], one.negative, single.paint)
        }

    def together() -> None:
        pictures["many"] = dict(paint(many.jobs, many.negative, batched.paint))

    ratio = compare(one_by_one, together, asked.rounds)
    worst = max(int(np.abs(pictures["one"][i].astype(int) - pictures["many"][i]).max()) for i in pictures["one"])
    assert worst <= 2, f"pictures differ by {worst} levels"
    count = len(many.jobs)
    print(f"one variant a call   {count / ratio.baseline.wall_s:.2f} images/s")
    print(f"batch of {batched.paint.batch:2}          {count / ratio.candidate.wall_s:.2f} images/s")
    print(f"ratio                {ratio}; pictures differ by at most {worst} of 255 levels")
    finish("batching_gain", ratio, images_per_s=count / ratio.candidate.wall_s, largest_difference=worst)


if __name__ == "__main__":
    main()
