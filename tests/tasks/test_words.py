"""Which words an edit may replace, by what and in which order, and which name a labelled thing, what menus offer."""

from __future__ import annotations

import re

import pytest

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.label_names import (
    class_words,
    ground,
    label_words,
    named_alike,
    names_of,
    short_name,
    synset_of,
)
from counterfactory.engine.english.mentions import distinct, quantities
from counterfactory.engine.english.menus import OFFERED, has_menu, kept_phrases, menu, offer
from counterfactory.engine.english.nouns import load_nouns
from counterfactory.engine.english.replacing import write_by_rule
from counterfactory.engine.english.words import (
    allowed_alternatives,
    allowed_proposals,
    allowed_values,
    blank,
    drop_overlapping,
    in_order,
    kept_words,
    phrases,
    random_alternatives,
    random_words,
    removable,
    says_again,
    spans,
)


def test_spans() -> None:
    for caption, most, keep, expected in (
        ("a red car.", 2, (), ["a", "a red", "red", "red car", "car"]),
        ("one, two. three", 3, (), ["one", "two", "three"]),
        ("a red car", 2, ("car",), ["a", "a red", "red", "red car"]),
        ("a fire truck", 3, ("fire truck",), ["a", "a fire", "a fire truck"]),
        ("it's half-lit", 1, (), ["it's", "half-lit"]),
        ("x" * 61, 1, (), []),
        ("x" * 60, 1, (), ["x" * 60]),
        ("a  red car", 3, (), ["a", "red", "red car", "car"]),
        ("a red car at night", 2, ("red car", "at"), ["a", "a red", "at night", "night"]),
    ):
        assert spans(caption, most, keep) == expected


def test_keywords_stand_apart() -> None:
    for caption, pairs, kept in (
        # A keyword is looked for where it stands free, and used once, whatever its type and case.
        ("a red car at night", "at night|night|red car|red|Red Car", "red car|at night"),
        ("red car, red red wall, red car", "red car|car|red", "red car|red|car"),
        ("bored", "red", ""),
        ("car car", "car|CAR|car", "car"),
        ("red car", "red|Red|car", "red|car"),
        # Words that touch do not overlap.
        ("red!?car", "red!|?car", "red!|?car"),
        ("red!?car", "?car|red!", "red!|?car"),
        ("a.c abc", "b|a.c|missing", "a.c"),
    ):
        typed = [(f"type of {keyword}", keyword) for keyword in pairs.split("|")]
        expected = [(f"type of {keyword}", keyword) for keyword in kept.split("|") if keyword]
        assert drop_overlapping(caption, typed) == expected


def test_a_user_s_values_that_may_be_used() -> None:
    for values, keyword, keep, allowed in (
        (["night", "Dusk", "dusk", "at night"], "at night", (), ("Dusk",)),
        (["blue", "blue car", "two trucks"], "red car", ("car", "truck"), ("blue", "blue car")),
        (["night", "NIGHT", "nigh", "a night", ""], "At Night", (), ("nigh", "a night")),
        (["rain (wet)", "(wet)"], "x (wet) y", (), ("rain (wet)",)),
        # A word to keep may be said again where the keyword says it, and nowhere else.
        (["blue car", "two cars", "truck", "old car"], "red car", ("car",), ("blue car", "truck", "old car")),
    ):
        assert allowed_values(values, keyword, keep) == allowed


def test_alternatives_that_may_be_used_are_distinct_whatever_their_case() -> None:
    found = ["blue car", "Blue car", "red car", "blue bus", " ", "green car "]
    assert allowed_alternatives(found, "red car", ("car", "bus")) == ("blue car", "green car")
    assert allowed_alternatives(["very foggy", "Foggy", "misty"], "foggy", ()) == ("misty",)
    found = ["Stylish blue", "blue", "stylishly red"]
    assert allowed_alternatives(found, "old", (), ("stylish",)) == ("blue", "stylishly red")
    assert distinct(["Dusk", "dusk", "dawn", "DAWN", "dusk"]) == ("Dusk", "dawn")


