"""The engine's rewriting of captions that a file gives, by a real language model and sentence encoder; nothing is
painted, and no picture is read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from counterfactory.engine.content_keys import STAGES, ContentKeys, Stage
from counterfactory.engine.english.label_names import short_name
from counterfactory.engine.english.replacing import agree
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.questions import clean_text
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.network import Network, Networks, Rows
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings, LlmSettings, RewriteSettings, Style
from counterfactory.engine.profile.runtime import RuntimeSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions, draft_of
from counterfactory.engine.stages.rewrite.label_grounding import point_at_labels
from counterfactory.engine.stages.rewrite.proposals import find_choices
from counterfactory.engine.stages.run import Classes, Recipe, Run
from counterfactory.engine.suite import Suite
from counterfactory.engine.tasks.task import Task, protect

# As docs/tasks.md gives them.
GROUNDING = GroundingSettings(batch=16, min_similarity=0.45)


@dataclass(frozen=True)
class Captioned:
    """A caption with its label, and the name of what they are of."""

    name: str
    caption: str
    label: str


def read_captions(file: Path) -> list[Captioned]:
    """The rows of a CSV file with a header, or of JSON lines: `caption`, `label`, and `name` if there is one.

    Ends the program for a file without captions or labels, and for two rows of one name.
    """
    with file.open(encoding="utf-8", newline="") as lines:
        found = [json.loads(line) for line in lines] if file.suffix == ".jsonl" else list(csv.DictReader(lines))
    for number, row in enumerate(found, start=1):
        if not str(row.get("caption") or "").strip() or not str(row.get("label") or "").strip():
            raise SystemExit(f"row {number} of {file} needs a caption and a label, found {row}")
    rows = [Captioned(str(row.get("name", i)), str(row["caption"]), str(row["label"])) for i, row in enumerate(found)]
    if len({row.name for row in rows}) < len(rows):
        raise SystemExit(f"{file} has a name twice")
    if not rows:
        raise SystemExit(f"{file} has no rows")
    return rows


class Language(ModelPool):
    """The models of rewriting alone: no text encoder cuts captions off, since nothing is painted."""

    def caption_room(self) -> Callable[[str], int]:
        """All characters."""
        return len


@contextmanager
def open_language(
    llm: Path, encoder: Path, style: Style, rewriting: RewriteSettings, request: SuiteRequest, suite: Path
) -> Iterator[Run]:
    """What rewriting works with: folders that `export llm` and `export sentence` wrote; `suite` keeps the answers."""
    settings = LlmSettings("openvino", str(llm.resolve()), style)
    profile = load_profile("pocket")
    runtime = RuntimeSettings(**{**vars(profile.runtime), "precision": "auto"})
    profile = replace(profile, llm=settings, runtime=runtime, grounding=GROUNDING, rewrite=rewriting)
    rows: dict[Stage, Rows] = {"rewrite": Rows(1)}
    sentence = Network("sentence", "sentence", GROUNDING.batch, rows, files=("sentence_tokenizer.json",))
    networks = Networks((Network("llm", "llm", 1, rows), sentence))
    library, meter = Library(encoder, networks, runtime, settings), Meter(lambda _: None)
    maker, nothing = library.digest("rewrite"), dict.fromkeys(("image", "caption", "edges", "paint", "text", "check"))
    keys = ContentKeys(**nothing, sampling=settings.sampling, makers=dict.fromkeys(STAGES, maker))
    with Suite.open(suite) as opened, closing(Language(library, meter)) as models:
        yield Run(profile, request, opened, models, meter, keys, 0, 0, Classes(()))


def sources_of(rows: Sequence[Captioned]) -> dict[Source, str]:
    """The captions by sources as the engine knows them, without pictures."""

    def source(name: str, label: str) -> Source:
        return Source(name, name, Path(name), (512, 512), label, None, name, content_key(name))

    return {source(row.name, row.label): row.caption for row in rows}


def possible_types(run: Run, captions: Mapping[Source, str]) -> dict[Source, frozenset[str]]:
    """The types of which a caption has at least one edit to choose, by the answers on record; sources without a ground
    are left out.
    """

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        keys = {request: run.keys.answer_key(question, request.content) for request in requests}
        answers = run.recorded("rewrite", keys, Recipe(_not_recorded))
        return [answers[request] for request in requests]

    questions = Questions(run.profile.rewrite, run.request, ask, prompts_of(run.profile.llm.style))
    with run.meter.stage("rewrite"):
        pointed = point_at_labels(run, captions, questions)
        drafts = [draft_of(s, clean_text(c), run.request.task, pointed.get(s)) for s, c in captions.items()]
        find_choices(drafts, questions)
    return {d.source: frozenset(c.type for c in d.choices if c.alternatives) for d in drafts if not d.problem}


def _not_recorded(requests: list[LlmRequest]) -> Generator[dict[LlmRequest, str], None, None]:
    raise SystemExit(f"{len(requests)} questions of the language model are not on record")
    yield {}


def name_label(rows: Sequence[Captioned], task: Task, prefix: str | None) -> list[Captioned]:
    """The rows; with `prefix`, such as "a photo of a {label}: ", captions that name nothing of their label begin with
    it, as a captioner's would after [caption] label_prefix.
    """
    if prefix is None:
        return list(rows)
    before, mark, after = prefix.partition("{label}")

    def named(row: Captioned) -> Captioned:
        if protect(task, row.label, (), clean_text(row.caption)).grounded:
            return row
        label = short_name(row.label)
        return replace(row, caption=(f"{agree(before, label)}{label}{after}" if mark else prefix) + row.caption)

    return [named(row) for row in rows]
