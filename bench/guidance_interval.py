"""Claim: guidance on half of the steps denoises at least 1.3 times as fast and costs no quality.

Quality first: the referee judges variants of held-out scenes under full guidance, the profile's, other intervals, none,
other numbers of steps and the other sampler, all over the same captions. Then the same variants are painted by turns
under full guidance and the profile's, and timed. The last line is JSON; `table` holds the judgements.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judging import measures
from measure import compare, finish
from streets import set_up

from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.stages.paint.paint_variants import paint
from counterfactory.export.pocket.judged import judge_variants
from counterfactory.export.pocket.packed import MASTERS

_FULL_SCALE = 2.0  # the best of guidance on all steps
_INTERVALS = ((0.0, 0.25), (0.0, 0.5), (0.25, 0.75), (0.0, 0.75), (0.0, 0.0))
_LATE_SCALES = (2.0, 3.0, 4.0)
_STEPS = (4, 8, 12, 20)


@dataclass(frozen=True)
class Trial:
    """Paint settings with a name."""

    name: str
    paint: PaintSettings


def trials(settings: PaintSettings, brief: bool) -> Iterator[Trial]:
    """What is judged: full guidance and the profile's; then intervals, scales of the late half, steps, DDIM."""

    def guided(start: float, stop: float, scale: float) -> PaintSettings:
        return replace(settings, guidance=GuidanceSettings(scale, start, stop))

    full = guided(0.0, 1.0, _FULL_SCALE)
    yield Trial("full", full)
    yield Trial("the profile", settings)
    if brief:
        return
    for start, stop in _INTERVALS:
        yield Trial(f"guided {start:.0%} to {stop:.0%}, scale {_FULL_SCALE:g}", guided(start, stop, _FULL_SCALE))
    for scale in _LATE_SCALES:
        yield Trial(f"guided 50% to 100%, scale {scale:g}", guided(0.5, 1.0, scale))
    for steps in _STEPS:
        if steps != settings.sampler.steps:
            yield Trial(f"full, {steps} steps", replace(full, sampler=replace(full.sampler, steps=steps)))
    yield Trial("full, DDIM", replace(full, sampler=replace(full.sampler, kind="ddim")))


def judge(profile: Profile, folder: Path, referee: Referee, asked: argparse.Namespace) -> dict[str, Any]:
    """Shares of edits and colours seen, layout kept, and rows per variant."""
    found = measures(judge_variants(profile, folder, referee, asked.sources, asked.variants))
    rounded = {name: round(share, 4) for name, share in found.items()}
    return {**rounded, "rows_per_variant": profile.paint.rows_per_variant}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=60, help="scenes that the referee judges")
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--brief", action="store_true", help="judge full guidance and the profile's only")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    profile = load_profile("pocket-full")
    table: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        referee = Referee.load(MASTERS)
        for trial in trials(profile.paint, asked.brief):
            table[trial.name] = judge(replace(profile, paint=trial.paint), Path(folder), referee, asked)
            row = table[trial.name]
            print(
                f"{trial.name:28} weather, time {row['edit_success']:6.1%}  colour {row['colour_success']:6.1%}  "
                f"layout {row['layout_miou']:.3f}  rows {row['rows_per_variant']}",
                flush=True,
            )
    easel = set_up(profile, 16, 4)  # so many that the last batches, which are not full, count for little, as in a shard
    half = profile.paint
    full = replace(half, guidance=GuidanceSettings(_FULL_SCALE, 0.0, 1.0))
    ratio = compare(
        lambda: list(paint(easel.jobs, easel.negative, full)),
        lambda: list(paint(easel.jobs, easel.negative, half)),
        asked.rounds,
    )
    print(f"guidance as in the profile against on all steps: {ratio}")
    print(f"rows {full.rows_per_variant} against {half.rows_per_variant}: the ceiling of the ratio is their quotient")
    finish("guidance_interval", ratio, ratio.median * half.rows_per_variant / full.rows_per_variant, table=table)


if __name__ == "__main__":
    main()