def test_phrases_stand_alone_and_hold_no_word_to_keep_and_what_may_go_leaves_a_sentence() -> None:
    assert phrases("a red bus and the Dog on the grass.", 3, ("bus",)) == [
        *("a red", "red", "the Dog", "Dog", "on the grass", "the grass", "grass")
    ]
    assert phrases("is of a", 2, ()) == []
    assert kept_words("A Bus, two buses by a fire truck. bus", ("bus", "fire truck", "car")) == (
        *("Bus", "buses", "fire", "truck"),
    )
    caption = "a dog with a ball on the green grass, by a wall and a man near a tree"
    gone = ["with a ball", "on the green grass", "by a wall", "near a tree"]
    assert removable(caption, [*gone, "with a", "on the green", "a tree", "near a"]) == gone
    assert removable("up on (a) b", ["on (a)"]) == []


def test_proposals_that_may_be_made_are_taken_once() -> None:
    taken = [
        *(("red", "blue"), ("red", "dark red"), ("red", "wall"), ("red", "the one of the sea"), ("bus", "small bus")),
        *(("by a wall", "trees by a wall"), ("bus", "bus by water"), ("", "in the rain")),
    ]
    refused = [
        *(("red", "Red"), ("red", "with a red"), ("red", "blue bus"), ("red", "very very blue"), ("bus", "car")),
        *(("wall", "behind brick wall"), ("wall", "the brick wall"), ("red", "Stylish blue"), ("bus", "red bus")),
        *(("bus", "bus by a wall"), ("", "by a red wall")),
    ]
    assert allowed_proposals([*refused, *taken], "a red bus by a wall", ("bus",), ("stylish",)) == taken
    pairs = [(" red", "blue "), ("Red", "BLUE"), ("", "at night"), ("", "At night")]
    assert allowed_proposals(pairs, "red", (), ()) == [("red", "blue"), ("", "at night")]


def test_a_thing_said_again() -> None:
    caption = "A boy stands in front of a large satellite dish."
    assert says_again("", "above a satellite dish", caption)
    assert says_again("boy", "a Dish", caption)
    for old, new in (("boy", "old boy"), ("", "at night"), ("in front of", "of")):
        assert not says_again(old, new, caption)


def test_words_before_a_thing_are_in_their_order() -> None:
    for caption, word, edited in (
        ("a brown dog on grass", "old", "an old brown dog on grass"),
        ("a light brown dog", "spotted", "a spotted light brown dog"),
        ("a brown and white dog", "big", "a big brown and white dog"),
        ("Brown dog on grass", "small", "Small brown dog on grass"),
        ("an old brown dog", "mud-covered", "an old mud-covered brown dog"),
        # What stands there comes first in English, or is not known.
        ("a small dog", "brown", "a small brown dog"),
        ("a small old dog", "wet", "a small old wet dog"),
        ("a brown dog", "red", "a brown red dog"),
        ("a brown dog", "clever", "a brown clever dog"),
        # Another thing's colour.
        ("a dog and a brown dog", "small", "a small dog and a brown small dog"),
        ("a brown cat, a dog", "small", "a brown cat, a small dog"),
    ):
        old, new = in_order(caption, "dog", f"{word} dog")
        assert write_by_rule(caption, [(old, new)]) == edited
        assert check_edited_caption(caption, edited, [Edit("adjective", old, new)], ("dog",)) is None
        for pair in (("", "small dog"), ("dog", "dog in snow"), ("dog", "cat"), ("brown", "black")):
            assert in_order("a brown dog", *pair) == pair, "other edits are left"


CAPTION = "Two brown dogs sit on the wet grass, by it a man-made pond."


