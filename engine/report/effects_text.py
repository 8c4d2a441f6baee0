"""Evaluations as a person reads them: effects with their intervals first, then how the pictures were answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..errors import list_some
from ..judging.effects import FEWEST_GROUPS
from ..judging.power import TOLD
from ..judging.rejections import share_to_explain, share_to_hide
from .table import Table, percent

if TYPE_CHECKING:
    from ..judging.compare import Comparison, Gap
    from ..judging.effects import Effect, Flips
    from ..judging.evaluation import Effects, Evaluation, MeanScore
    from ..judging.insights import Insight
    from ..judging.limits import LimitResult
    from ..judging.rejections import Rejections

# Values and classes in a table: those that do most harm.
_WORST = 8
# Pictures of an edit that are too few for an AP.
_FEW = 12
# Classes of a confusion that is shown.
_CONFUSED = 8
# Labels, and values, that a note shows.
_UNKNOWN = 5
_ALONE, _MIX = "one edit alone", "average over this suite's mix of edits"
# What the controls lose against the originals.
PAINTING = "painting alone"
_MINUS, _TO = "\N{MINUS SIGN}", " \N{HORIZONTAL ELLIPSIS} "
BASELINES = {"control": "controls", "original": "originals"}
_KINDS = ("originals", "controls", "variants")
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "95 % interval": "where the true effect lies, 95 times in 100",
        "q": "the chance of so large a difference if there were none, corrected for the number of rows; below 0.05 it "
        "is clear (*)",
        "sources": "how many sources could be compared",
        "groups": "how many groups of sources that depend on each other could be compared",
        "rejected": "the share of variants with the edit that the checks rejected",
        "turned wrong": "of pictures whose baseline is answered rightly, the share that is answered wrongly",
        "turned right": "of pictures whose baseline is answered wrongly, the share that is answered rightly",
        "painted": "the effect of the painted edit, in points",
        "light alone": "the effect of the same edit drawn by rule",
    }
)
_COLUMNS = ("95 % interval", "q")
_RELIED_ON = "What recognising a class relies on, what costs most first"


def evaluation_tables(evaluation: Evaluation, everything: bool = False, confused: int = _CONFUSED) -> tuple[Table, ...]:
    """What edits do to the model, the values and classes that do most, and accuracy (or mIoU) by kind of picture.

    With `everything` these are all values and classes, single edits by every measure, how each class is answered, and
    of at most `confused` classes what they are called.
    """
    effects, tables = evaluation.effects, []
    notes: dict[str, list[str]] = {}
    for place, note in _placed_notes(evaluation):
        notes.setdefault(place, []).append(note)

    def noted(table: Table, place: str) -> Table:
        return replace(table, notes=tuple(notes.get(place, ())))

    for of in (effects, *(measure.effects for measure in evaluation.measures)):
        if of.against is not None and (of.by_type or of.painter):
            table = effects_table(of, evaluation.rejections)
            tables.append(noted(table, "effects") if of is effects else table)
            if of.by_type_alone and of.mixed and (of is effects or everything):
                tables.append(noted(other_table(of), "other" if of is effects else ""))
        tables += [baselines_table(of)] if of.baselines else []
    if effects.by_level:
        tables.append(_levels_table(effects))
    other = effects.by_value if effects.leads_alone else effects.by_value_alone
    less = other if everything and effects.mixed else ()
    second = f"value, {_MIX if effects.leads_alone else _ALONE}"
    for title, group in (("value", effects.leading_values), (second, less), ("class", effects.by_class)):
        if len(group) > 1:
            worst = _worst_table(title, group, len(group) if everything else _WORST)
            tables += [worst] if worst.rows else []
    tables.append(noted(sides_table({evaluation.measure_name: evaluation}), "sides"))
    if evaluation.boxes:
        tables.append(noted(_boxes_table(evaluation, len(evaluation.boxes) if everything else _WORST), "boxes"))
    if everything:
        tables += [_turns_table(effects)] if effects.flips else []
        tables += [_classes_table(evaluation), *_confusion_table(evaluation, confused)]
    return _of_groups(tables, evaluation.groups)


def _of_groups(tables: Sequence[Table], groups: int | None) -> tuple[Table, ...]:
    """The tables, whose columns of sources are of groups where there are some."""
    if groups is None:
        return tuple(tables)
    return tuple(replace(one, columns=tuple("groups" if c == "sources" else c for c in one.columns)) for one in tables)


def group_line(groups: int) -> str:
    """What it means that sources are so many groups."""
    if groups < FEWEST_GROUPS:
        return (
            f"the sources are {groups} groups that depend on each other: of fewer than {FEWEST_GROUPS} nothing is "
            "certain, however many pictures they have (--group-by)"
        )
    return f"sources that depend on each other count as one: the sources are {groups:,} groups (--group-by)"


def note_lines(evaluation: Evaluation) -> list[str]:
    """What a reader has to know of the tables: what they compare, and what is not in them."""
    return [line for _, line in _placed_notes(evaluation)]


def unplaced_notes(evaluation: Evaluation) -> list[str]:
    """Those of the notes that belong to none of the tables."""
    placed = {note for table in evaluation_tables(evaluation) for note in table.notes}
    return [line for line in note_lines(evaluation) if line not in placed]


def _placed_notes(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Each note, with the table that it explains: of "effects", of edits "alone", of "sides", of "boxes"."""
    effects, strange = evaluation.effects, {answer.answer for answer in evaluation.strange}
    if evaluation.groups is not None:
        yield "effects", group_line(evaluation.groups)
    if effects.exact:
        yield "effects", "weather and light are drawn into the sources themselves: effects are against originals"
    elif effects.copies and effects.against != "control":
        yield (
            "effects",
            "the controls are their originals again, byte for byte: what painting does was not measured, and is in "
            "every effect, which is against originals",
        )
    elif effects.against == "original":
        which = "no accepted control" if evaluation.excluded_controls else "no control"
        yield "effects", f"{which} has an answer: effects are against originals, with what painting does"
    elif effects.against is None:
        yield "", "effects need answers to the controls, or to the originals, as well"
    elif not evaluation.originals.score.count:
        yield "effects", "no original has an answer: what painting does by itself is not known"
    if effects.copies and effects.against == "control":
        yield "effects", f"{effects.copies} controls are their originals again and say nothing of painting"
    lead, other = ("effects", "other") if effects.leads_alone else ("other", "effects")
    if effects.by_type:
        yield "effects", "* is clear: q below 0.05"
    if effects.mixed:
        yield (
            other,
            "an average over this suite's mix of edits is adjusted for the other edits beside an edit, and says less "
            "of it than the edit alone",
        )
    if effects.flips and effects.by_type_alone:
        painting = ", and of controls whose original is" if effects.painter else ""
        yield lead, f"turned wrong: of variants with one edit whose {effects.against} is right{painting}"
    several = evaluation.variants.score.count > evaluation.sources
    if several and evaluation.all_fail is not None and evaluation.none_fail is not None:
        shares = (evaluation.all_fail, 1 - evaluation.all_fail - evaluation.none_fail, evaluation.none_fail)
        parts = ", ".join(
            f"{percent(share)} on {of}" for share, of in zip(shares, ("all", "some", "none"), strict=True)
        )
        yield "sides", f"of {evaluation.sources} sources the model fails on variants: {parts}"
    if evaluation.boxes:
        yield (
            "boxes",
            "AP, AP50 and AR are COCO's; recall and false alarms are of single pictures: the share of things that are "
            "detected, and of boxes that show nothing, by boxes of score 0.5 and more that overlap by half",
        )
    if any(one.pictures < _FEW for one in evaluation.boxes):
        yield "boxes", f"few: AP of fewer than {_FEW} pictures says little of other pictures"
    if others := {name: count for name, count in evaluation.unlabelled.items() if name not in strange}:
        named = f"{len(others)} classes" if len(others) > 1 else "a class"
        yield (
            "sides",
            f"{sum(others.values())} boxes of {named} that the set does not label are not counted, such as "
            f"{next(iter(others))}",
        )
    yield from (("effects", line) for line in interaction_lines(effects))
    if any(measure.name == "confidence" for measure in evaluation.measures):
        yield "sides", "confidence: what the model gives its own answer on average, right or wrong"
    for count, kind in ((evaluation.excluded, "variant"), (evaluation.excluded_controls, "control")):
        if count:
            yield "sides", f"{count} rejected {kind}{'s are' if count > 1 else ' is'} not counted"
    yield from (("effects", line) for line in _rejection_lines(evaluation))
    unknown = [name for name in evaluation.unknown_classes if name not in strange]
    if unknown:
        some = ", ".join(map(repr, unknown[:_UNKNOWN])) + (" and so on" if len(unknown) > _UNKNOWN else "")
        yield "sides", f"answers that are no label of this suite count as wrong: {some}"


