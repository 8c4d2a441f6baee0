"""The report's page, of its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterfactory.engine.pocket.worlds import STREETS, World

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """What a figure should reach: at least, or at most, `bar`. A dot in `key` leads into a table of figures."""

    key: str
    text: str
    bar: float
    form: str = "{:.1%}"
    least: bool = True

    def of(self, figures: Figures) -> float | None:
        """The figure, None where the world has none."""
        value: Any = figures
        for part in self.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return None if value is None else float(value)

    def reached(self, figure: float) -> bool:
        """Whether a figure is good enough."""
        return figure >= self.bar if self.least else figure <= self.bar


BARS = (
    Bar("caption_facts", "facts that captions state are right", 0.98),
    Bar("vae_psnr_db", "autoencoder PSNR, dB", 33, "{:.1f}"),
    Bar("edit_success", "the referee sees the new weather or time", 0.98),
    Bar("colour_success", "it sees a vehicle's new colour", 0.88),
    Bar("second_colour_success", "it sees the new colour of a vehicle that is not the nearest", 0.80),
    Bar("background_success", "it sees the new background", 0.90),
    Bar("domain_success", "it sees the new domain", 0.95),
    Bar("object_success", "it sees the new small object, and the old one gone", 0.75),
    Bar("layout_miou", "layout kept: mIoU against the source's mask", 0.82, "{:.3f}"),
    Bar("layout_iou_by_class.pedestrian", "IoU of pedestrians", 0.65, "{:.3f}"),
    Bar("layout_iou_by_class.vegetation", "IoU of vegetation", 0.65, "{:.3f}"),
    Bar("layout_iou_by_class.vehicle", "IoU of vehicles", 0.85, "{:.3f}"),
    Bar("rows_per_variant", "denoiser rows a variant, at most", 2, "{:.0f}", least=False),
    Bar("sharpness", "mean absolute Laplacian over the sources'", 0.75, "{:.2f}"),
)
_MADE = {
    True: "They were made as a user's are: by captioner, language model and painter.",
    False: "They are of pairs: one layout under two captions that the world writes, painted over the edges of the\n"
    "first by the second.",
}


def write_page(figures: Figures, world: World, gate: str, curves: Sequence[str]) -> str:
    """The whole page; `gate` is the section on the checks, `curves` are the names of the trainings' drawings."""
    sections = [
        _head(figures, world),
        _bars(figures),
        _facts(figures),
        _edits(figures),
        _journey(figures),
        _layout(figures, world),
        _likeness(figures),
        "![Sources and their variants at double size, with what was asked for](pocket.webp)",
        gate,
        _trainings(curves),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(figures: Figures, world: World) -> str:
    command = "" if world is STREETS else f" --world {world.name}"
    return f"""# The pocket models, measured

Made by `python -m counterfactory.export pocket --report{command}`; do not edit. Scenes are of the world `{world.name}`,
were seen by no training, and nothing was chosen by them: {figures["scenes"]} scenes, \
{figures["variants_measured"]} variants.
{_MADE[world is STREETS]}"""


def _bars(figures: Figures) -> str:
    truth, source = figures["referee_truth"], figures["referee_source"]
    lines = [
        "The columns on the referee are its own errors: what the same measure says of renderings of the truth (1 less "
        "that is\nwhat it misses), and of the sources, in which nothing was changed (what it imagines).",
        "",
        "| what | measured | bar | reached | of the truth's renderings | of the sources |",
        "|---|---|---|---|---|---|",
    ]
    for bar in BARS:
        if (figure := bar.of(figures)) is not None:
            shown, wanted = bar.form.format(figure), bar.form.format(bar.bar)
            own = [_cell(bar.of(table), bar.form) for table in (truth, source)]
            reached = "yes" if bar.reached(figure) else "**no**"
            lines.append(f"| {bar.text} | {shown} | {wanted} | {reached} | {own[0]} | {own[1]} |")
    return "\n".join(lines)


def _cell(value: float | None, form: str = "{:.1%}") -> str:
    return "-" if value is None else form.format(value)


def _listed(table: Mapping[str, float], form: Callable[[float], str] = "{:.1%}".format) -> str:
    return ", ".join(f"{name} {form(value)}" for name, value in table.items())


def _facts(figures: Figures) -> str:
    text = f"Captions, share right: {_listed(figures['caption_facts_by_kind'])}."
    if stated := figures.get("caption_stated"):
        text += f" Captions may leave facts unsaid; share stated: {_listed(stated)}."
    return text


def _edits(figures: Figures) -> str:
    more = {
        name: figures[key]
        for name, key in (
            ("new weather", "weather_success"),
            ("new time", "time_success"),
            ("other kinds, sizes and poses", "subject_success"),
        )
        if key in figures
    }
    counted = ", ".join(f"{count} of {name}" for name, count in figures["edits_measured"].items())
    text = f"Edits seen: {_listed(more)}; measured are {counted}."
    if "accepted_share" in figures:
        text += f" Accepted by the profile's checks: {figures['accepted_share']:.1%} of the painted variants."
    return text


def _journey(figures: Figures) -> str:
    """What suites of a world come to whose other figures are of pairs."""
    if "journey" not in figures:
        return ""
    of = figures["journey"]
    shares = {name.removesuffix("_success"): of[name] for name in of if name.endswith("_success")}
    return (
        f"By captioner, language model and painter together, of {of['variants_measured']} variants, the referee sees: "
        f"{_listed(shares)}; layout mIoU {_cell(of.get('layout_miou'), '{:.3f}')}."
    )


def _layout(figures: Figures, world: World) -> str:
    def cells(text: str, mean: float, by_class: Mapping[str, float]) -> str:
        shares = [f"{mean:.3f}", *(_cell(by_class.get(name), "{:.3f}") for name in world.classes)]
        return f"| {text} | " + " | ".join(shares) + " |"

    if "layout_miou" not in figures:
        return ""
    rows = [("variants", figures), ("the referee on the truth's renderings", figures["referee_truth"])]
    return "\n".join(
        [
            "Layout by class (DILLEMA's raters found pedestrians preserved in 84.6 % of images; IoU is stricter):",
            "",
            "| | mean | " + " | ".join(world.classes) + " |",
            "|---" * (len(world.classes) + 2) + "|",
            *(cells(name, of["layout_miou"], of["layout_iou_by_class"]) for name, of in rows if "layout_miou" in of),
            cells("the referee on all scenes", figures["referee_miou"], figures["referee_iou_by_class"]),
            "",
            f"The referee gets right of scenes as rendered: {_listed(figures['referee_attributes'])};",
            f"softened as painters do: {_listed(figures['referee_attributes_soft'])}.",
        ]
    )


def _likeness(figures: Figures) -> str:
    if "kid" not in figures:
        return ""
    context = {
        "the truth itself": "kid_floor",
        "the truth after the autoencoder": "kid_reconstructed",
        "the sources, in which nothing was changed": "kid_sources",
    }
    rows = [f"| {text} | {figures[key]:.5f} |" for text, key in context.items() if key in figures]
    text = f"""A referee does not see blur. Sharpness is the mean absolute Laplacian of grey levels: \
{figures["sharpness"]:.2f} of the sources',
{figures["sharpness_truth"]:.2f} of that of the truth's renderings. KID is the unbiased squared MMD under a cubic kernel
(Bińkowski et al. 2018) from the truth's renderings, over {figures["kid_variants"]} variants of \
{figures["kid_scenes"]} scenes.
Extractor: {figures["kid_extractor"]}.

| from the truth's renderings | KID |
|---|---|
| **variants** | {figures["kid"]:.5f} ± {figures["kid_spread"]:.5f} over subsets |"""
    return "\n".join([text, *rows])


def _trainings(curves: Sequence[str]) -> str:
    if not curves:
        return ""
    text = "The trainings: loss by step, logarithmic."
    if len(curves) > 1:
        text += (
            " Denoiser and captioner went on from there, with more weight on\nsmall things in the denoiser's loss, "
            "which is therefore not comparable across the two drawings."
        )
    names = ("Training losses", "Training losses, continued")
    return "\n\n".join([text, *(f"![{name}]({file})" for name, file in zip(names, curves, strict=False))])
