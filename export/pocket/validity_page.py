"""The page and the curve of what the checks are worth, of the figures of `validity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterfactory.engine.judging.fit_valid import EDIT_SCORES, fitted_toml
from counterfactory.engine.profile.check import ValidPart

# Of the accepted variants, those that are to be valid; of the valid ones, those that are to be accepted.
PRECISION_BAR, RECALL_BAR = 0.97, 0.9
_SIDE, _LEFT, _TOP = 300, 46, 16


def validity_page(figures: Mapping[str, Any], named: str) -> str:
    """The page, which shows the curve and the sheet in files that are named so beside it."""
    best = figures["chosen"][0]
    base = {"accepted": 1.0, "precision": figures["gate_base_rate"], "recall": 1.0}
    rows = "\n".join(
        f"| {name} | {_share(gate['accepted'])} | {_with_ends(gate, 'precision')} | {_with_ends(gate, 'recall')} | "
        f"{said} |"
        for name, gate, said in (
            ("none (base rate)", base, ""),
            ("the profile's", _own(figures), _said(figures["gate_thresholds"])),
            *(
                (f"chosen to accept {gate['recall_wanted']:.0%}", gate, _said(gate["thresholds"]))
                for gate in figures["chosen"]
            ),
        )
    )
    checks = "\n".join(
        f"| `{name}` | {one['area']:.2f} | {'-' if one['least'] is None else format(one['least'], 'g')} | "
        f"{_share(one['precision'])} | {_share(one['recall'])} |"
        for name, one in sorted(figures["by_check"].items(), key=lambda item: -item[1]["area"])
    )
    types = "\n".join(
        f"| {name} | {one['variants']} | {_share(one['base_rate'])} | {_share(one['precision'])} | "
        f"{_share(one['recall'])} | {_share(one['seen'])} | "
        + " | ".join(_area(one[f"area_{name}"]) for name in EDIT_SCORES)
        + " |"
        for name, one in figures["by_type"].items()
    )
    bins = "\n".join(
        f"| {one['variants']} | {_share(one['said'])} | {_share(one['valid'])} |" for one in figures["calibration"]
    )
    areas = " | ".join(f"area, `{name}`" for name in EDIT_SCORES)
    own = _own(figures)
    met = (own["precision"] or 0) >= PRECISION_BAR and (own["recall"] or 0) >= RECALL_BAR
    return f"""# What the checks are worth

Written by `python -m counterfactory.export validity{_option(figures)}`: of the profile `{figures["profile"]}`, by
{figures["scenes"]} scenes of the world "{figures["world"]}" that choose weights and thresholds and {figures["scenes"]}
others that judge them ({figures["variants"]} variants), made under the demo's settings, with the edits per variant that
the profile asks for where it does. A variant is valid when the referee sees every edit that it can judge, the nearest
vehicle is still of the label's kind, and the layout is kept. The referee, which tells all weathers and times of day,
takes no part in the gate; nor do the models that the demo tests. What each score is stands in [checks.md](checks.md).

## The gate

Precision is the share of the accepted variants that are valid, recall the share of the valid ones that are accepted;
in brackets their 95 % intervals over draws of scenes. Without any gate the precision is the base rate. The bars are
{PRECISION_BAR:.0%} and {RECALL_BAR:.0%}: {"met" if met else "not met"} by the profile's gate. The chosen gates hold
variants to the score `valid` alone; thresholds and weights know the choosing scenes alone.

| gate | accepted | precision | recall | thresholds |
|---|---|---|---|---|
{rows}

![Precision by recall]({named}.svg)

