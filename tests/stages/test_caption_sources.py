"""Captions: each source's own, recorded, and written again where they do not name the label; originals, kept once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rewriting import TASK
from rewriting import source as labelled
from tiny_desk import IMAGE_BATCH, image_name, tiny_run
from tiny_painting import pixels_of

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.inputs import without_captions
from counterfactory.engine.keys import generator
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.painter import NO_CAPTIONER
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.published import checkpoints_of
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.given import GivenPictures
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages import caption_sources as stage
from counterfactory.engine.stages.caption_sources import caption_sources, missing_captions
from counterfactory.engine.stages.original import keep_originals
from counterfactory.export.production.command import graphs_of, request_of

NUCLEUS = DecodingSettings("nucleus", 1, 0.9, 1.0, 0, 8, 1.0, 1.0)
CAPTION = CaptionSettings(batch=IMAGE_BATCH, texts=2, prefix="a ", decoding=NUCLEUS)


def caption_of(source: Source, key: str) -> str:
    """What the stand-in captioner says of a picture, by the random numbers of its key."""
    chances = [generator(key, f"caption {i}").integers(10**6) for i in range(2)]
    return " ".join(f"a {image_name(pixels_of(source))[:4]} {chance} nucleus." for chance in chances)


def test_captions_are_each_source_s_own_and_recorded(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources) as first:
        assert missing_captions(first.of(caption=CAPTION), sources) == sources
        some = caption_sources(first.of(caption=CAPTION), sources[2:4], first.pictures)
        assert some == {s: caption_of(s, first.run.keys.caption_key(s.digest)) for s in sources[2:4]}
        assert missing_captions(first.of(caption=CAPTION), sources) == [*sources[:2], *sources[4:]]
        found = caption_sources(first.of(caption=CAPTION), sources, first.pictures)
        assert list(found) == sources
        assert found == {s: caption_of(s, first.run.keys.caption_key(s.digest)) for s in sources}
        assert [len(call) for call in first.networks.calls["blip2"]] == [2, 2, 2, 1]
        assert first.networks.entered == ["caption"] * 2
        assert first.made("caption") == 7
        assert first.done("caption") == (9, 7)  # two were asked for twice
        assert first.run.meter.current == "caption"
    with tiny_run(tmp_path / "suite", sources) as second:
        assert caption_sources(second.of(caption=CAPTION), sources, second.pictures) == found
        assert (second.networks.opened, second.networks.entered) == ([], [])
        assert second.done("caption") == (7, 7)


def test_a_picture_that_cannot_be_read_has_no_caption_and_costs_no_other(sources: list[Source], tmp_path: Path) -> None:
    sources[1].path.unlink()
    with tiny_run(tmp_path / "suite", sources) as run:
        found = caption_sources(run.of(caption=CAPTION), sources, run.pictures)
        assert list(found) == [sources[0], *sources[2:]]
        assert all(found[s] == caption_of(s, run.run.keys.caption_key(s.digest)) for s in found)
        assert [len(call) for call in run.networks.calls["blip2"]] == [2, 2, 2]
        assert [problem.name for problem in run.pictures.problems] == [sources[1].name]
        assert missing_captions(run.of(caption=CAPTION), sources) == [sources[1]]


def test_a_caption_that_does_not_name_its_label_is_written_again_after_a_text_that_does(
    sources: list[Source], tmp_path: Path
) -> None:
    """Also one that is on record; sources without a label, or with one that has no words, keep theirs."""
    labels = ("apple", "n02099601", "apple", None, "n00000000", "a", "apple")
    labelled = [replace(s, label=label) for s, label in zip(sources, labels, strict=True)]
    again = replace(CAPTION, label_prefix="a photo of a {label}")
    with tiny_run(tmp_path / "suite", labelled) as run:
        plain = caption_sources(run.of(caption=CAPTION), labelled, run.pictures)
        found = caption_sources(run.of(caption=again), labelled, run.pictures)
        for at in (3, 4, 5):  # nothing to name, and "a ..." names an "a"
            assert found[labelled[at]] == plain[labelled[at]]
        for at, text in ((0, "a photo of an apple"), (1, "a photo of a golden retriever"), (6, "a photo of an apple")):
            source = labelled[at]
            key = run.run.keys.caption_key(source.digest, text)
            first, second = (generator(key, f"caption {i}").integers(10**6) for i in range(2))
            name = f"{text}{image_name(pixels_of(source))[:4]}"  # what the stand-in continues, it says again
            assert found[source] == f"{text} {name} {first} nucleus. {text} {name} {second} nucleus."
        assert [len(call) for call in run.networks.calls["blip2"]] == [2, 2, 2, 1, 2, 1, 1]
        assert run.done("caption") == (14, 7), "a caption that is written twice is one that was asked for"
        assert caption_sources(run.of(caption=again), labelled, run.pictures) == found
        assert len(run.networks.calls["blip2"]) == 7
        free = replace(TASK, protect_label=False)
        assert (
            caption_sources(run.of(SuiteRequest(free, 1, 0, (1, 1), 0), caption=again), labelled, run.pictures) == plain
        )


def test_what_captions_go_on_after() -> None:
    for prefix, label, named in (
        ("a photo of", "bus", None),
        ("a photo of a {label}", "bus", "a photo of a bus"),
        ("a photo of a {label} ", "n02099601", "a photo of a golden retriever "),
        ("A {label}", "Umbrella", "An Umbrella"),
        ("a photo of a {label}", "hourglass", "a photo of an hourglass"),
        ("a photo of a {label}", "unicycle", "a photo of a unicycle"),
        ("a photo of an {label}", "bus", "a photo of a bus"),
        ("extra {label}", "umbrella", "extra umbrella"),
        ("a photo of a {label}", None, "a photo of a"),
        ("a photo of a {label}", "n00000000", "a photo of a"),
        ("{label}:", "x" + "é" * 40, "x" + "é" * 15 + ":"),
        ("{label}", 'a "b"', "a 'b'"),
    ):
        assert stage.named_prefix(prefix, label) == named


def test_what_labels_say_of_a_picture() -> None:
    for label, classes, caption in (
        ("umbrella", ("car",), "a photo of an umbrella"),
        (None, ("car", "fire_truck"), "a photo of car, fire truck"),
        (None, (), "a photo"),
        ("n00000000", ("car",), "a photo"),
    ):
        assert stage.caption_of_labels(replace(labelled("1", label), classes=classes)) == caption


def test_texts_of_one_picture_are_sentences_said_once_and_marks_follow_what_they_go_on_after() -> None:
    assert [stage._append("a dog", text) for text in ("runs", ", wet", "")] == ["a dog runs", "a dog, wet", "a dog"]
    assert stage._append("", "runs") == "runs"
    for texts, joined in (
        (["a red bus"], "a red bus"),
        (["a red bus ."], "a red bus ."),
        (["a red bus .", "a street"], "a red bus. a street."),
        (["exit X", "the way. "], "exit X. the way."),
        (["a bus.", "a bus", "a street. ", " .", "a bus ."], "a bus. a street."),
    ):
        assert stage._join(texts) == joined
    # The longest prefix has room.
    assert CAPTION.prompt_tokens == 1 + len("a ")
    assert replace(CAPTION, label_prefix="a {label}").prompt_tokens == 1 + len("a ") + 32
    assert replace(CAPTION, prefix="a {label} é").prompt_tokens == 1 + len("a  ") + 2 + 32


def test_originals_are_kept_as_the_painter_sees_them_with_their_masks(sources: list[Source], tmp_path: Path) -> None:
    bare = replace(sources[6], mask_path=None)
    asked = [*sources[:6], bare]
    with tiny_run(tmp_path / "suite", sources) as first:
        some = keep_originals(first.of(), asked[2:4], first.pictures)
        assert list(some) == asked[2:4]
        found = keep_originals(first.of(), asked, first.pictures)
        assert list(found) == asked
        assert {source: found[source] for source in some} == some
        for source, row in found.items():
            key = first.run.keys.original_key(source.key)
            assert row.image.path == f"originals/{source.name}/{key[:16]}.png"
            np.testing.assert_array_equal(first.run.suite.load_image(row), pixels_of(source))
            if source is bare:
                assert row.mask is None
                continue
            assert row.mask is not None
            mask = np.asarray(Image.open(tmp_path / "suite" / row.mask.path))
            np.testing.assert_array_equal(mask, load_mask(source, pixels_of(source).shape[:2]))
        assert first.run.meter.current == "read"
        assert (first.networks.opened, first.networks.entered) == ([], [])
    with tiny_run(tmp_path / "suite", sources) as second:
        assert keep_originals(second.of(), asked, second.pictures) == found
        # One that is gone is written again, and one that cannot be read is left out.
        (tmp_path / "suite" / found[sources[1]].image.path).unlink()
        assert keep_originals(second.of(), asked, second.pictures) == found
        assert (tmp_path / "suite" / found[sources[1]].image.path).is_file()
    sources[2].path.unlink()
    with tiny_run(tmp_path / "other", sources) as run:
        assert list(keep_originals(run.of(), sources, run.pictures)) == [*sources[:2], *sources[3:]]


def test_captions_that_are_too_long_to_be_rewritten_are_shortened_and_their_sources_kept(
    sources: list[Source], tmp_path: Path
) -> None:
    """The user's and the captioner's; what is on record stays whole, for another profile."""
    own = replace(sources[0], given=GivenPictures((), "A bus waits by a wall. It is red, and it is old."))
    with tiny_run(tmp_path / "suite", [own, sources[1]]) as made:
        run = made.of(caption=CAPTION)
        whole = caption_sources(run, [own, sources[1]], made.pictures)
        short = made.of(caption=CAPTION, rewrite=replace(run.profile.rewrite, max_chars_caption=31))
        found = caption_sources(short, [own, sources[1]], made.pictures)
    assert found[own] == "A bus waits by a wall."
    assert whole[sources[1]].startswith(found[sources[1]])
    assert 0 < len(found[sources[1]]) <= 31 < len(whole[sources[1]])


def test_sources_bring_their_captions_where_no_network_writes_any(sources: list[Source], tmp_path: Path) -> None:
    """A captioner's own are taken where there is one; by rule a label is named."""
    texts = ("a red car on a wet road", "  ", "a bus")
    with_own = [replace(s, caption=text.strip() or None) for s, text in zip(sources, texts, strict=False)]
    with tiny_run(tmp_path / "suite", with_own) as run:
        bare = run.of(caption=NO_CAPTIONER)
        assert missing_captions(bare, with_own) == []
        assert caption_sources(bare, with_own, run.pictures) == {
            with_own[0]: "a red car on a wet road",
            with_own[2]: "a bus",
        }
        assert run.networks.opened == []
        said = caption_sources(run.of(caption=CAPTION), with_own, run.pictures)
        assert "a red car on a wet road" not in said.values()
        assert len(said) == 3
    with pytest.raises(CounterfactoryError, match=r"no source brings a caption"):
        without_captions(sources)
    assert without_captions(with_own).keys() == {with_own[1]}
    assert len({source.whole_key for source in (with_own[0], replace(with_own[0], caption="another"), sources[0])}) == 3


def test_a_profile_without_a_captioner_needs_none_of_its_networks(tmp_path: Path) -> None:
    """Nor its 31 GB of weights; what is half taken out is refused."""
    whole = load_profile("a10g")
    bare = whole.without_captioner
    names = {network.name for network in networks_of(whole)} - {network.name for network in networks_of(bare)}
    assert names == {"blip2_vision", "opt_decoder"}
    assert whole.weights is not None
    assert bare.weights is not None
    assert sum(one.bytes for one in checkpoints_of(whole.weights)) - 31e9 == sum(
        one.bytes for one in checkpoints_of(bare.weights)
    )
    file = tmp_path / "bare.toml"
    file.write_text('name = "bare"\nextends = "a10g"\nwithout = ["caption", "weights.blip2"]\n')
    assert load_profile(str(file)) == replace(bare, name="bare")
    assert not {"blip2_vision", "opt_decoder"} & graphs_of(request_of(bare, None)).keys()
    for gone in ('"caption"', '"weights.blip2"'):
        file.write_text(f'name = "bare"\nextends = "a10g"\nwithout = [{gone}]\n')
        with pytest.raises(CounterfactoryError, match=r"names a captioner, blip2 or florence2, where there is a table"):
            load_profile(str(file))
