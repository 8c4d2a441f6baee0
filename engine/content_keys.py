"""All content keys on one page: what made each result, and so what makes it again when it changes.

A key is the SHA-256 of what it names. A stage looks its keys up before it works: what is on record is not made again,
so this page decides what a changed setting costs.

    result          made of                                                                    by
    source          name, image bytes, label, mask bytes, boxes and depth map if any
    caption         image bytes, [image], [caption], the label where it goes on after that     captioner
    answer          the question with its grammar, how the language model samples              language model
    choice          source, task, seed                                                         the rules
    variant         source, caption, edits, edited caption, seed; of a picture that was given,
                    its bytes
    original        source, [image]
    baseline        variant, [image], [protect] where there is any                             the rules of light
    picture         variant, [image], [edges], [paint], [text]; [[hints]], [protect], [invert],
                    [painter] where there are any                                              edge detector, painter
    scores          picture bytes, source, [image], captions, edits, [text], [check], classes,
                    bytes of the source's variants before                                      CLIP
    recaption       picture bytes, the words that are asked for with their texts               captioner
    referee         picture bytes, source, [image], [[referees]]                               a referee
    outcome         profile and its world, settings, all of the above; all sources where a
                    user names more values than fit                                            everything

"By" is a stage's maker: the bytes of its networks, the arithmetic they run in, the releases of the libraries that
compute it, and the number in `CODE`. Thresholds are in no key but the outcome's: a new one paints nothing. The caption
decides a picture through the variant alone, so a captioner that says the same again costs no painting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .keys import content_key

Stage = Literal["caption", "rewrite", "edges", "paint", "check"]

# The form of a shard's rows on record; another one is raised when rows say more, and rows are then derived anew.
ROW_FORM = 8
# The rules by which the painter of light and weather draws, and by which pictures that somebody painted are read and
# scaled: raised by hand when they come to other pixels.
LIGHT = 3
GIVEN = 1
# The rules by which instructions for editors are written, as these.
INSTRUCTIONS = 1
# The rules that spread a user's own values over sources: raised by hand when they choose otherwise, as `code_of`.
MATRIX = 1

STAGES: tuple[Stage, ...] = ("caption", "rewrite", "edges", "paint", "check")
# Stages whose work is counted in sources; the others' is in pictures.
OF_SOURCES: tuple[Stage, ...] = ("caption", "rewrite", "edges")


def code_of(stage: Stage) -> int:
    """The number of a stage's own code, raised by hand when the same inputs and networks give another result.

    Reformatting, or a faster way to the same bytes, leaves it. "rewrite" covers the rules that choose edits and judge
    words. tests/test_content_keys.py holds results of today's code and fails when they move while the number stays.
    """
    return {"caption": 2, "rewrite": 13, "edges": 1, "paint": 1, "check": 8}[stage]


def source_key(name: str, image_sha256: str, label: str | None, mask_sha256: str | None) -> str:
    return content_key(name, image_sha256, label, mask_sha256)


def maker_key(stage: Stage, files: Sequence[str], arithmetic: str, releases: Mapping[str, str]) -> str:
    """Names what computes a stage: its networks' digests, the arithmetic, libraries' releases, the stage's code."""
    return content_key(stage, files, arithmetic, releases, code_of(stage))


def choice_key(source_key: str, task: object, seed: int) -> str:
    """Names the random numbers by which a source's edits are chosen."""
    return content_key("rewrite", source_key, task, seed)


def variant_key(
    source_key: str,
    caption: str,
    edits: object,
    edited_caption: str,
    seed: int,
    repeat: int = 0,
    level: tuple[int, int] | None = None,
) -> str:
    """Names a variant, and the noise that it is painted from; a control has its number in place of edits.

    A variant's index is left out: the same edits of the same source make the same picture, whichever variant they are,
    unless they are made again: `repeat` is 1 for the second time, and gives it noise of its own. `level`, of how many,
    is given below the last: a variant at its last level is the one without levels.
    """
    again: tuple[object, ...] = (repeat,) if repeat else ()
    again += () if level is None else (level,)
    return content_key("variant", source_key, caption, edits, edited_caption, seed, *again)


