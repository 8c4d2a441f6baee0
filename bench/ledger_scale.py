"""Claim: a suite of 125,000 variants resumes in under 5 s, commits a row in under 5 ms, and its table is under 100 MB;
other thresholds replay 10,000 verdicts in at most 2 s (`--replay`).

Synthetic rows of the pocket profile's sizes fill a ledger, five variants per source, and a small file lies where each
picture (and with `--masks` each mask) belongs. The run was interrupted in its last shard: all others have their outcome
in the ledger. Then are measured:

- resume: all until the run knows what is left to do. Opening the suite with the check of the whole ledger; the outcome
  of every finished shard, with the existence and size of each of its files; in the last shard every caption, answer,
  image and score by its own key. Finding and hashing the sources, keys of the models' files and starting Python are not
  in it.
- lookups: the same where no outcome holds, as when a setting or the program has changed: each of the 550,000 results
  by its own key. Making prompts, grammars and keys anew is not in it, and is more.
- commit: one row into that ledger, synced; beside it the ceiling, an append of one page and its fdatasync.
- table: `write_metadata` of all rows in a fresh process: bytes, seconds, and by how much memory rose.

The first two once with the ledger dropped from the page cache, then warm. Where other programs run, compare the seconds
of a core. `--replay` measures `check SUITE --set KEY=X` as a whole command instead, over a suite with controls and
masks: each round sets another threshold, by turns two, so that verdicts turn and the table is written.

    python bench/ledger_scale.py [--variants 125000] [--masks] [--folder DIR]
    python bench/ledger_scale.py --replay [--variants 10000] [--rounds 5] [--folder DIR]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from measure import CLI, bench_parser, finish, in_fresh_process, seconds
from simulated_suites import write_file

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.meter.memory import Memory
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import Crop, Origin, Painting, PictureRow, Suite, image_path, mask_path
from counterfactory.engine.suite.outcome import Outcome, Outcomes

VARIANTS_PER_SOURCE = 5
QUESTIONS = 1 + 3 + VARIANTS_PER_SOURCE  # keywords, alternatives of three keywords, a rewritten caption per variant
MADE_BY = "the same run"
# A shard's sources, and the keys that a run looks up for it, by stage.
Shard = tuple[Sequence[Source], Mapping[str, Sequence[str]]]
BARS = {"resume_s": 5.0, "commit_ms": 5.0, "table_mb": 100.0, "replay_s": 2.0}
THRESHOLDS = (0.3, 0.4)
CLASSES = ("bus", "car", "truck", "van", "tram")
WEATHERS = ("clear", "foggy", "snowy", "rainy", "cloudy")
MATERIALS = ("wooden", "brick", "concrete", "glass", "stone")
COLOURS = ("red", "green", "orange", "purple", "yellow", "white", "black")


@dataclass(frozen=True)
class Made:
    """A synthetic suite: `sources` of five variants; every key and row follows from a number."""

    sources: int
    masks: bool

    def key(self, stage: str, number: int) -> str:
        """Content keys look random, and so do these."""
        return hashlib.sha256(f"{stage}/{number}".encode()).hexdigest()

    def name(self, source: int) -> str:
        return f"{CLASSES[source % 5]}/{source:06d}"

    def caption(self, number: int) -> str:
        material, colour = MATERIALS[number // 7 % 5], COLOURS[number % 7]
        return (
            f"a {WEATHERS[number // 3 % 5]} street at sunset with a {colour} {CLASSES[number // 5 % 5]} and an orange "
            f"car. {material} buildings and trees stand along the road. one person is on the sidewalk."
        )

    def answer(self, source: int, question: int) -> str:
        number = source * QUESTIONS + question
        if question == 0:
            return json.dumps([["colour", "red bus"], ["weather", "clear"], ["background", MATERIALS[number % 5]]])
        return json.dumps(list(COLOURS[:3]) if question < 4 else self.caption(number))

    def files(self, variant: int) -> dict[str, str]:
        image = image_path(self.key("paint", variant), self.name(variant // VARIANTS_PER_SOURCE))
        return {"image": image, "mask": mask_path(image)} if self.masks else {"image": image}

    def painted(self, variant: int) -> dict[str, Any]:
        digest = self.key("pixels", variant)
        files = {k: {"path": p, "bytes": len(p), "sha256": digest} for k, p in self.files(variant).items()}
        return {"mask": None} | files

    def scores(self, variant: int) -> dict[str, float]:
        digits = self.key("scores", variant)
        names = ("image_text", "directional", "image_image")
        return {name: int(digits[5 * i : 5 * i + 5], 16) % 10**6 / 10**6 for i, name in enumerate(names)}

    def row(self, variant: int) -> PictureRow:
        source = variant // VARIANTS_PER_SOURCE
        image = self.painted(variant)["image"]
        original = image_path(self.key("original", source), self.name(source), "originals")
        colour = Edit("colour", "red bus", f"{COLOURS[variant % 7]} bus")
        edits = Edit("weather", "clear", WEATHERS[variant % 5]), colour
        reason = None if variant % 20 else "unlike its caption: image_text 0.120 is below 0.150"
        origin = Origin(f"{self.name(source)}.jpg", self.key("digest", source), 128, 128)
        return PictureRow(
            image["path"], image["sha256"], "variant", self.name(source), CLASSES[source % 5],
            self.files(variant).get("mask"), original, None, self.caption(source), self.caption(variant + 1), edits,
            variant % VARIANTS_PER_SOURCE, Painting(0, 12, 2.0, 0.0, 0.5), self.scores(variant), reason, origin,
            Crop(0.0, 0.0, 128.0, 128.0), self.key("source", source), self.key("variant", variant),
        )  # fmt: skip

    def sources_of(self, numbers: range) -> list[Source]:
        """Sources as a run has them; nobody reads their files."""
        found = []
        for i in numbers:
            name, keys = self.name(i), (self.key("digest", i), self.key("source", i))
            found.append(Source(name, name, Path(name), (128, 128), name.split("/")[0], None, *keys))
        return found

    def outcome(self, variants: range) -> tuple[Outcome, list[PictureRow]]:
        """What a finished shard came to, and its rows of metadata.parquet."""
        rows = [self.row(i) for i in variants]
        accepted = sum(row.accepted for row in rows)
        files = {path: len(path) for row in rows for path in row.files}
        return Outcome(accepted, len(rows) - accepted, 0, 0, files, (), ()), rows

    def shards(self, size: int) -> Iterator[tuple[range, range]]:
        """Numbers of each shard's sources and variants."""
        for start in range(0, self.sources, size):
            sources = range(start, min(start + size, self.sources))
            yield sources, range(sources.start * VARIANTS_PER_SOURCE, sources.stop * VARIANTS_PER_SOURCE)

    def records(self, sources: range, variants: range) -> dict[str, dict[str, Any]]:
        """What the ledger holds for a shard and a run looks up, by stage."""
        questions = [(i, question) for i in sources for question in range(QUESTIONS)]
        return {
            "caption": {self.key("caption", i): self.caption(i) for i in sources},
            "rewrite": {self.key("rewrite", i * QUESTIONS + q): self.answer(i, q) for i, q in questions},
            "paint": {self.key("paint", i): self.painted(i) for i in variants},
            "check": {self.key("check", i): self.scores(i) for i in variants},
        }

    def replayed(self) -> Iterator[PictureRow]:
        """The rows of a suite with all scores: variants, a control and an original of each source."""
        for source in range(self.sources):
            first = self.row(source * VARIANTS_PER_SOURCE)
            control = image_path(self.key("control", source), self.name(source))
            more = {"layout": 0.8, "label": 0.0}
            for number in range(VARIANTS_PER_SOURCE):
                row = self.row(source * VARIANTS_PER_SOURCE + number)
                scores = {**row.scores, **more, "edit": row.scores["image_image"]}
                yield replace(row, control=control, scores=scores, edit_scores=(0.6, 0.7), reason=None)
            plain = replace(first, control=control, edits=(), number=0, reason=None, scores={**first.scores, **more})
            yield replace(plain, kind="control", file_name=control, mask=mask_path(control))
            original: dict[str, Any] = {"file_name": first.original, "mask": mask_path(first.original)}
            yield replace(plain, kind="original", scores={}, painting=None, **original)


