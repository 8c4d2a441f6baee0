"""Claim: edits of real captions keep their label, are of the type that was asked, and every source gets its variants.

CAPTIONS is a CSV file with a header, or JSON lines: `caption`, `label` (an ImageNet synset, or words), and `name` if
there is one. The engine's rewriting stage runs over it as in `counterfactory plan`, with grounding, all types of edits
and one edit per variant; nothing is painted. Judges that are not the engine's own check (edit_judges.py) say by type
what the edits are worth. The last line is JSON.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from caption_file import name_label, open_language, possible_types, read_captions, sources_of
from edit_judges import LabelJudge, TypeJudge, changed_words, only_changes
from measure import DOCS, bench_parser, finish, machine, show

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.label_names import short_name
from counterfactory.engine.english.menus import kept_phrases
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.report.table import percent
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite_captions
from counterfactory.engine.stages.run import Run
from counterfactory.engine.tasks.task import builtin_task
from counterfactory.engine.variant import Variant

_FIGURES = DOCS / "edits.json"
# Texts to how surprising each is.
Read = Callable[[Sequence[str]], Sequence[float]]
# A label is lost where its cosine falls by more; a caption reads badly where its perplexity grows by more than that.
_MOST_LOST, _MOST_SURPRISE = 0.25, 1.5
_SHARD = 50


@dataclass(frozen=True)
class Judged:
    """A variant and what the judges say of it; `perplexity` is its caption's over the source's."""

    variant: Variant
    edit: Edit
    label_kept: bool
    label_lost: float
    only_edit: bool
    likely_types: tuple[str, ...]
    perplexity: float

    @property
    def right_type(self) -> bool:
        """Whether the edit is of its type, as far as its words say, and nothing else changed."""
        return self.only_edit and self.edit.type in self.likely_types[:2]

    @property
    def reads_well(self) -> bool:
        """Whether its caption reads about as well as the source's."""
        return self.perplexity <= _MOST_SURPRISE


def main() -> None:
    parser = bench_parser(__doc__, write="docs/edits.json")
    parser.add_argument("captions", type=Path, metavar="CAPTIONS")
    parser.add_argument("--llm", type=Path, required=True, metavar="FOLDER", help="what `export llm` wrote")
    parser.add_argument("--encoder", type=Path, required=True, metavar="FOLDER", help="what `export sentence` wrote")
    parser.add_argument("--style", choices=("chatml", "llama2"), default="chatml")
    parser.add_argument("--variants", type=int, default=5, metavar="K")
    menus = "the model writes edits itself: [rewrite] menus = false"
    parser.add_argument("--own-words", action="store_true", help=menus)
    before = 'before captions without their label: "a photo of a {label}: "'
    parser.add_argument("--label-prefix", metavar="TEXT", help=before)
    parser.add_argument("--answers", type=Path, metavar="DIR", help="keeps the model's answers for the next time")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write every edit with what was judged (CSV)")
    parser.add_argument("--by-eye", type=Path, metavar="FILE", help="what a person says of rows: see by_eye")
    asked = parser.parse_args()
    given = read_captions(asked.captions)
    labels = {row.label for row in given}
    task = builtin_task("classification", sorted(labels))
    rewriting = RewriteSettings(EDIT_TYPES, 6, 1, 4, 320, verbatim=True, menus=not asked.own_words)
    request = SuiteRequest(task, asked.variants, controls=0, edits=(1, 1), seed=0)
    rows = name_label(given, task, asked.label_prefix)
    with tempfile.TemporaryDirectory() as made:
        answers = asked.answers or Path(made) / "answers"
        with open_language(asked.llm, asked.encoder, asked.style, rewriting, request, answers) as run:
            captions = sources_of(rows)
            found, tokens, possible = _rewritten(run, captions, answers / "tokens.json")
            encode = run.models.sentence().encode
            read = Llama(asked.llm, precision=resolve_precision("auto"), threads=0).surprises
            judged = judge(found, encode, read)
            judges = try_judges(judged, encode, read)
    figures: dict[str, Any] = summarise(judged, found, captions, possible, asked.variants)
    figures["tokens_per_variant"] = round(tokens / max(len(found), 1), 1)
    figures["captions_named_by_prefix"] = sum(a.caption != b.caption for a, b in zip(given, rows, strict=True))
    figures |= {"classes": len(labels), "judges": judges, "machine": machine()}
    figures["by_type"] = by_type(judged, possible, len(rows))
    if asked.by_eye:
        figures["by_eye"] = by_eye(asked.by_eye, judged)
    if asked.rows:
        write_rows(asked.rows, judged)
    show_types(figures["by_type"])
    if asked.write:
        _FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    finish("edits of real captions keep their label and are of their type", **figures)


