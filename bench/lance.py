"""Claim: the editor that inverts keeps what no edit touches, at 10 times the throughput of LANCE's way in diffusers.

Held-out scenes go through the journey twice, by the profiles `pocket-lance` and `pocket-full`, with the same captions
and the same single edits. The referee says whether an edit is seen. Where the truth, the scene rendered anew after its
edit, equals the source, a picture should equal it too: that is told in dB, of one profile above the other. Controls,
and sources that were only encoded and decoded, are held against the sources: PSNR, and how often the models under test
answer as before. Then pictures are inverted and edited by turns with the engine, many together, and with diffusers, one
after the other (null-text inversion and prompt-to-prompt, the same networks, steps and shares of them), timed per
scene. Where the profile has a control scale the engine follows edges too, which LANCE's way does not.

The figures go to docs/lance.json with --write, each part's when it is done; --only names the parts to take.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from journeys import save_sources
from lance_peer import LancePeer
from measure import (
    DOCS,
    Pixels,
    bench_parser,
    compare,
    finish,
    keep_figures,
    machine,
    open_yardstick,
    psnr,
    spent,
    with_masters,
)

from counterfactory.engine.edit import Edit
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.editor import RowHint
from counterfactory.engine.models.inversion import Path as Trajectory
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.pocket.judges import Classifier, Referee, Segmenter
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.schedule.evaluations import run_jobs
from counterfactory.engine.sources.source import Pictures as SourcePictures
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.edit_search import SourceWay, invert_source
from counterfactory.engine.stages.paint.edit_variants import choose, edit_candidates, restore_detail, row_hints
from counterfactory.engine.stages.run import Run
from counterfactory.engine.variant import Variant
from counterfactory.export.graphs.null_text import NullText
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.observed import Judged, held_out, judge_variants
from counterfactory.export.pocket.restore import restore_clip, restore_denoiser, restore_vae
from counterfactory.export.pocket.sheet import draw_blocks

# Of a picture's pixels, lest a few at an edge decide.
_LEAST_OUTSIDE = 0.05
_SHOWN = 8  # scenes on the sheet
# The last is the one that wants an idle machine.
_PARTS = ("reconstruction", "quality", "speed")


def outside_db(judged: Sequence[Judged]) -> list[float | None]:
    """Of each picture, how near it is to its source where its edit changes nothing; None where it changes nearly all,
    or nobody can say what.
    """
    found: list[float | None] = []
    for one in judged:
        where = None if one.target is None else (one.target.picture == one.drawing.picture).all(-1)
        kept = where is not None and where.mean() >= _LEAST_OUTSIDE
        found.append(psnr(one.picture, one.drawing.picture, where) if kept else None)
    return found


def success(judged: Sequence[Judged]) -> dict[str, float]:
    """The share of edits that the referee sees, of all and by type."""
    seen: dict[str, list[bool]] = {"all": []}
    for one in judged:
        for number, edit_ in enumerate(one.row.edits):
            if (answer := one.edit_seen(number)) is not None:
                seen["all"].append(answer)
                seen.setdefault(edit_.type, []).append(answer)
    return {type_: float(np.mean(answers)) for type_, answers in sorted(seen.items())}


def quality(lance: Profile, pocket: Profile, asked: argparse.Namespace) -> dict[str, Any]:
    referee = Referee.load(lance.models.path)
    request = SuiteRequest(street_task("segmentation"), asked.variants, 0, (1, 1), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        edited, painted = (
            judge_variants(profile, Path(folder), referee, request, range(asked.sources)) for profile in (lance, pocket)
        )
    if [one.row.edited_caption for one in edited] != [one.row.edited_caption for one in painted]:
        raise SystemExit("the two profiles made different variants, so nothing can be compared")
    both = zip(edited, outside_db(edited), outside_db(painted), strict=True)
    pairs = [(one.row.edits[0].type, a, b) for one, a, b in both if a is not None and b is not None]
    ours, theirs = np.mean([(a, b) for _, a, b in pairs], axis=0).tolist()
    types = sorted({type_ for type_, *_ in pairs})
    gains = {of: float(np.mean([a - b for type_, a, b in pairs if type_ == of])) for of in types}
    by_type, of_painter = success(edited), success(painted)
    if asked.write:
        draw_pairs(edited, painted, asked.variants)
    print(f"{len(edited)} variants; edits seen: {by_type}, painted anew: {of_painter}")
    print(f"outside of {len(pairs)} edits {ours:.1f} dB, painted anew {theirs:.1f} dB")
    seen = {"": by_type["all"], "_by_type": by_type, "_painted": of_painter["all"]}
    outside = {"outside_db": ours, "outside_painted_db": theirs, "outside_gain_db": ours - theirs}
    successes = {f"edit_success{name}": value for name, value in seen.items()}
    return {"variants": len(edited), **successes, **outside, "outside_gain_db_by_type": gains}


def draw_pairs(edited: Sequence[Judged], painted: Sequence[Judged], each: int) -> None:
    """docs/lance.webp: sources, an edit of each, the same painted anew, and the truth where it is known."""
    blocks = []
    for one, other in list(zip(edited, painted, strict=True))[:: each + 1][:_SHOWN]:  # each time another of its edits
        (edit_,), painting = one.row.edits, one.row.painting
        held = None if painting is None else painting.self_attention
        kept = "" if held is None else f"source held {held:.0%} of steps"
        tiles = [
            (one.drawing.picture, f"source\n{edit_.value}, was {edit_.keyword}"),
            (one.picture, f"edited\n{kept}"),
            (other.picture, "painted anew"),
        ]
        blocks.append([*tiles, (one.target.picture, "rendered truth")] if one.target is not None else tiles)
    draw_blocks(blocks, 2, DOCS / "lance.webp")


def reconstruction(profile: Profile, models: ModelPool, count: int) -> dict[str, float]:
    """Controls, and sources that were only encoded and decoded: how near they are to the sources, and how often the
    models under test answer as before.
    """
    assert profile.invert is not None
    levels = profile.invert.detail_levels
    pictures = np.stack([drawing.picture for _, drawing in held_out(range(count))])
    plans = models.editor_plans(*pictures.shape[1:3])
    latents = plans.encoder.encode(pictures)
    shown = controls = np.concatenate([np.stack(plans.decode(latents[i : i + 8])) for i in range(0, count, 8)])
    if levels:
        pairs = zip(shown, pictures, strict=True)
        controls = np.stack([restore_detail(one, one, picture, levels) for one, picture in pairs])
    kinds, masks = (judge.load(profile.models.path) for judge in (Classifier, Segmenter))
    answers, maps = kinds.predict(pictures), masks.predict(pictures)
    found: dict[str, float] = {}
    for name, some in (("", controls), ("autoencoder_", shown)):
        found |= {
            f"{name}reconstruction_psnr_db": float(np.mean([psnr(a, b) for a, b in zip(pictures, some, strict=True)])),
            f"{name}prediction_agreement": float(np.mean(np.array(answers) == np.array(kinds.predict(some)))),
            f"{name}segmentation_agreement": float(np.mean(maps == masks.predict(some))),
        }
    print(found)
    return found


def cases(count: int, each: int) -> list[tuple[Pixels, str, list[str]]]:
    """Scenes with their caption, and it after single changes of weather, time or colour."""
    found = []
    for number in range(count):
        scene = EMBEDDED.scene(HELD_OUT, number)
        nearest = scene.vehicles[0]
        others: list[Any] = [replace(scene, weather=w) for w in EMBEDDED.words["weather"] if w != scene.weather]
        others += [replace(scene, time=t) for t in EMBEDDED.words["time"] if t != scene.time]
        colours = [c for c in EMBEDDED.object_words["colour"] if c != nearest.colour]
        others += [replace(scene, vehicles=(replace(nearest, colour=c), *scene.vehicles[1:])) for c in colours]
        picked = [others[i] for i in np.random.default_rng((3, number)).permutation(len(others))[:each]]
        said = [EMBEDDED.describe(one, np.random.default_rng((4, number, 0))) for one in (scene, *picked)]
        found.append((EMBEDDED.draw(scene).picture, said[0], said[1:]))
    return found


def speed(profile: Profile, models: ModelPool, asked: argparse.Namespace) -> dict[str, Any]:
    assert profile.invert is not None
    paint, invert, weights = profile.paint, profile.invert, profile.models.path
    sampler = Sampler(paint.sampler)
    clip, tokenizer = restore_clip(weights)
    unet = restore_denoiser(weights).unet.requires_grad_(False)
    peer = LancePeer(unet, restore_vae(weights), clip, tokenizer, sampler, paint.guidance.scale, invert)
    some = cases(asked.timed, asked.variants)
    stacked, captions = np.stack([picture for picture, _, _ in some]), [caption for _, caption, _ in some]
    run = cast(Run, SimpleNamespace(models=models, profile=profile))
    with tempfile.TemporaryDirectory() as folder:
        sources = save_sources(Path(folder), {f"{i:04d}.png": picture for i, picture in enumerate(stacked)})
    images, variants = dict[str, Pixels](), list[Variant]()
    for source, (picture, caption, edited) in zip(sources, some, strict=True):
        images[source.key] = picture
        edits = (Edit("weather", "", "another"),)
        variants += [Variant(f"{source.key}{i}", source, i, caption, edits, e, 0, None) for i, e in enumerate(edited)]
    plans = models.editor_plans(*stacked.shape[1:3])
    maps = {source: (edges,) for source, edges in zip(sources, edge_maps(stacked, profile.edges), strict=True)}
    states = models.clip_text().encode(captions)[0]

    def back() -> list[Trajectory]:
        paths = [Trajectory(sampler, clean) for clean in plans.encoder.encode(stacked)]
        hints: Sequence[RowHint | None] = [None] * len(some)
        if profile.follows_maps:
            hints = row_hints(profile, plans, [maps[source] for source in sources])
        jobs = [invert_source(SourceWay(*way), invert) for way in zip(paths, states, hints, strict=True)]
        list(run_jobs(jobs, plans.evaluate, paint.batch))
        return paths

    def forth() -> int:
        pictures = SourcePictures(profile.image, images)
        return len(list(choose(run, edit_candidates(run, variants, maps, pictures), images)))

    few = some[: asked.peers]  # one after the other on that side: the number of scenes makes none of them faster

    def peer_back() -> list[NullText]:
        return [peer.invert(picture, caption) for picture, caption, _ in few]

    def peer_forth() -> list[list[Pixels]]:
        return [peer.edit(*case) for case in few]

    # Of one scene, each.
    inversions = (lambda: spent(peer_back) / len(few), lambda: spent(back) / len(some))
    journeys = (lambda: spent(peer_forth) / len(few), lambda: spent(forth) / len(some))
    torch.set_num_threads(profile.runtime.threads or torch.get_num_threads())
    optimised = peer_back()
    theirs = np.mean([psnr(peer.decode(o.reached), p) for o, (p, _, _) in zip(optimised, few, strict=True)])
    ours = np.mean([psnr(plans.decode(t.clean[None])[0], p) for t, (p, _, _) in zip(back(), few, strict=False)])
    print(f"inverted and decoded: {ours:.2f} dB, by null-text optimisation {theirs:.2f} dB")
    product = open_yardstick(asked.uneven)
    inverting, editing = (compare(*pair, asked.rounds, yardstick=product) for pair in (inversions, journeys))
    print(f"inversion {inverting}\nediting {editing}")
    fidelity = {"inversion_fidelity_db": float(ours), "null_text_fidelity_db": float(theirs)}
    inverted = {"inversion_speedup": inverting.median, "inversion": inverting.figures}
    return fidelity | inverted | {"throughput_ratio": editing.median, "throughput": editing.figures}


def main() -> None:
    parser = bench_parser(__doc__, uneven=True, write="docs/lance.json, and the sheet beside them")
    parser.add_argument("--sources", type=int, default=150, help="scenes that are edited and judged")
    parser.add_argument("--variants", type=int, default=3, help="edits of each")
    parser.add_argument("--reconstructed", type=int, default=400, help="scenes that are encoded and decoded")
    parser.add_argument("--timed", type=int, default=32, help="scenes that the engine inverts and edits together")
    parser.add_argument("--peers", type=int, default=4, help="of them, those that diffusers inverts and edits too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=_PARTS, nargs="+", default=_PARTS, help="parts to measure (all)")
    asked = parser.parse_args()
    lance, pocket = (with_masters(load_profile(name)) for name in ("pocket-lance", "pocket-full"))
    models = ModelPool(library_of(lance), Meter(lambda _: None))
    parts: dict[str, Callable[[], Mapping[str, Any]]] = {
        "reconstruction": lambda: reconstruction(lance, models, asked.reconstructed),
        "quality": lambda: quality(lance, pocket, asked),
        "speed": lambda: speed(lance, models, asked),
    }
    found: dict[str, Any] = {}
    for name in (name for name in _PARTS if name in asked.only):
        found |= parts[name]()
        if asked.write:
            keep_figures(DOCS / "lance.json", {**found, "editor_machine": machine()})
    finish("lance", **found)


if __name__ == "__main__":
    main()