def answer_lines(evaluation: Evaluation) -> list[str]:
    """What is wrong with the answers, before any figure: pictures without one, and labels that nobody knows."""
    lines = []
    for lack in evaluation.unanswered:
        what = f"{lack.count} {'has' if lack.count == 1 else 'have'} no answer, the first is {lack.first}"
        compared = "" if lack.kind == "variant" else "; effects compare the sources that have both answers"
        lines.append(f"judged on {lack.of - lack.count} of {lack.of} {lack.kind}s: {what}{compared}")
    if evaluation.strange:
        named = list_some([answer.text for answer in evaluation.strange], _UNKNOWN)
        lines.append(f"warning: answers that are no label and no known class count as wrong: {named}")
    return lines


def interaction_lines(effects: Effects) -> list[str]:
    """The warning that effects do not add, with the pair of types that shows it most."""
    if not (pairs := effects.beyond_sum):
        return []
    pair, others = pairs[0], ", ".join(pair.name for pair in pairs[1:])
    which = "more" if (pair.value or 0) < 0 else "less"
    low, high = sorted(100 * abs(bound or 0) for bound in (pair.low, pair.high))
    return [
        f"EFFECTS DO NOT ADD: {pair.name} costs {100 * abs(pair.value or 0):.1f} points {which} than the sum of the "
        f"two ({low:.1f} to {high:.1f}){f', and so do not {others}' if others else ''}: another mix of edits has other "
        "effects, so read one edit alone"
    ]