def write_files(folder: Path, names: Iterable[str]) -> dict[str, list[Any]]:
    """A file of its own name for each, and the ledger's rows of them."""
    return {name: write_file(folder, name, name.encode()) for name in names}


def fill(folder: Path, made: Made, size: int) -> None:
    with Suite.open(folder) as suite:
        outcomes = Outcomes(suite, MADE_BY)
        for sources, variants in made.shards(size):
            outcome, rows = made.outcome(variants)
            listed = write_files(folder, outcome.files)
            suite.ledger.put_stages(made.records(sources, variants) | {"suite/files": listed})
            if sources.stop < made.sources:
                outcomes.keep(made.sources_of(sources), outcome, rows, finished=True)


def resume(folder: Path, shards: Sequence[Shard], made_by: str) -> dict[str, float]:
    """Seconds of opening, of outcomes, and of each stage's lookups; closing is not in it. Everything must be found."""
    spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        spent[what] += time.perf_counter() - began

    with timed("open"):
        suite = Suite.open(folder)
    with suite:
        outcomes = Outcomes(suite, made_by)
        for sources, stages in shards:
            with timed("outcomes"):
                outcome = outcomes.find(sources)
            if outcome:
                assert outcome.painted == len(stages["paint"])
                continue
            for stage, keys in stages.items():
                with timed(stage):
                    found = suite.images(stage, keys) if stage == "paint" else suite.ledger.get(stage, keys)
                assert len(found) == len(keys), f"{stage} lacks {len(keys) - len(found)} results"
    return spent


