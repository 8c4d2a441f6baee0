"""The networks that make pictures, as rows of the table: hint encoders, the sources' encoder, denoiser and decoder."""

from __future__ import annotations

from collections.abc import Mapping

from ..profile.invert import rows_per_source, rows_per_variant
from ..profile.profile import Profile
from ..runtime.session import EditorForm
from .network import Follows, Network, Rows


def hint_plans(profile: Profile) -> dict[str, str]:
    """The plans that embed the maps of a profile's hints, by network: "hint", "hint_1", ... as the exporter counts
    ControlNets; those of weight 0 are left out.
    """
    if profile.hints is None:
        return {"hint": "hint"}
    return {hint_network(i): hint.plan for i, hint in enumerate(profile.hints) if hint.weight}


def hint_network(number: int) -> str:
    """The name of the network that embeds the maps of hint `number`."""
    return f"hint_{number}" if number else "hint"


def editor_form(profile: Profile) -> EditorForm | None:
    """The form of editor that a profile's denoiser becomes where sources are inverted: with its ControlNets where they
    have a scale; None where no source is inverted.
    """
    if profile.invert is None:
        return None
    return "with controls" if profile.follows_maps else "without controls"


def painters_of(profile: Profile, moved: Mapping[str, int], kept_bytes: int) -> tuple[Network, ...]:
    """The networks that make pictures, from hints, or from the source where it is inverted. `moved` are the bytes of a
    row of each network that cross a GPU's bus, `kept_bytes` those that painting keeps there.
    """
    paint, invert = profile.paint, profile.invert
    pictures = Rows(per_variant=1)
    if invert is not None:  # the source once, to measure the loss of decoding; a control is decoded, and not denoised
        pictures = Rows(float(invert.detail_levels > 0), len(invert.fractions), 1)
    before, encoders = tuple[Network, ...](), tuple[Network, ...]()
    conditions: dict[str, Follows] = {}
    if editor_form(profile) != "without controls":
        conditions = {"hint_embedding": "latents"}
        before = tuple(
            Network(
                name,
                plan,
                paint.decode_batch if profile.runtime.on_gpu else 1,
                {"paint": Rows(per_source=1)},
                {"hint": "picture"},
                moved_bytes=moved[name],
            )
            for name, plan in hint_plans(profile).items()
        )
    rows = Rows(per_variant=paint.rows_per_variant)
    if invert is not None:
        rows = Rows(rows_per_source(paint, invert), rows_per_variant(paint, invert), 0)
    if invert is not None or profile.protect is not None:
        encoder = Network(
            "vae_encoder",
            "vae_encoder",
            paint.decode_batch,
            {"paint": Rows(per_source=1)},
            {"pixel_values": "picture"},
            moved_bytes=moved["vae_encoder"],
        )
        encoders = (encoder,)
    return (
        *before,
        Network(
            "denoiser",
            paint.denoiser,
            paint.batch,
            {"paint": rows},
            {"latents": "latents", **conditions},
            paint.streams,
            moved_bytes=moved["denoiser"],
            kept_bytes=kept_bytes,
            editor=editor_form(profile),
        ),
        *encoders,
        Network(
            "vae_decoder",
            "vae_decoder",
            paint.decode_batch,
            {"paint": pictures},
            {"latents": "latents"},
            files=("latent.json",),
            moved_bytes=moved["vae_decoder"],
        ),
    )