def _rejection_lines(evaluation: Evaluation) -> list[str]:
    """Where the checks reject what the model fails on, and what would have to be missing to turn a type's result."""
    lines, effects = [], evaluation.effects
    by_name = {one.name: one for one in evaluation.rejections}
    biased = [one for one in by_name.values() if one.follow_failure]
    if biased:
        parts = (f"{one.name} {percent(one.on_wrong)} against {percent(one.on_right)}" for one in biased)
        lines.append(
            f"the checks reject more of sources whose {effects.against} is answered wrongly, of "
            f"{list_some(list(parts), _UNKNOWN)}: these effects are of what was left, and too small"
        )
    before = (evaluation.controls if effects.against == "control" else evaluation.originals).score.value
    if evaluation.measure != "accuracy" or before is None:
        return lines
    shares: dict[str, list[str]] = {"hide": [], "explain": []}
    for one in effects.leading_types:
        lost = by_name.get(one.name)
        if one.low is not None and lost is not None:
            loses = one.clear and (one.value or 0) < 0
            share = (share_to_explain if loses else share_to_hide)(one, lost, before)
            if share is not None and not (one.clear and not loses):
                whole = percent(lost.rejected / lost.variants)
                shares["explain" if loses else "hide"].append(f"{one.name} {percent(share)} (of all {whole})")
    if shares["hide"]:
        lines.append(
            f"the checks hide a loss of {100 * TOLD:g} points if they reject so many of the pictures that fail: "
            f"{list_some(shares['hide'], _UNKNOWN)}"
        )
    if shares["explain"]:
        lines.append(
            "the checks alone explain a loss if they reject so many of the pictures that do not fail: "
            f"{list_some(shares['explain'], _UNKNOWN)}"
        )
    return lines