def resumes(folder: Path, shards: Sequence[Shard], name: str, made_by: str) -> list[dict[str, float]]:
    with (folder / "ledger.sqlite").open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    results = []
    for cache in ("cold", "warm", "warm"):
        began = time.process_time()
        spent = resume(folder, shards, made_by)
        result = {"s": sum(spent.values()), "cpu_s": time.process_time() - began}
        told = ", ".join(f"{what} {s:.2f}" for what, s in spent.items())
        print(f"{name:10} {cache} {result['s']:.2f} s ({result['cpu_s']:.2f} s of a core): {told}")
        results.append(result)
    return results


def spread(times: Sequence[float]) -> dict[str, float]:
    ranked = sorted(times)
    rank = min(len(ranked) - 1, round(0.99 * len(ranked)))
    return {"median": 1e3 * statistics.median(ranked), "p99": 1e3 * ranked[rank], "max": 1e3 * ranked[-1]}


def commits(folder: Path, made: Made, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Time of one row's commit and of its ceiling, by turns."""
    with Suite.open(folder) as suite, (folder / "ceiling.tmp").open("wb", buffering=0) as file:

        def append() -> None:
            file.write(bytes(4096))
            os.fdatasync(file.fileno())

        def put(number: int) -> Callable[[], None]:
            return lambda: suite.ledger.put("bench", {made.key("bench", number): made.painted(number)})

        put(-1)()
        pairs = [(seconds(put(number)), seconds(append)) for number in range(count)]
    (folder / "ceiling.tmp").unlink()
    ours, ceiling = zip(*pairs, strict=True)
    return spread(ours), spread(ceiling)


def write_table(folder: Path, made: Made) -> tuple[float, float]:
    """Seconds, and the rise of this process's peak memory in 10^6 bytes."""
    with Suite.open(folder) as suite, tempfile.TemporaryDirectory() as spare:
        with Suite.open(Path(spare)) as small:  # what the libraries take for themselves at first use
            small.ledger.put("suite/files", {})
            small.write_metadata([])
        before = Memory().peak()
        *finished, last = made.shards(load_profile("pocket").shard_sources)
        rows = Outcomes(suite, MADE_BY).rows(made.sources_of(sources) for sources, _ in finished)
        taken = seconds(lambda: suite.write_metadata(chain(rows, map(made.row, last[1]))))
        return taken, (Memory().peak() - before) / 1e6


def replay(folder: Path, made: Made, rounds: int, write: bool) -> None:
    """Time other thresholds over a finished suite, as a user's command and alone, and print the JSON line."""
    with Suite.open(folder) as suite:
        rows = list(made.replayed())
        files = sorted({name for row in rows for name in row.files})
        suite.ledger.put("suite/files", write_files(folder, files))
        suite.write_metadata(rows)

    def command() -> None:
        setting = ["--profile", "pocket", "--set", f"check.image_text={THRESHOLDS[0]}", "--json"]
        call = [*CLI, "check", str(folder), *setting]
        done = subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True)
        assert json.loads(done.stdout)["turned"], "no verdict turned: nothing was measured"

    other = load_profile("pocket").check.having(min_image_text=THRESHOLDS[1])
    recheck(folder, other)
    times = [(seconds(command), seconds(lambda: recheck(folder, other))) for _ in range(rounds)]
    whole, alone = zip(*times, strict=True)
    slowest, verdicts = max(whole), made.sources * VARIANTS_PER_SOURCE
    print(f"replayed   {verdicts} verdicts; slowest command {slowest:.2f} s, the replay alone {max(alone):.2f} s")
    figures: dict[str, Any] = {"verdicts": verdicts, "rounds": rounds}
    figures |= {"command_s": statistics.median(whole), "command_max_s": slowest}
    figures |= {"replay_s": statistics.median(alone), "replay_max_s": max(alone)}
    figures |= {"bar_s": BARS["replay_s"], "met": slowest <= BARS["replay_s"]}
    finish("replaying 10,000 verdicts takes at most 2 s", keep="replay" if write else None, **figures)