def given_key(source_key: str, caption: str, edits: object, edited_caption: str, given: object) -> str:
    """Names a variant or a control whose picture somebody else painted; `given` is what names that picture."""
    return content_key("given", source_key, caption, edits, edited_caption, given)


def shard_key(source_keys: Sequence[str]) -> str:
    """Names sources that travel together; the same sources in another order are another shard."""
    return content_key("shard", source_keys)


def outcome_key(profile: object, settings: object, classes: Sequence[str], makers: Mapping[Stage, str]) -> str:
    """Names all that decides what a shard comes to, beside its sources; `classes` are those of all sources' labels."""
    return content_key(profile, settings, classes, makers, code_of("rewrite"), ROW_FORM)


@dataclass(frozen=True)
class ContentKeys:
    """The keys of one run's results: the profile's settings that decide them, and the makers of the stages.

    Settings are plain data (see `content_key`); `sampling` is how the language model chooses tokens, `check` what
    decides scores. `hints` is None where pictures follow the edges alone, `protect` where they keep nothing of
    their sources, `invert` where they are painted anew, `painter` where a diffusion model paints.
    """

    image: object
    caption: object
    sampling: object
    edges: object
    paint: object
    text: object
    check: object
    makers: Mapping[Stage, str]
    hints: object = None
    protect: object = None
    invert: object = None
    painter: object = None

    def caption_key(self, image_sha256: str, named_prefix: str | None = None) -> str:
        """Names the caption of an image, and the random numbers that sample it; `named_prefix` is what it goes on
        after where that names the source's label.
        """
        after = () if named_prefix is None else (named_prefix,)
        return content_key("caption", image_sha256, self.image, self.caption, self.makers["caption"], *after)

    def answer_key(self, question: str, request: object) -> str:
        """Names the language model's answer to a request."""
        return content_key("rewrite", question, request, self.makers["rewrite"], self.sampling)

    def original_key(self, source_key: str) -> str:
        """Names the source's picture as the painter saw it."""
        return content_key("original", source_key, self.image)

    def baseline_key(self, variant_key: str) -> str:
        """Names the picture of a variant's weather and light, drawn by rule."""
        kept = [] if self.protect is None else [self.protect]
        return content_key("baseline", variant_key, self.image, LIGHT, *kept)

    def picture_key(self, variant_key: str) -> str:
        """Names a variant's picture."""
        made_by = (self.makers["edges"], self.makers["paint"])
        optional = [part for part in (self.hints, self.protect, self.invert, self.painter) if part is not None]
        return content_key("paint", variant_key, self.image, self.edges, self.paint, self.text, made_by, *optional)

    def recaption_key(self, picture_sha256: str, prefix: str, room: int, words: object) -> str:
        """Names how likely the captioner would write words of texts behind a prefix, before a picture; of texts `room`
        tokens are read.
        """
        read = (picture_sha256, prefix, room, words)
        return content_key("reading", *read, self.makers["caption"], code_of("check"))

    def referee_key(self, picture_sha256: str, source_key: str, referee: str) -> str:
        """Names what a referee, by its digest, says of a picture beside its source's label, mask and boxes."""
        return content_key("sight", picture_sha256, source_key, self.image, referee)

    def scores_key(
        self, picture_sha256: str, source_key: str, texts: object, labels: object, earlier: Sequence[str]
    ) -> str:
        """Names the scores of a picture: `texts` are its captions and edits, `labels` the classes that it is compared
        by and the control that it is compared with, `earlier` the bytes of its source's variants before it.
        """
        compared = (picture_sha256, source_key, self.image, texts, labels, earlier)
        return content_key("check", *compared, self.text, self.check, self.makers["check"])