def comparison_tables(comparison: Comparison, everything: bool = False) -> tuple[Table, ...]:
    """Where the second model falls behind the first, and what edits do to it more than to the first."""
    gaps = (*comparison.sides, *comparison.by_type)
    tables = [_gaps_table(f"The second against the first, {comparison.measure} on the same pictures", "pictures", gaps)]
    for title, group in (("value", comparison.by_value), ("class", comparison.by_class)):
        if len(group) > 1:
            worst = sorted(group, key=lambda gap: (gap.effect.high is None, gap.effect.high, gap.name))
            rows = worst if everything else worst[:_WORST]
            less = f", {len(rows)} of {len(group)}" if len(rows) < len(group) else ""
            tables.append(_gaps_table(f"The same by {title}, certain losses first{less}", title, rows))
    if comparison.breaks_by_type:
        cells = tuple((e.name, *_certainty(e)) for e in comparison.breaks_by_type)
        against = BASELINES[str(comparison.against)]
        title = f"What edits do to the second more than to the first, in points against the {against}"
        tables.append(Table(title, ("edit", "points", *_COLUMNS, "sources"), cells))
    return _of_groups(tables, comparison.groups)


def comparison_note(comparison: Comparison) -> str:
    """Which model is which."""
    return f"first: {comparison.first}; second: {comparison.second}; both answered {comparison.pictures} pictures"


def _gaps_table(title: str, of: str, gaps: Sequence[Gap]) -> Table:
    rows = tuple((gap.name, percent(gap.first), percent(gap.second), *_certainty(gap.effect)) for gap in gaps)
    named = "type" if of == "pictures" else of
    return Table(title, (of, "first", "second", "points", *_COLUMNS, "sources"), rows, of=named)


def headline(evaluation: Evaluation) -> tuple[str, str]:
    """The one figure of an evaluation, with its name: how answers fall from what variants are compared with."""
    controls = evaluation.effects.against == "control"
    before = (evaluation.controls if controls else evaluation.originals).score.value
    mix = " of one edit and several" if evaluation.effects.mixed else ""
    name = f"{evaluation.measure_name}, {'controls' if controls else 'originals'} to variants{mix}"
    return name, f"{percent(before)} \N{RIGHTWARDS ARROW} {percent(evaluation.variants.score.value)}"


def finding_line(finding: LimitResult) -> str:
    """What became of a limit."""
    words = {"kept": "kept", "broken": "BROKEN", "undecided": "cannot tell"}
    return f"{words[finding.outcome]:<11} {finding.limit}: {finding.figures}"


def sides_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """How each kind of picture was answered, by the names of the measures; further ones of an answer behind them."""
    scores: dict[str, tuple[MeanScore, ...]] = {}
    for name, its in evaluations.items():
        scores[name] = (its.originals.score, its.controls.score, its.variants.score)
        scores |= {one.name: (one.originals, one.controls, one.variants) for one in its.measures}
    counts = next(iter(scores.values()))
    rows = tuple(
        (name, str(counts[i].count), *(percent(column[i].value) for column in scores.values()))
        for i, name in enumerate(_KINDS)
        if counts[i].count or name != "controls"
    )
    return Table("How pictures are answered", ("pictures", "count", *scores), rows)


def _classes_table(evaluation: Evaluation) -> Table:
    of_kinds = zip(_KINDS, (evaluation.originals, evaluation.controls, evaluation.variants), strict=True)
    sides = {name: side for name, side in of_kinds if side.score.count or name != "controls"}
    known = [name for name in evaluation.classes if name not in evaluation.unknown_classes]
    rows = tuple((name, *(percent(side.by_class.get(name)) for side in sides.values())) for name in known)
    what = {"accuracy": "right", "AP": "AP"}.get(evaluation.measure, "IoU")
    of = "" if evaluation.measure == "pooled_miou" else "class"
    return Table(f"How classes are answered ({what})", ("class", *sides), rows, of=of)


def _levels_table(effects: Effects) -> Table:
    rows = tuple((one.type, f"{one.level} of {one.levels}", *_certainty(one.effect)) for one in effects.by_level)
    title = f"By severity: {effects.measure} against the {BASELINES[str(effects.against)]}"
    return Table(title, ("edit", "level", "points", *_COLUMNS, "sources"), rows, of="type")