def scale(folder: Path, made: Made, asked: argparse.Namespace) -> None:
    """Fill a suite, resume it, commit to it, write its table, and print the JSON line."""
    size = load_profile("pocket").shard_sources
    made_s = seconds(lambda: fill(folder, made, size))
    ledger_mb = (folder / "ledger.sqlite").stat().st_size / 1e6
    count = made.sources * VARIANTS_PER_SOURCE
    print(f"made       {count} variants in {made_s:.0f} s; ledger {ledger_mb:.0f} MB")
    shards = [
        (made.sources_of(sources), {stage: list(of) for stage, of in made.records(sources, variants).items()})
        for sources, variants in made.shards(size)
    ]
    resumed = resumes(folder, shards, "resume", MADE_BY)
    looked_up = resumes(folder, shards, "lookups", "other settings")
    commit, ceiling = commits(folder, made, asked.commits)
    for name, times in (("commit", commit), ("fdatasync", ceiling)):
        print(f"{name:10} median {times['median']:.2f} ms, p99 {times['p99']:.2f} ms, max {times['max']:.2f} ms")
    table_s, rise_mb = in_fresh_process(write_table, folder, made)
    table_mb = (folder / "metadata.parquet").stat().st_size / 1e6
    print(f"table      {table_mb:.1f} MB, {table_s:.1f} s, peak memory +{rise_mb:.0f} MB")
    resume_s = max(result["s"] for result in resumed)
    reached = {"resume_s": resume_s, "commit_ms": commit["p99"], "table_mb": table_mb}
    figures: dict[str, Any] = {"ceiling_share": ceiling["median"] / commit["median"], "variants": count}
    figures |= {"masks": asked.masks, "resume_s": resume_s, "resume_warm_s": resumed[-1]["s"]}
    figures["resume_cpu_s"] = statistics.median(result["cpu_s"] for result in resumed)
    figures |= {"lookups_s": max(result["s"] for result in looked_up), "ledger_mb": ledger_mb}
    for name, times in (("commit_ms", commit), ("fdatasync_ms", ceiling)):
        figures[name] = {of: round(ms, 3) for of, ms in times.items()}
    figures |= {"table_mb": table_mb, "table_s": table_s, "table_memory_rise_mb": rise_mb}
    figures["bars"] = {name: BARS[name] for name in reached}
    figures["met"] = {name: value < BARS[name] for name, value in reached.items()}
    finish("ledger_scale", keep="ledger_scale" if asked.write else None, **figures)


def main() -> None:
    parser = bench_parser(__doc__, write="docs/performance.json")
    parser.add_argument("--replay", action="store_true", help="time other thresholds over a finished suite")
    parser.add_argument("--variants", type=int, help="125,000, or of --replay 10,000")
    parser.add_argument("--masks", action="store_true", help="a mask a variant, as in suites for segmentation")
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5, help="of --replay")
    parser.add_argument("--folder", type=Path, help="where to make the suite (default: the system's temporary folder)")
    asked = parser.parse_args()
    asked.variants = asked.variants or (10_000 if asked.replay else 125_000)
    made = Made(max(1, asked.variants // VARIANTS_PER_SOURCE), asked.masks or asked.replay)
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        if asked.replay:
            replay(Path(temporary) / "suite", made, asked.rounds, asked.write)
        else:
            scale(Path(temporary) / "suite", made, asked)


if __name__ == "__main__":
    main()
