"""The networks that make pictures, as rows of the table: hint encoders, the sources' encoder, denoiser and decoder."""

from __future__ import annotations

from collections.abc import Iterator

from ..content_keys import Stage
from ..profile.paint import rows_per_source, rows_per_variant
from ..profile.profile import Profile
from ..runtime.session import SHALLOW, EditorForm, GraphForm
from .network import Follows, Network, Rows


def hint_plans(profile: Profile) -> dict[str, tuple[str, int]]:
    """The plans that embed the maps of a profile's hints, with the channels of the maps, by network: "hint", "hint_1",
    ... as the exporter counts ControlNets; those of weight 0 are left out.
    """
    if profile.hints is None:
        return {"hint": ("hint", 1)}
    return {
        f"hint_{i}" if i else "hint": (hint.plan, 3 if hint.kind == "segmentation" else 1)
        for i, hint in enumerate(profile.hints)
        if hint.weight
    }


def editor_form(profile: Profile) -> EditorForm | None:
    """The form of editor that a profile's denoiser becomes where sources are inverted: with its ControlNets where they
    have a scale; None where no source is inverted.
    """
    if profile.invert is None:
        return None
    return "with controls" if profile.follows_maps else "without controls"


def painters_of(profile: Profile, kept_bytes: int) -> Iterator[Network]:
    """The networks that make pictures, of hints or of an inverted source; painting keeps `kept_bytes` on a GPU."""
    paint, invert, form = profile.paint, profile.invert, editor_form(profile)
    source, inputs = Rows(per_source=1), dict[str, Follows](latents="latents")
    if form != "without controls":
        inputs["hint_embedding"] = "latents"
        batch = paint.decode_batch if profile.runtime.on_gpu else 1
        for name, (plan, _) in hint_plans(profile).items():
            yield Network(name, plan, batch, {"paint": source}, {"hint": "picture"})
    rows, pictures = Rows(per_variant=paint.rows_per_variant - paint.shallow_rows), Rows(per_variant=1)
    if invert is not None:  # the source once, to measure the loss of decoding; a control is decoded, and not denoised
        rows = Rows(rows_per_source(paint, invert), rows_per_variant(paint, invert), 0)
        pictures = Rows(float(invert.detail_levels > 0), len(invert.fractions), 1)
    own: GraphForm | None = form or (None if paint.reuse is None else "whole")
    denoised: dict[Stage, Rows] = {"paint": rows}
    more = inputs, paint.streams
    yield Network("denoiser", paint.denoiser, paint.batch, denoised, *more, kept_bytes=kept_bytes, form=own)
    if paint.reuse is not None:
        cut = profile.runtime.backend == "openvino"  # from the file of the denoiser, also of one in 8 bits
        plan, shallow = paint.denoiser if cut else paint.denoiser.removesuffix("_int8"), Rows(0, paint.shallow_rows)
        inputs = inputs if cut else {**inputs, "deep": "latents"}  # another table: the denoiser has the first
        yield Network(
            "denoiser_shallow", plan + SHALLOW, paint.batch, {"paint": shallow}, inputs, paint.streams, form="shallow"
        )
    if invert is not None or profile.protect is not None:
        yield Network("vae_encoder", "vae_encoder", paint.decode_batch, {"paint": source}, {"pixel_values": "picture"})
    follows: dict[str, Follows] = {"latents": "latents"}
    batch, files = paint.decode_batch, ("latent.json",)
    yield Network("vae_decoder", profile.decoder, batch, {"paint": pictures}, follows, files=files)