def _boxes_table(evaluation: Evaluation, most: int) -> Table:
    """AP on the pictures of an edit and, where they have any, on the baselines of the same sources."""
    effects, rows = evaluation.effects, []
    for one in evaluation.boxes[:most]:
        counted = f"{one.pictures}, few" if one.pictures < _FEW else str(one.pictures)
        compared = () if one.change is None else (percent(one.before), *_figures(one.change))
        rows.append((one.name, counted, *map(percent, (one.ap, one.ap50, one.ar)), *compared))
    against = BASELINES[effects.against] if effects.against else ""
    columns = (f"AP of {against}", "points of AP", *_COLUMNS) if against else ()
    title = f"How variants are detected, by edit{f', {_ALONE}' if effects.leads_alone else ''}"
    title += f", and {against} of the same sources" if against else ""
    return Table(title, ("edit", "pictures", "AP", "AP50", "AR", *columns), tuple(rows))


def _turns_table(effects: Effects) -> Table:
    """Both ways in which answers turn: wrong where the baseline's is right, and right where it is wrong."""

    def row(flip: Flips) -> tuple[str, ...]:
        name = PAINTING if flip.name == "painting" else flip.name
        righted = percent(flip.righted / flip.wrong if flip.wrong else None)
        return name, percent(flip.rate), str(flip.right), righted, str(flip.wrong)

    columns = ("edit", "turned wrong", "of right", "turned right", "of wrong")
    return Table("How answers turn, one edit alone", columns, tuple(map(row, effects.flips)))


def _confusion_table(evaluation: Evaluation, most: int) -> tuple[Table, ...]:
    """What classes are called on variants, a row for each true class; none where there are too many to read."""
    names = [name for name in evaluation.classes if evaluation.variants.by_class.get(name) is not None]
    if not evaluation.variants.confusion or not 2 <= len(names) <= most:
        return ()
    shares = dict(zip(evaluation.classes, evaluation.variants.confusion, strict=True))
    places = [evaluation.classes.index(name) for name in names]
    rows = tuple((name, *(percent(shares[name][place]) for place in places)) for name in names)
    labels = evaluation.measure == "accuracy"
    title = "What classes are called on variants (a row is the truth)"
    return (Table(title, ("class", *names), rows, of="class" if labels else "", confusion=labels),)


def effects_table(effects: Effects, rejections: Sequence[Rejections] = ()) -> Table:
    """What each type of edit does to a measure, in points, with its interval, its chance, the sources that say so and
    the share of its variants that were rejected: painting itself first, which is against the originals. It is of the
    edit alone where that leads, with how often answers turned wrong that were right on the control (of painting: on
    the original).
    """
    return _types_table(effects_title(effects), effects.measure, effects, effects.leads_alone, rejections)


def other_table(effects: Effects) -> Table:
    """The same of the average over the mix, where edits alone lead, and of edits alone where they do not."""
    which = _MIX if effects.leads_alone else _ALONE
    title = f"{which[0].upper()}{which[1:]}: {effects.measure} against the {BASELINES[str(effects.against)]}"
    return _types_table(title, "points", effects, not effects.leads_alone)


def _types_table(
    title: str, points: str, effects: Effects, alone: bool, rejections: Sequence[Rejections] = ()
) -> Table:
    lost = {r.name: percent(r.rejected / r.variants) for r in rejections if r.variants}
    turned = {flip.name: percent(flip.rate) for flip in effects.flips} if alone else {}
    named = {PAINTING: effects.painter} if effects.painter else {}
    named |= {e.name: e for e in (effects.by_type_alone if alone else effects.by_type)}
    more = [("turned wrong", turned)] if turned else []
    rows = tuple(
        (
            name,
            *_figures(e),
            *(of.get(e.name, "-") for _, of in more),
            str(e.sources),
            *((lost.get(name, "-"),) if lost else ()),
        )
        for name, e in named.items()
    )
    columns = ("edit", points, *_COLUMNS, *(name for name, _ in more), "sources", *(("rejected",) if lost else ()))
    return Table(title, columns, rows, of="type")


