"""Claim: a distilled denoiser paints in a few rows as well as its teacher in many, by the referee, sharpness and KID.

Both paint the same captions over the same held-out scenes from the same noise; so does the teacher in as few unguided
steps, which says what distilling bought. A referee does not see blur, hence the other two: the mean absolute Laplacian
over the sources', and the distance of the pictures' distribution from that of the truth's renderings (KID by the packed
CLIP). Each difference is told with the 95 % interval in which it would lie for other scenes. The last line is JSON; the
bench ends with an error where the referee sees a point less, or where pictures are less sharp or farther from the truth
by more than the interval leaves open.

The student is that of `--weights`, a folder that `export pocket --only distil` packed, or of a profile with a teacher.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from measure import finish, with_masters
from numpy.typing import NDArray
from scipy.stats import t as student_t

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import WORLDS, world_named
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.distil import STUDENT, student_paint
from counterfactory.export.pocket.int8 import full_profile
from counterfactory.export.pocket.likeness import describe_extractor, scaled, sharpness
from counterfactory.export.pocket.observed import Observed, edit_shares, layout_kept
from counterfactory.export.pocket.pairs import Pair, draw_pairs, observe_pairs, paint_pairs

Floats = NDArray[np.float64]
Chosen = NDArray[np.bool_]
# What the referee may see less of, as a share, in these; its finer figures are of few variants and only shown.
_ALLOWED = 0.01
_SEEN = ("edit_success", "colour_success", "background_success", "domain_success", "object_success", "layout_miou")
_GROUPS = 20  # of scenes, each left out once


@dataclass(frozen=True)
class Difference:
    """Student minus teacher, and the 95 % interval of it over scenes."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def jackknifed(measures: Callable[[Chosen], Mapping[str, float]], scenes: NDArray[np.int64]) -> dict[str, Difference]:
    """Each of the differences that `measures` finds between variants (those chosen, bool [N]): for all of them, with
    its interval by leaving out a group of scenes at a time (the delete-a-group jackknife, Kott 2001). `scenes` int64
    [N] says whose each variant is. What some of the groups alone can tell is left out.
    """
    known, at = np.unique(scenes, return_inverse=True)
    groups = min(_GROUPS, len(known))
    group = (np.random.default_rng(0).permutation(len(known)) % groups)[at]
    parts = [measures(group != one) for one in range(groups)]
    reach = float(student_t.ppf(0.975, groups - 1))
    found = {}
    for name, value in measures(np.ones(len(scenes), bool)).items():
        if not all(name in part for part in parts):
            continue
        left = np.array([part[name] for part in parts])
        half = reach * float(np.sqrt((groups - 1) / groups * ((left - left.mean()) ** 2).sum()))
        found[name] = Difference(value, value - half, value + half)
    return found


def faults(differences: Mapping[str, Difference]) -> list[str]:
    """What the student does worse than it may."""
    found = [name for name in _SEEN if name in differences and differences[name].value < -_ALLOWED]
    if differences["sharpness"].high < 0:
        found.append("sharpness")
    if differences["kid"].low > 0:
        found.append("kid")
    return found


def kernel(a: Floats, b: Floats) -> Floats:
    """(a.b / D + 1)^3 of features [N, D] and [M, D], KID's kernel (Bińkowski et al. 2018, arXiv 1801.01401)."""
    return np.asarray((a @ b.T / a.shape[1] + 1) ** 3)


def distance(of_pictures: Floats, across: Floats, of_truth: Floats, scenes: NDArray[np.int64]) -> float:
    """KID from kernels [N, N] within pictures, from pictures to truth, and within truth, over all pairs of variants of
    different scenes: pictures of one layout are alike, whoever made them.
    """
    apart = scenes[:, None] != scenes[None]
    return float(of_pictures[apart].mean() + of_truth[apart].mean() - 2 * across[apart].mean())


@dataclass(frozen=True)
class Painted:
    """What a way painted of the pairs, and its kernels within itself and to the truth, [N, N]."""

    observed: Sequence[Observed]
    within: Floats
    across: Floats

    def measures(self, of_truth: Floats, scenes: NDArray[np.int64], chosen: Chosen) -> dict[str, float]:
        """The referee's, sharpness and KID of the variants chosen, bool [N]."""
        some = [one for one, taken in zip(self.observed, chosen, strict=True) if taken]
        sharp = sharpness([one.picture for one in some]) / sharpness([one.drawing.picture for one in some])
        square = np.ix_(chosen, chosen)
        far = distance(self.within[square], self.across[square], of_truth[square], scenes[chosen])
        return edit_shares(some) | {"layout_miou": layout_kept(some)["layout_miou"], "sharpness": sharp, "kid": far}