def test_random_words_are_no_stop_words_short_ones_joined_ones_nor_the_label_s_and_fillings_are_new() -> None:
    assert random_words(CAPTION, ()) == ["brown", "dogs", "sit", "wet", "grass", "pond"]
    assert random_words(CAPTION, ("dog",)) == ["brown", "sit", "wet", "grass", "pond"]
    assert random_words("The cat and the CAT is on 3 ox by me", ()) == ["cat", "CAT"]
    assert random_words("an ox is up", ()) == []
    # A blank is what stands around a word, where it stands first.
    assert blank("a cat, a Cat and a cat.", "cat") == ("a ", ", a Cat and a cat.")
    assert blank("a catfish by a cat", "cat") == ("a catfish by a ", "")
    with pytest.raises(ValueError, match="'a dog' has no word 'cat'"):
        blank("a dog", "cat")
    found = ["brown", "grass", "the", "ox", "Two", "old", "stylish", "ol-d", "old", "browner", "wild", "puppy"]
    assert random_alternatives(found, "brown", CAPTION, ("dog", "puppy"), ("stylish",)) == ("old", "wild")


def test_a_number_is_looked_for_in_the_seven_words_before() -> None:
    for caption, places in (
        ("two cars", {0}),
        ("two large old red cars", {0}),
        ("two large old mud-covered dark red cars", {0}),
        ("two very large old mud-covered dark red cars", set()),
        ("two dogs and old red cars", set()),
        ("cars seen by two", set()),
        ("a few cars, several men and 3 cars", {2, 28}),
    ):
        assert quantities(caption, ["car"]) == places


def test_a_synset_is_what_wordnet_says() -> None:
    assert label_words("n02099601") == ("golden retriever",)
    names = names_of("n02099601")
    assert names.own == ("golden retriever",)
    assert names.kinds[:5] == ("retriever", "sporting dog", "gun dog", "hunting dog", "dog")
    assert {"animal", "mammal"} <= set(names.kinds)
    assert not {"organism", "object", "whole", "entity"} & set(names.kinds)
    assert names.definition == "an English breed having a long silky golden coat"
    assert (synset_of("n02099601_golden"), synset_of("xn02099601"), synset_of("n0209960")) == ("n02099601", None, None)
    assert (short_name("n02099601"), short_name("n00000000")) == ("golden retriever", "n00000000")


def test_a_word_means_what_it_means_most_often() -> None:
    nouns = load_nouns()
    assert nouns.senses("dogs") == ("n02084071",)  # neither a person nor a sausage
    assert len(nouns.senses("crane")) == 2  # the most frequent meaning is a person's name
    assert nouns.senses("banana") == ("n12352287", "n07753592")  # the plant, and its fruit
    assert nouns.senses("stop sign") == ()
    assert nouns.common_sense("women") == nouns.common_sense("woman") is not None
    assert nouns.common_sense("crane") is None
    assert "toy" not in nouns.kinds(nouns.senses("toy poodle"))
    assert "instrument" in nouns.kinds(nouns.senses("oboe"))
    assert "n02099601" in nouns
    assert "n00000000" not in nouns


def test_a_label_is_a_thing_where_its_word_may_be_a_person_or_a_thing() -> None:
    nouns = load_nouns()
    person, *_ = nouns.senses("person")
    for word in ("hot dog", "toaster", "tiger", "printer", "ostrich", "monitor", "screw", "pitcher", "beaver", "mole"):
        ids = nouns.senses(word)
        assert ids, word
        assert person not in (*ids, *nouns.above(ids)), word
    assert nouns.senses("hot dog") == ("n07697537",)  # as ImageNet has it, and no frankfurter: that is called a dog
    for word in ("man", "soldier", "driver", "rider", "pedestrian", "kid", "old man", "painter", "speaker"):
        assert "person" in names_of(word).kinds or word == "driver", word
    assert nouns.senses("driver") == ("n10034906",)
    # A place is a label that is one first, and else no meaning of a thing's word.
    assert "location" not in names_of("stop sign").kinds
    assert "street" in names_of("street").own


def test_every_class_of_imagenet_is_named_and_a_kind_of_something_and_what_its_picture_shows_names_it() -> None:
    """Without person and place no label of a thing loses the words that name it."""
    nouns = load_nouns()
    classes = [key for key in nouns.lines if nouns[key].definition]
    assert len(classes) == 1000
    assert all(label_words(key) for key in classes)
    # A bucket is a kind of "container", which says as much as "thing".
    assert sum(not names_of(key).kinds for key in classes) == 16
    words = set(map(short_name, classes))
    coco = (
        "person,hot dog,toaster,sheep,orange,mouse,remote,tie,kite,bear,sink,stop sign,teddy bear,hair drier,truck,tv"
    )
    for label in (*words, *coco.split(",")):
        assert ground(f"a picture with a {label}", names_of(label)), label