def effects_title(effects: Effects) -> str:
    """What the first table, or a chart, of effects is of."""
    what = "one edit alone does" if effects.leads_alone and effects.mixed else "edits do"
    return f"What {what} to {effects.measure}, in points against the {BASELINES[str(effects.against)]}"


def baselines_table(effects: Effects) -> Table:
    """What weather and light alone do of what painting them does."""
    rows = []
    for one in effects.baselines:
        span = "-" if one.low is None or one.high is None else f"{100 * one.low:.0f} to {100 * one.high:.0f} %"
        both = (f"{100 * one.painted:+.1f}", f"{100 * one.drawn:+.1f}")
        rows.append((one.name, *both, percent(one.share), span, str(one.sources)))
    columns = ("edit", "painted", "light alone", "share", "95 %", "sources")
    return Table(f"What weather and light alone do to {effects.measure}, in points", columns, tuple(rows))


def by_certain_harm(effects: Sequence[Effect]) -> list[Effect]:
    """The effects that have an interval, by its mildest end: the lowest estimates are those of the fewest sources."""
    return sorted((e for e in effects if e.high is not None), key=lambda e: (e.high, e.value, e.name))


def _worst_table(title: str, effects: Sequence[Effect], most: int) -> Table:
    known = by_certain_harm(effects)
    rows = tuple((e.name, *_certainty(e)) for e in known[:most])
    less = f", {len(rows)} of {len(effects)}" if len(rows) < len(effects) else ""
    columns = (title.partition(",")[0], "points", *_COLUMNS, "sources")
    return Table(f"By {title}, certain harm first{less}", columns, rows, of=columns[0])


def column_words(table: Table) -> list[tuple[str, str]]:
    """What the columns of a table say, where that needs words."""
    return [(column, _WORDS[column]) for column in table.columns if column in _WORDS]


def _figures(effect: Effect) -> tuple[str, str, str]:
    """The cells under `points` and _COLUMNS."""
    return points(effect.value), interval(effect), "-" if effect.q is None else _chance(effect.q, effect.clear)


def _certainty(effect: Effect) -> tuple[str, ...]:
    """The same, and the sources."""
    return (*_figures(effect), str(effect.sources))


def points(value: float | None) -> str:
    """A difference of shares in points of a hundred, with its sign."""
    if value is None:
        return "-"
    shown = f"{abs(100 * value):.1f}"
    return shown if float(shown) == 0 else f"{_MINUS if value < 0 else '+'}{shown}"


def interval(effect: Effect) -> str:
    """From where to where an effect lies."""
    return "-" if effect.low is None else f"{points(effect.low)}{_TO}{points(effect.high)}"


def _chance(q: float, clear: bool) -> str:
    """A corrected chance, marked where the effect is clear."""
    return f"{'< 0.001' if q < 0.001 else f'{q:.3f}'} {'*' if clear else ' '}"


def insights_table(insights: Sequence[Insight], everything: bool = False, title: str = _RELIED_ON) -> tuple[Table, ...]:
    """What a model relies on to recognise a class: clear insights, eight at most, or `everything`; none without any."""
    shown = insights if everything else [one for one in insights if one.clear][:_WORST]
    rows = []
    for one in shown:
        drop, high, low = (points(-end / 100) for end in (one.drop, one.high, one.low))
        named = (one.label, one.keyword or f"nothing like {one.alternative}", one.name)
        certainty = (f"{high} \N{HORIZONTAL ELLIPSIS} {low}", _chance(one.q, one.clear), str(one.pictures))
        rows.append((*named, drop, *certainty))
    columns = ("class", "relies on", "edit", "points", "95 % interval", "q", "pictures")
    return (Table(title, columns, tuple(rows), of="class"),) if rows else ()


def insight_lines(evaluation: Evaluation) -> list[str]:
    """Why there is no insight, where variants were judged and nothing is clear."""
    insights = evaluation.insights
    if any(one.clear for one in insights) or evaluation.effects.against is None or not evaluation.variants.score.count:
        return []
    if not insights:
        return ["what recognising a class relies on is not known: no class has six sources with one kind of edit"]
    of = len({one.label for one in insights})
    return [f"no class clearly relies on anything: {len(insights)} kinds of edits in {of} classes were compared"]