def _rewritten(
    run: Run, captions: Mapping[Source, str], counted: Path
) -> tuple[list[Variant], int, dict[Source, frozenset[str]]]:
    """All variants to paint, tokens generated for them, and the types that each source has edits of.

    `counted` keeps the tokens of answers that are on record.
    """
    sources, found, possible = list(captions), list[Variant](), dict[Source, frozenset[str]]()
    for start in range(0, len(sources), _SHARD):
        part = {source: captions[source] for source in sources[start : start + _SHARD]}
        made = rewrite_captions(run, part)
        found += made.variants
        possible |= possible_types(run, part)
        print(f"{start + len(part)} captions, {len(found)} variants, {len(made.dropped)} dropped", flush=True)
        for variant in made.dropped:
            print(f"  dropped: {variant.dropped}")
    earlier = json.loads(counted.read_text()) if counted.is_file() else 0
    tokens = earlier + run.models.llm().usage.generated_tokens
    counted.write_text(json.dumps(tokens))
    return found, tokens, possible


def judge(variants: Sequence[Variant], encode: Any, read: Read) -> list[Judged]:
    """What the judges say of variants of one edit that are not repeats."""
    some = [variant for variant in variants if not variant.repeat]
    labels = LabelJudge(encode, _MOST_LOST)
    named = [(variant.source.label or "", variant.caption, variant.edited_caption) for variant in some]
    edits = [variant.edits[0] for variant in some]
    said = [changed_words(edit.keyword, edit.alternative) or f"without {edit.keyword}" for edit in edits]
    texts = list(dict.fromkeys(text for _, *both in named for text in both))
    surprise = dict(zip(texts, read(texts), strict=True))
    found, answers = [], zip(labels.keeps(named), labels.lost(named), TypeJudge(encode).ranked(said), strict=True)
    for variant, edit, (kept, lost, types) in zip(some, edits, answers, strict=True):
        only = only_changes(variant.caption, variant.edited_caption, edit.keyword, edit.alternative)
        ratio = float(np.exp(surprise[variant.edited_caption] - surprise[variant.caption]))
        found.append(Judged(variant, edit, kept, lost, only, tuple(types), ratio))
    return found