def test_the_words_of_a_caption_that_name_a_label() -> None:
    for label, caption, found in (
        ("n02099601", "a brown dog on grass. a dog looking at the camera", ("dog",)),
        ("golden_retriever", "Golden-Retrievers and other dogs", ("golden retrievers", "dogs")),
        ("n02099601", "a hot dog on a plate, a dog collar", ()),
        ("n02099601", "a hot, dog-like face", ("dog",)),
        ("dog", "a beagle and two puppies", ("beagle", "puppies")),
        ("person", "two men, a woman and nobody else at a bus stop in a crowd", ("men", "woman", "nobody", "crowd")),
        ("bus", "a man at a bus stop", ()),
        ("vehicle", "a taxi, three vans and parked cars", ("taxi", "vans", "cars")),
        ("Black_footed_Albatross", "a large bird in flight", ("bird",)),
        ("Kamchatkan sea eagle", "a sea eagle over water", ("sea eagle",)),
        ("Acme rocket sled", "a sled on snow", ("sled",)),
        ("Acme cup of joy", "a cup on a table", ("cup",)),
        ("mouse", "mice and a mouse", ("mice", "mouse")),
        ("TrafficLight", "a stoplight", ("stoplight",)),
        ("vegetation", "a birch tree and a hedge", ("birch tree", "hedge")),
        ("n00000000", "a dog", ()),
        ("hot dog", "a group of people are showing their corndogs, a dog and a hot dog", ("hot dog",)),
        ("toaster", "a woman and two men in a kitchen", ()),
        ("tiger", "a person beside a big cat", ("big cat",)),
        ("person", "a batter and a pitcher, a tiger, a toaster and a hot dog", ("batter", "pitcher")),
        ("animal", "a tiger and an ostrich", ("tiger", "ostrich")),
    ):
        assert ground(caption, names_of(label)) == found


def test_the_words_of_a_class_and_texts_that_name_a_thing_alike() -> None:
    assert class_words("TrafficLight") == ("Traffic Light",)
    assert class_words("SUVPickupTruck") == ("SUV Pickup Truck",)
    assert class_words("iPod") == ("iPod",)
    assert class_words("Void") == class_words("ego vehicle") == ()
    names = names_of("n01833805")
    assert named_alike("a hummingbird", "a small hummingbird", names)
    assert named_alike("window", "wall", names)
    assert not any(
        named_alike(*both, names) for both in (("window", "bird"), ("", "near a bird"), ("bird", "hummingbird"))
    )


DOG = "n02084071"


def olds(type_: str, caption: str, *keep: str) -> set[str]:
    return {old for old, _ in menu(type_, caption, keep, None)}


def news(type_: str, caption: str, *keep: str) -> set[str]:
    return {new for _, new in menu(type_, caption, keep, None)}


def test_every_type_has_edits_of_a_caption_that_names_its_thing() -> None:
    for caption in ("A dog.", "A small brown dog is lying on the grass in the rain at night.", "A photo of a dog"):
        for type_ in EDIT_TYPES:
            assert len(menu(type_, caption, ("dog",), DOG)) > 5, (type_, caption)
            assert has_menu(type_)
    assert not has_menu("mine")
    for new in {new for type_ in EDIT_TYPES for new in news(type_, "a dog", "dog")}:
        assert re.fullmatch(r"[a-z]+(?:[ -][a-z]+){0,7}", new), "plain words"