![Variants that the profile's gate rejects, and accepted ones that are not valid]({named}.webp)

The referee errs, too. Of the truth's own renderings in the place of the variants it calls
{_share(figures["truth_valid"])} valid, and {_share(figures["source_valid"])} of the unchanged sources where an edit was
wanted. It was trained on renderings: of paintings it is less sure, and some that it calls wrong a person calls right.

## The probability `valid`

Variants of the judging scenes by their probability: as many should be valid as it says.

| variants | mean probability | valid |
|---|---|---|
{bins}

Its parts, as they stand in a profile:

```toml
{parts_table(figures["parts"], best["thresholds"]["min_valid"])}
```

## By type of edit

Variants that have such an edit, under the gate that is chosen to accept {RECALL_BAR:.0%}. *Seen* is the share of these
edits that the referee sees; the *areas* are those under the ROC curves by which pixels (`recoloured`), the captioner
(`said`, where the profile asks it) and CLIP (`edit`) tell them: 1 tells all, 0.5 nothing. Where the referee judges
none, or sees all, or nobody was asked, there is no area.

| edit | variants | base rate | precision | recall | seen | {areas} |
|---|---|---|---|---|---|{"---|" * len(EDIT_SCORES)}
{types}

## By check

Each check alone, by the threshold that keeps {RECALL_BAR:.0%} of the choosing scenes' valid variants. *Area* is that
under its ROC curve, of valid variants and others. A score that a picture does not have rejects nothing.

| check | area | threshold | precision | recall |
|---|---|---|---|---|
{checks}

The checks' share of a journey, where one session made the suite: {_share(figures["checks_share"])}.
"""


def _option(figures: Mapping[str, Any]) -> str:
    return "" if figures["profile"] == "pocket" else f" --profile {figures['profile']}"


def parts_table(parts: Sequence[Mapping[str, Any]], least: float) -> str:
    """The parts of the score "valid", and the threshold, as TOML."""
    return fitted_toml([ValidPart(**part) for part in parts], least)


def draw_curve(figures: Mapping[str, Any]) -> str:
    """Precision by recall of the chosen gates, the profile's, the base rate and the bars, as SVG."""
    chosen = sorted(figures["chosen"], key=lambda gate: gate["recall"] or 0)
    line = " ".join(f"{_x(g['recall'])},{_y(g['precision'])}" for g in chosen if g["precision"] is not None)
    dots = [("chosen", gate, "#1f6feb") for gate in chosen] + [("the profile's", _own(figures), "#d1242f")]
    marks = "".join(
        f'<circle cx="{_x(gate["recall"])}" cy="{_y(gate["precision"])}" r="3.5" fill="{colour}">'
        f"<title>{name}: precision {_share(gate['precision'])}, recall {_share(gate['recall'])}</title></circle>"
        for name, gate, colour in dots
        if gate["precision"] is not None and gate["recall"] is not None
    )
    ticks = "".join(
        f'<text x="{_x(v)}" y="{_TOP + _SIDE + 14}" text-anchor="middle">{v:.0%}</text>'
        f'<text x="{_LEFT - 6}" y="{_y(v)}" text-anchor="end" dominant-baseline="middle">{v:.0%}</text>'
        for v in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    )
    base = figures["gate_base_rate"]
    size = f'width="{_SIDE + 70}" height="{_SIDE + 54}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>
<rect x="{_x(RECALL_BAR)}" y="{_TOP}" width="{_x(1.0) - _x(RECALL_BAR)}" height="{_y(PRECISION_BAR) - _TOP}" \
fill="#2da44e" fill-opacity="0.25"/>
<line x1="{_LEFT}" x2="{_LEFT + _SIDE}" y1="{_y(base)}" y2="{_y(base)}" stroke="#999" stroke-dasharray="4 3"/>
<polyline points="{line}" fill="none" stroke="#1f6feb"/>{marks}{ticks}
<text x="{_LEFT + _SIDE / 2}" y="{_TOP + _SIDE + 32}" text-anchor="middle">recall: valid variants accepted</text>
<text transform="translate(12 {_TOP + _SIDE / 2}) rotate(-90)" text-anchor="middle">precision: valid of accepted</text>
</svg>
"""


def _own(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("gate_"): value for name, value in figures.items() if name.startswith("gate_")}


def _said(thresholds: Mapping[str, float]) -> str:
    return ", ".join(f"`{name}` {value:g}" for name, value in thresholds.items()) or "none"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _with_ends(gate: Mapping[str, Any], name: str) -> str:
    ends = gate.get(f"{name}_interval")
    return _share(gate[name]) + (f" ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})" if ends else "")


def _area(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _x(recall: float) -> float:
    """Pixels of a share between half and all."""
    return round(_LEFT + _SIDE * (max(recall, 0.5) - 0.5) / 0.5, 1)


def _y(precision: float) -> float:
    return round(_TOP + _SIDE * (1 - (max(precision, 0.5) - 0.5) / 0.5), 1)