def try_judges(judged: Sequence[Judged], encode: Any, read: Read) -> dict[str, float]:
    """How the judges do where the answer is known: captions whose label's words became another class's, examples of
    types that they do not know, captions with two neighbouring words exchanged.
    """
    labels = sorted({j.variant.source.label or "" for j in judged})
    rng, wrong, mixed = np.random.default_rng(7), list[tuple[str, str, str]](), list[tuple[str, str]]()
    for j in judged[:: max(1, len(judged) // 300)]:
        source, caption = j.variant.source, j.variant.caption
        other = labels[(labels.index(source.label or "") + 1 + int(rng.integers(len(labels) - 1))) % len(labels)]
        if j.variant.protected and len(labels) > 1:
            word = j.variant.protected[-1]
            wrong.append((source.label or "", caption, _replaced(caption, word, other)))
        words = caption.split(" ")
        at = int(rng.integers(max(1, len(words) - 1)))
        words[at : at + 2] = words[at : at + 2][::-1]
        mixed.append((caption, " ".join(words)))
    labels_of, types = LabelJudge(encode, _MOST_LOST), TypeJudge(encode)
    kept, lost = (labels_of.keeps(wrong), labels_of.lost(wrong)) if wrong else ([True], [0.0])
    before, after = (read([pair[side] for pair in mixed]) for side in (0, 1))
    by_encoder = np.mean(np.array(lost) > _MOST_LOST)
    shares: dict[str, Any] = {"label_broken_seen": 1 - np.mean(kept), "label_broken_seen_by_encoder": by_encoder}
    shares |= {"type_first": types.held_out(1), "type_first_two": types.held_out(2)}
    shares["exchanged_words_seen"] = np.mean(np.exp(np.array(after) - np.array(before)) > _MOST_SURPRISE)
    return {name: round(float(share), 3) for name, share in shares.items()}


def _replaced(caption: str, word: str, label: str) -> str:
    for phrase in kept_phrases(caption, [word]):
        caption = caption.replace(phrase, short_name(label))
    return caption


def summarise(
    judged: Sequence[Judged], variants: Sequence[Variant], captions: Mapping[Source, str],
    possible: Mapping[Source, frozenset[str]], wanted: int,
) -> dict[str, Any]:  # fmt: skip
    every, fresh = Counter(v.source for v in variants), Counter(v.source for v in variants if not v.repeat)
    counts = {"captions": len(captions), "edits": len(judged)}
    shares = {
        "label_broken": [not j.label_kept for j in judged],
        "sources_with_all_variants": [every[source] >= wanted for source in captions],
        "sources_with_all_different": [fresh[source] >= wanted for source in captions],
        "grounded": [source in possible for source in captions],
        "all_types_possible": [len(possible.get(source, ())) == len(EDIT_TYPES) for source in captions],
        "right_type": [j.right_type for j in judged],
    }
    return counts | {name: _share(answers) for name, answers in shares.items()} | _quality(judged)


def _quality(judged: Sequence[Judged]) -> dict[str, float]:
    only, well = ([getattr(j, name) for j in judged] for name in ("only_edit", "reads_well"))
    ratio = _median([j.perplexity for j in judged])
    return {"only_the_edit": _share(only), "reads_well": _share(well), "perplexity_ratio": ratio}


def by_type(
    judged: Sequence[Judged], possible: Mapping[Source, frozenset[str]], captions: int
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for type_ in EDIT_TYPES:
        some = [j for j in judged if j.edit.type == type_]
        reached = round(sum(type_ in types for types in possible.values()) / captions, 4)
        first, two = (_share([type_ in j.likely_types[:count] for j in some]) for count in (1, 2))
        found[type_] = {"edits": len(some), "possible": reached, "label_kept": _share([j.label_kept for j in some])}
        found[type_] |= {"first": first, "first_two": two} | _quality(some)
    return found


def _median(values: Sequence[float]) -> float:
    return round(float(np.median(values)), 3) if values else 0.0


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 4) if found else 0.0


def by_eye(file: Path, judged: Sequence[Judged]) -> dict[str, int]:
    """Counts of a person's verdicts: columns `edited_caption`, and `label`, `type`, `grammar`, `coherent` as 1 or 0.

    Ends the program where the file has an edit that this run did not make: it was judged on another run's edits.
    """
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    made = {j.variant.edited_caption for j in judged}
    strange = [row["edited_caption"] for row in rows if row["edited_caption"] not in made]
    if strange:
        raise SystemExit(f"{len(strange)} rows of {file} are not of this run, such as {strange[0]!r}")
    asked = ("label", "type", "grammar", "coherent")
    return {"edits": len(rows)} | {name: sum(row[name] == "1" for row in rows) for name in asked}


def write_rows(file: Path, judged: Sequence[Judged]) -> None:
    """Every edit on a line, for a person to read."""
    columns = "name label type keyword alternative protected caption edited_caption"
    with file.open("w", encoding="utf-8", newline="") as lines:
        out = csv.writer(lines)
        out.writerow((*columns.split(" "), "label_kept", "label_lost", "only_edit", "likely_types", "perplexity"))
        for j in judged:
            v, e = j.variant, j.edit
            about = (v.source.name, v.source.label, e.type, e.keyword, e.alternative, ", ".join(v.protected))
            said = (int(j.label_kept), f"{j.label_lost:.3f}", int(j.only_edit), " ".join(j.likely_types[:3]))
            out.writerow((*about, v.caption, v.edited_caption, *said, f"{j.perplexity:.2f}"))


def show_types(rows: Mapping[str, Mapping[str, float]]) -> None:
    columns = ("possible", "edits", "label kept", "only the edit", "type 1st", "1st or 2nd", "perplexity", "reads well")
    lines = []
    for type_, row in rows.items():
        shares = (percent(row[name]) for name in ("label_kept", "only_the_edit", "first", "first_two"))
        counted, well = (percent(row["possible"]), str(row["edits"])), percent(row["reads_well"])
        lines.append((type_, *counted, *shares, f"x {row['perplexity_ratio']:.2f}", well))
    show("Edits by type", ("type", *columns), lines)


if __name__ == "__main__":
    main()