def test_words_that_say_something_of_the_type_give_way_or_some_are_added() -> None:
    for type_, caption, said in (
        ("weather", "a dog in the rain.", {"in the rain"}),
        ("weather", "a sunny garden with a dog", {"sunny"}),
        ("weather", "a dog in the snow bank", {""}),
        ("time", "a dog at night, asleep", {"at night"}),
        ("time", "a night scene of a dog", {"night"}),
        ("background", "a dog on the green grass in a field.", {"on the green grass", "in a field"}),
        ("background", "a dog on top of a table", {"on top of a table"}),
        ("background", "a dog on a table top", {""}),
        ("background", "a dog with a plain white background.", {"with a plain white background"}),
        ("background", "a dog against the wall", {"against the wall"}),
        ("colour", "a brown dog and a Black cat", {"brown", "Black"}),
        ("colour", "a brown and white dog", {"white"}),
        ("adjective", "a small dog", {"small"}),
        ("adjective", "the dog is small", {"dog"}),
        ("adjective", "a striped dog", {"dog"}),
        ("light", "a dog", {""}),
        ("domain", "a dog", {""}),
        ("domain", "A close up of a dog", {"A close up"}),
    ):
        assert olds(type_, caption, "dog") == said


def test_what_is_kept_is_not_replaced_words_stand_before_all_of_a_name_and_nothing_makes_it_another_thing() -> None:
    assert olds("colour", "a black bear", "black bear") == {"black bear"}
    assert olds("background", "a dog on a snowy field", "field", "dog") == {""}
    assert "red soccer ball" in news("colour", "a soccer ball", "soccer ball", "ball")
    assert "dust-covered dog" in news("subject", "Dog on grass", "dog")
    assert "dust-covered SUV" in news("subject", "SUV on grass", "suv")
    bikes = menu("object", "a mountain bike", ("mountain bike",), "mountain bike")
    assert not any("bicycle" in new for _, new in bikes)
    assert any("bicycle" in new for _, new in menu("object", "a dog", ("dog",), DOG))
    bears = {new for _, new in menu("colour", "a bear", ("bear",), "bear")}
    assert "red bear" in bears
    assert bears.isdisjoint({"brown bear", "black bear"}), "kinds of their own"


def test_a_phrase_brings_something_new_and_no_word_for_the_same_size() -> None:
    assert news("adjective", "a little dog", "dog").isdisjoint({"small", "little", "tiny"})
    assert {"big", "old"} <= news("adjective", "a little dog", "dog")
    assert {"small", "clean", "wet"} <= news("adjective", "an Old dog", "dog")
    assert "old" not in news("adjective", "an Old dog", "dog")
    assert "in heavy rain" not in news("weather", "a dog in heavy rain", "dog")
    assert "a painting" not in {new for _, new in menu("domain", "a painting of a dog", ("dog",), None)}
    assert ("a photo", "a painting") in menu("domain", "a photo of a dog", ("dog",), None)
    for phrase in news("camera", "a dog"):
        assert phrase not in news("camera", phrase)
    assert menu("colour", "grass", (), None) == []


def test_kept_phrases_are_the_caption_s_own() -> None:
    assert kept_phrases("Two Dogs and a dog", ("dog",)) == ["Dogs", "dog"]
    assert kept_phrases("a soccer ball by a ball", ("ball", "soccer ball")) == ["soccer ball", "ball"]
    assert kept_phrases("a ball by a soccer ball", ("ball", "soccer ball")) == ["ball", "soccer ball"]
    assert kept_phrases("a horse's mane, a horse-drawn cart", ("horse",)) == kept_phrases("a cat", ()) == []


def test_a_sample_is_keyed_and_in_order() -> None:
    pairs = [("", f"phrase {i}") for i in range(30)]
    some = offer(pairs, "key")
    assert len(some) == OFFERED
    assert some == sorted(some, key=pairs.index)
    assert some == offer(pairs, "key")
    assert [pairs.index(pair) for pair in some] == [1, 13, 29], "the same on every machine, and next year"
    assert some != offer(pairs, "another")
    assert all(len(set(offer(pairs, str(key)))) == OFFERED for key in range(20))
    assert offer(pairs[:OFFERED], "key") == pairs[:OFFERED]
    # What a model always likes best, such as the first on the menu, is a small share of its type.
    pairs = pairs[:16]
    assert sum(offer(pairs, str(key))[0] == pairs[0] for key in range(400)) / 400 < 0.25
