"""Grounding: the words that stay in all captions of a source, and whether its own caption has any of them."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.label_names import ground, names_of
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.english.words import spans
from counterfactory.engine.tasks.task import Protection, Task, builtin_task, protect

CLASSIFY = builtin_task("classification", ["n02099601", "n02124075"])
CITY = ("bus", "car", "person", "sky", "void")
SEGMENT = builtin_task("segmentation", CITY)


def test_a_label_keeps_its_own_words_and_those_that_name_it_in_the_caption() -> None:
    found = protect(CLASSIFY, "n02099601", (), "two dogs and a cat in a field")
    assert found == Protection(("golden retriever", "dogs"), ("dogs",), True)
    assert found.grounded
    assert found.told == found.keep
    edit = Edit("subject", "dogs", "cats")
    assert "'dogs'" in (check_edited_caption("two dogs", "two cats", [edit], found.keep) or "")
    own = protect(CLASSIFY, "bus", (), "buses and a bus")
    assert own == Protection(("bus",), ("bus",), True)  # its forms are counted with it


def test_words_that_somebody_points_at_are_kept_as_if_they_named_the_label() -> None:
    found = protect(CLASSIFY, "n02099601", (), "a Puppy-like toy", "Puppy-like")
    assert found == Protection(("golden retriever", "puppy like"), ("puppy like",), True)
    assert found.grounded


def test_where_nothing_names_the_label_nothing_is_grounded() -> None:
    assert not protect(CLASSIFY, "n02099601", (), "a field of grass").grounded
    assert not protect(CLASSIFY, "n00000000", (), "a field of grass").grounded
    assert protect(CLASSIFY, None, (), "a field of grass") == Protection((), (), False)
    assert protect(CLASSIFY, None, (), "a field of grass").grounded
    free = Task("mine", "find the field", ("field",), False)
    assert protect(free, "dog", (), "grass") == Protection(("field",), (), False)
    assert not protect(free, None, ("cat",), "grass").grounded


def test_the_classes_that_a_mask_shows_keep_what_names_them_and_no_other_is_added() -> None:
    caption = "two men wait beside three cars on a street."
    found = protect(SEGMENT, "ignored", ("car", "person", "sky"), caption)
    assert found.named == ("cars", "men")
    assert found.told == found.keep
    assert {"bus", "coach"} <= set(found.keep)
    assert not {"car", "taxi", "sky", "void"} & set(found.keep)
    many = builtin_task("segmentation", (*CITY, "vegetation", "road"))
    assert protect(many, None, ("car", "person"), caption).told == ("street", "cars", "men")
    for edited, broken in (
        ("two men wait beside four cars on a street.", "cars"),
        ("three men wait beside three cars on a street.", "men"),
        ("two women wait beside three cars on a street.", "men"),
        ("two men wait beside three cars and a coach on a street.", "coach"),
        ("two men wait beside three cars on a street under a pink sky.", None),
        ("two tall men wait beside three red cars on a snowy street.", None),
    ):
        assert changed_protected_word(caption, edited, found.keep) == broken, edited
    assert not protect(SEGMENT, None, ("sky",), "a tram").grounded
    assert [span for span in spans(caption, 1, found.keep) if span in ("two", "three", "men", "cars", "wait")] == [
        "wait"
    ]


THINGS = {
    "n02099601": ("dog", "dogs", "golden retriever"),
    "person": ("man", "people", "woman"),
    "car": ("taxi", "cars"),
}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_an_accepted_caption_keeps_the_count_of_every_grounded_mention(data: st.DataObject) -> None:
    """Whatever words an edit exchanges for whatever others."""
    label = data.draw(st.sampled_from(sorted(THINGS)))
    words = ["two", "three", "red", "wet", "cat", "bus", "near", "grass", *THINGS[label]]
    caption = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=6))  # all within the rule's reach
    start = data.draw(st.integers(0, len(caption) - 1))
    end = data.draw(st.integers(start + 1, len(caption)))
    new = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    before, after = " ".join(caption), " ".join([*caption[:start], *new, *caption[end:]])
    keep = protect(CLASSIFY, label, (), before).keep
    edit = Edit("other", " ".join(caption[start:end]), " ".join(new))
    if check_edited_caption(before, after, [edit], keep) is None:
        event("accepted")
        for mention in ground(before, names_of(label)):
            assert numbered(mention, before) == numbered(mention, after)


def numbered(mention: str, text: str) -> list[str]:
    """The number that is said of each place of a mention, "" for none: the nearest of all words before it."""
    words, size = text.split(), len(mention.split())
    found = []
    for at in range(len(words) - size + 1):
        if " ".join(words[at : at + size]) == mention:
            before = " ".join(words[:at]).rpartition("near")[2].split()
            found.append(next((word for word in reversed(before) if word in ("two", "three")), ""))
    return sorted(found)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ((), "tell what the image shows"),
        (("n02084071", "bus", "fire_truck"), "tell which of these the image shows: dog, bus, fire truck"),
    ],
)
def test_a_classification_names_the_set_s_classes(labels: tuple[str, ...], sentence: str) -> None:
    assert builtin_task("classification", labels).sentence == sentence
