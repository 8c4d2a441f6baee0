"""Each documented feature is turned on by a file of ten lines, and does in a plan or a suite what it promises.

The files beside this one extend profiles that come with the package. Networks that the package does not have are small
ones with seeded weights, exported as a user exports theirs. `plain` is always the same command without the file.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.controlnets.controlnet import ControlNetConditioningEmbedding
from numpy.typing import NDArray
from PIL import Image
from profiles import profile_with
from streets import write_streets
from tiny_networks import filled
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.english.menus import menu
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.graphs.tracing import to_ir
from counterfactory.export.language.bert import export_masked, export_sentence

STREET_WORDS = ("snowy", "foggy", "night", "morning", "stone", "glass", "narrow", "quiet", "bus")
WORDS = ("red", "blue", "old", *STREET_WORDS, "zebra")
FILES = {path.stem: path for path in Path(__file__).parent.glob("*.toml")}


@dataclass(frozen=True)
class Made:
    """A finished suite."""

    path: Path

    @property
    def variants(self) -> list[PictureRow]:
        return [row for row in read_metadata(self.path) if row.kind == "variant"]

    @property
    def evaluated(self) -> dict[str, int]:
        """Rows that went through each network."""
        (session,) = json.loads((self.path / "run.json").read_text())["sessions"]
        return {plan["plan"]: plan["rows"] for plan in session["costs"]["plans"] if plan["rows"]}

    def pixels(self, row: PictureRow) -> NDArray[np.float64]:
        return read(self.path / row.file_name)

    def original(self, row: PictureRow) -> NDArray[np.float64]:
        return read(self.path / row.original)


@dataclass
class Commands:
    """The command line over three rendered streets with their masks; what ran once is not run again."""

    root: Path
    models: Path
    done: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def plan(self, feature: str | None, *args: str) -> dict[str, dict[str, Any]]:
        """What would be changed, by source."""
        return {one["source"]: one for one in self._run("plan", feature, *args)["sources"]}

    def generate(self, feature: str | None, *args: str) -> Made:
        out = self.root / "-".join(("suite", feature or "plain", *args)).replace("--", "")
        self._run("generate", feature, "--out", str(out), *args)
        return Made(out)

    def profile(self, feature: str | None) -> str:
        """The feature's file as a user has it, but for the folder of the networks."""
        base = "pocket" if feature is None else FILES[feature]
        return str(profile_with(self.root / (feature or "plain"), base, models={"folder": str(self.models)}))

    def _run(self, command: str, feature: str | None, *args: str) -> Any:
        counts = () if "--variants" in args else ("--variants", "2")
        asked = (command, str(self.root / "street"), "--profile", self.profile(feature), *args, *counts)
        if asked not in self.done:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                assert main([*asked, "--controls", "0", "--json"]) in (0, 1)
            self.done[asked] = json.loads(printed.getvalue())
        return self.done[asked]


def read(path: Path) -> NDArray[np.float64]:
    return np.asarray(Image.open(path), np.float64)