def profiles_of(asked: argparse.Namespace) -> dict[str, Profile]:
    """Teacher, student, and the teacher in the student's steps."""
    if asked.weights is not None:
        teacher = full_profile(asked.weights)
        few = replace(student_paint(teacher.paint, asked.rows), denoiser=f"{STUDENT}_int8")
        student = replace(teacher, paint=few)
    else:
        student = load_profile(asked.profile)
        if student.teacher is None:
            raise SystemExit(
                f"profile {student.name} has no teacher: name a student's folder with --weights, or another --profile"
            )
        student, teacher = with_masters(student), with_masters(painting_as_teacher(student))
    untaught = replace(student, paint=replace(student.paint, denoiser=teacher.paint.denoiser))
    return {"teacher": teacher, "student": student, "untaught": untaught}


def paint_all(pairs: Sequence[Pair], profile: Profile, referee: Referee, truth: Floats) -> Painted:
    """One way's pictures of the pairs; `truth` are the features of their renderings, [N, D]."""
    models, side = ModelPool(library_of(profile), Meter(lambda _: None)), profile.image.short_side
    pictures = paint_pairs(pairs, profile, models.paint_plans(side, side), models.clip_text())
    features = scaled(models.clip_image().encode(pictures))
    return Painted(observe_pairs(pairs, pictures, referee), kernel(features, features), kernel(features, truth))


def draw_sheet(pairs: Sequence[Pair], ways: Mapping[str, Painted], path: Path, count: int = 12) -> None:
    """Columns of source, truth and each way, at double size."""
    rows = [
        np.hstack([pair.drawing.picture, pair.target.picture, *(way.observed[i].picture for way in ways.values())])
        for i, pair in enumerate(pairs[:count])
    ]
    whole = cv2.resize(np.vstack(rows), None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST)
    cv2.imwrite(str(path), cv2.cvtColor(whole, cv2.COLOR_RGB2BGR))


def compare(pairs: Sequence[Pair], ways: Mapping[str, Painted], of_truth: Floats) -> dict[str, dict[str, Any]]:
    """Measures of every way, and the differences to the teacher of all others."""
    names = sorted({pair.source for pair in pairs})
    scenes = np.array([names.index(pair.source) for pair in pairs])
    everything = np.ones(len(pairs), bool)
    told = {name: way.measures(of_truth, scenes, everything) for name, way in ways.items()}

    def apart(name: str) -> dict[str, Difference]:
        def measures(chosen: Chosen) -> dict[str, float]:
            theirs, ours = (ways[way].measures(of_truth, scenes, chosen) for way in ("teacher", name))
            return {measure: value - theirs[measure] for measure, value in ours.items()}

        return jackknifed(measures, scenes)

    return {"measured": told, "differences": {name: apart(name) for name in ways if name != "teacher"}}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="pocket", help="a profile with a teacher")
    parser.add_argument("--weights", type=Path, help="or a folder of packed models, with a student among them")
    parser.add_argument("--rows", type=int, default=2, help="the rows a variant that it was distilled to")
    parser.add_argument("--world", default="streets", choices=sorted(WORLDS))
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--variants", type=int, default=2, help="of each scene")
    parser.add_argument("--first", type=int, default=0, help="the first scene, in the stream that no training saw")
    parser.add_argument("--sheet", type=Path, help="a picture file for the first variants of all ways, side by side")
    asked = parser.parse_args()
    profiles, world = profiles_of(asked), world_named(asked.world)
    weights = profiles["student"].models.path
    pairs = draw_pairs(world, COUNTERFACTS[world.name], HELD_OUT, asked.scenes, asked.variants, asked.first)
    clip = ModelPool(library_of(profiles["teacher"]), Meter(lambda _: None)).clip_image()
    truth = scaled(clip.encode([pair.target.picture for pair in pairs]))
    referee = Referee.load(weights, world.vocabulary)
    ways = {name: paint_all(pairs, profile, referee, truth) for name, profile in profiles.items()}
    found = compare(pairs, ways, kernel(truth, truth))
    for measure in found["differences"]["student"]:
        line = "  ".join(f"{name} {found['measured'][name][measure]:.4f}" for name in ways)
        print(f"{measure:18} {line}  student {found['differences']['student'][measure]}")
    if asked.sheet:
        draw_sheet(pairs, ways, asked.sheet)
    finish(
        "few_steps",
        None,
        world=world.name,
        variants=len(pairs),
        extractor=describe_extractor(weights),
        rows={name: profile.paint.rows_per_variant for name, profile in profiles.items()},
        measured=found["measured"],
        differences={way: {k: asdict(d) for k, d in of.items()} for way, of in found["differences"].items()},
    )
    if lost := faults(found["differences"]["student"]):
        raise SystemExit(f"the student does worse than its teacher: {', '.join(lost)}")


if __name__ == "__main__":
    main()
