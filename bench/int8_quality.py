"""Claim: the denoiser in int8 costs no quality that the referee sees (at most a point on each measure) and is faster.

Quality first: the referee judges the same variants of held-out scenes painted with the plan that the int8 plan is
made of, and with that, all else as the profile says. The difference is told with the interval in which it would lie for
other scenes. Then the same variants are painted by turns with both, and timed. The ceiling is this machine's matrix
product in int8. The last line is JSON; the bench ends with an error where a measure loses more than a point.

Few scenes cannot tell a point: of 140 with 3 variants each, 167 edits are of colours, two of them are 1.2 points, and
the interval is four points wide. The first 140 by themselves lose those 1.2 points; the first 600, with them, lose 0.1.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from judging import MEASURES, differences, measures
from measure import compare, finish, with_masters
from streets import set_up

from counterfactory.engine.estimate.estimate import cpu_precision
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.estimate.peak import measure_peak
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import SIZE
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.stages.paint.paint_variants import paint
from counterfactory.export.pocket.int8 import master_of
from counterfactory.export.pocket.judged import Judged, judge_variants

# Points that a measure may lose.
_ALLOWED = 1.0


def painted_with(profile: Profile, denoiser: str) -> Profile:
    """The profile with another denoiser."""
    return replace(profile, paint=replace(profile.paint, denoiser=denoiser))


def psnr(a: Sequence[Judged], b: Sequence[Judged]) -> float:
    """Mean over variants of the PSNR between two ways, dB."""
    errors = [np.mean((one.picture.astype(np.float64) - two.picture) ** 2) for one, two in zip(a, b, strict=True)]
    return float(np.mean(10 * np.log10(255**2 / np.maximum(errors, 1e-9))))


def quality(profile: Profile, candidate: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Judge both, print it, and return it."""
    referee = Referee.load(profile.models.path)
    with tempfile.TemporaryDirectory() as folder:
        judged = {
            name: judge_variants(
                painted_with(profile, name), Path(folder), referee, asked.sources, asked.variants, asked.first
            )
            for name in (master_of(candidate), candidate)
        }
    found = {name: measures(some) for name, some in judged.items()}
    apart = differences(judged[master_of(candidate)], judged[candidate])
    for name in MEASURES:
        shares = "  ".join(f"{way} {of[name]:.4f}" for way, of in found.items())
        print(f"{name:15} {shares}  {apart[name]}", flush=True)
    alike = psnr(judged[master_of(candidate)], judged[candidate])
    print(f"{len(judged[candidate])} variants of {asked.sources} scenes; pictures {alike:.1f} dB from each other")
    points = {name: asdict(difference) for name, difference in apart.items()}
    return {"judged": found, "points": points, "psnr_db": alike}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--denoiser", default="denoiser_few_int8", help="compared with the plan that it was made of")
    parser.add_argument("--sources", type=int, default=600, help="scenes that the referee judges")
    parser.add_argument("--first", type=int, default=0, help="the first of them, in the stream that no training saw")
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    profile = with_masters(load_profile("pocket"))
    told = quality(profile, asked.denoiser, asked)

    def painter(denoiser: str) -> Callable[[], object]:
        easel = set_up(painted_with(profile, denoiser), 8, 4)
        return lambda: list(paint(easel.jobs, easel.negative, profile.paint))

    ratio = compare(painter(master_of(asked.denoiser)), painter(asked.denoiser), asked.rounds)
    print(f"painting, decoding included, against `{master_of(asked.denoiser)}`: {ratio}")
    candidate = painted_with(profile, asked.denoiser)
    fact = known_facts(candidate, library_of(candidate), (SIZE, SIZE))[asked.denoiser]
    precision = "int8" if fact.integers else cpu_precision(profile)
    peak = measure_peak(precision, profile.runtime.threads)
    share = 8 * 4 * profile.paint.rows_per_variant * fact.flops / peak / ratio.candidate.wall_s
    print(f"denoising is {share:.0%} of this machine's matrix product: {peak / 1e12:.3f} TFLOP/s in {precision}")
    finish("int8_quality", ratio, share, **told)
    lost = [name for name, difference in told["points"].items() if difference["points"] < -_ALLOWED]
    if lost:
        raise SystemExit(f"{asked.denoiser} loses more than a point: {', '.join(lost)}")


if __name__ == "__main__":
    main()