class Depth(nn.Module):
    """A network of depth: what is dark all around is near."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(1.0 - image.mean(1), 9, stride=1, padding=4)


def save_bert(folder: Path) -> None:
    """A masked language model of seeded weights that knows the street's words."""
    torch.manual_seed(5)
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[MASK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[MASK]"])
    sizes = {"vocab_size": len(vocabulary), "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48}
    model = BertForMaskedLM(BertConfig(**sizes, num_attention_heads=4, pad_token_id=0))
    for name, value in model.named_parameters():
        if "LayerNorm" not in name:
            nn.init.normal_(value, std=0.3)
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, shared_answers: None) -> Commands:
    """The embedded networks, and beside them those that features ask for."""
    folder = tmp_path_factory.mktemp("models")
    for file in ModelPaths("pocket").path.iterdir():
        (folder / file.name).symlink_to(file)
    save_bert(folder / "bert")
    export_masked(folder / "bert", folder)
    export_sentence(folder / "bert", folder)
    axes = {0: "batch", 2: "height", 3: "width"}
    encoder = filled(ControlNetConditioningEmbedding(32, 1, (8, 16, 32)))
    to_ir(encoder, {"hint": torch.rand(2, 1, 64, 96)}, ["hint_embedding"], folder / "hint_depth.xml", {"hint": axes})
    to_ir(Depth(), {"image": torch.rand(2, 3, 64, 96)}, ["depth"], folder / "depth.xml", {"image": axes})
    root = tmp_path_factory.mktemp("features")
    write_streets(root / "street")
    return Commands(root, folder)


def edits(plan: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    return [edit for one in plan.values() for variant in one["variants"] for edit in variant["edits"]]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_feature_is_a_file_of_ten_lines(name: str) -> None:
    lines = FILES[name].read_text().splitlines()
    assert len(lines) <= 10
    assert load_profile(str(FILES[name])).name == name


@pytest.mark.slow
def test_menus_bring_the_product_s_own_phrases_and_nothing_else(commands: Commands) -> None:
    plans = [commands.plan(feature) for feature in ("menus", None)]

    def offered(one: dict[str, Any], edit: dict[str, str]) -> bool:
        pairs = menu(edit["type"], one["caption"], one["protected"], one["label"])
        return (edit["keyword"], edit["alternative"]) in pairs

    for variants, ours in zip(plans, (True, False), strict=True):
        found = [offered(one, edit) for one in variants.values() for v in one["variants"] for edit in v["edits"]]
        assert len(found) > 3
        assert all(found) == ours


def test_random_words_are_a_masked_language_model_s(commands: Commands) -> None:
    found, plain = (edits(commands.plan(feature)) for feature in ("random_words", None))
    assert len(found) > 3
    assert {edit["type"] for edit in found} == {"random"}
    assert {edit["alternative"] for edit in found} <= set(WORDS)
    assert "random" not in {edit["type"] for edit in plain}


def test_grounding_points_at_what_names_a_label_where_no_word_does(commands: Commands) -> None:
    labels = commands.root / "labels.csv"
    labels.write_text("image,label\nbus/0000.png,zebra\nbus/0002.png,bus\ncar/0001.png,car\n")
    found, plain = (commands.plan(feature, "--labels", str(labels)) for feature in ("grounding", None))
    assert plain["bus/0000"]["variants"] == []
    assert "names nothing that it is labelled with" in plain["bus/0000"]["shortfall"]
    zebra = found["bus/0000"]
    (pointed,) = zebra["protected"]
    assert pointed in zebra["caption"]
    assert len(zebra["variants"]) == 2
    assert all(pointed in variant["edited_caption"] for variant in zebra["variants"])
    assert found["car/0001"]["protected"] == plain["car/0001"]["protected"] == ["car"]


def test_what_is_harder_to_read_than_its_caption_is_not_painted(commands: Commands) -> None:
    dropped = {
        feature: [v["dropped"] for one in commands.plan(feature).values() for v in one["variants"] if v["dropped"]]
        for feature in ("perplexity", None)
    }
    assert dropped[None] == []
    assert dropped["perplexity"]
    assert all("perplexity_ratio" in reason for reason in dropped["perplexity"])


@pytest.mark.slow
def test_the_captioner_looks_at_edits_of_the_types_that_are_asked_for(commands: Commands) -> None:
    found, plain = (commands.generate(feature).variants for feature in ("recaption", None))
    assert [row.sha256 for row in found] == [row.sha256 for row in plain]
    for row in found:
        asked = {edit.type for edit in row.edits} & {"weather", "background"}
        assert {name for name in row.scores if name.startswith("said_")} == {
            f"said_{type_}" for type_ in asked | ({"edits"} if asked else set())
        }
        assert all(0 < row.scores[f"said_{type_}"] <= 1 for type_ in asked)
    assert any("said_edits" in row.scores for row in found)
    assert not any(name.startswith("said_") for row in plain for name in row.scores)


def test_a_referee_judges_the_same_pictures(commands: Commands) -> None:
    found, plain = (commands.generate(feature).variants for feature in ("referees", None))
    assert [row.sha256 for row in found] == [row.sha256 for row in plain]
    assert all({"miou", "recall", "recall_road"} <= row.scores.keys() for row in found)
    rejected = [row.scores["miou"] < 0.4 for row in found]
    assert 0 < sum(rejected) < len(found)
    for row, other, no_match in zip(found, plain, rejected, strict=True):
        assert "miou" not in other.scores
        judged_by_it = no_match and other.reason is None
        assert ("what the referee sees has left the mask" in (row.reason or "")) == judged_by_it
        assert judged_by_it or row.reason == other.reason


@pytest.mark.slow
def test_hints_are_other_maps_to_follow(commands: Commands) -> None:
    found, plain = (commands.generate(feature) for feature in ("hints", None))
    maps = {"hint", "hint_depth", "depth"}
    assert maps & found.evaluated.keys() == {"hint_depth", "depth"}
    assert maps & plain.evaluated.keys() == {"hint"}
    pairs = list(zip(found.variants, plain.variants, strict=True))
    assert all(row.edited_caption == other.edited_caption and row.sha256 != other.sha256 for row, other in pairs)


@pytest.mark.slow
def test_a_protected_class_keeps_its_pixels(commands: Commands) -> None:
    held, free = (commands.generate(feature) for feature in ("protect", None))
    for row, other in zip(held.variants, free.variants, strict=True):
        road = read(held.path / str(row.mask)) == EMBEDDED.classes.index("road")
        moved = np.abs(held.pixels(row) - held.original(row)), np.abs(free.pixels(other) - free.original(other))
        assert moved[0][road].mean() < 0.75 * moved[1][road].mean()
        assert moved[0][~road].mean() == pytest.approx(moved[1][~road].mean(), rel=0.2), "the rest is painted anew"


def test_weather_is_planned_from_faint_to_full(commands: Commands) -> None:
    levels = ("--levels", "3", "--variants", "3")
    found, plain = commands.plan("severity", *levels), commands.plan(None)
    for one in found.values():
        first, *others = one["variants"]
        assert [edit["type"] for edit in first["edits"]] == ["weather"]
        assert [other["edits"] for other in others] == [first["edits"]] * 2
        assert [v["level"] for v in one["variants"]] == [1, 2, 3]
    assert {edit["type"] for edit in edits(plain)} != {"weather"}


@pytest.mark.slow
def test_an_inverted_source_stays_where_nothing_is_edited(commands: Commands) -> None:
    found, plain = (commands.generate(feature) for feature in ("invert", None))
    assert {row.painting and row.painting.self_attention for row in found.variants} == {0.5}
    assert {row.painting and row.painting.self_attention for row in plain.variants} == {None}
    assert {len(row.edits) for row in found.variants} == {1}
    moved = [
        [np.median(np.abs(suite.pixels(row) - suite.original(row))) for row in suite.variants]
        for suite in (found, plain)
    ]
    assert max(moved[0]) < min(moved[1]), "half of a picture is its source's"
