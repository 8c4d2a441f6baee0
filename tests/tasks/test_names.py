"""Names of labelled things: WordNet's nouns, synonyms of classes, and the words of captions that they ground."""

from __future__ import annotations

import pytest

from counterfactory.engine.english.label_names import (
    class_words,
    ground,
    label_words,
    named_alike,
    names_of,
    short_name,
    synset_of,
)
from counterfactory.engine.english.nouns import load_nouns


def test_every_class_of_imagenet_has_words_a_definition_and_is_a_kind_of_something() -> None:
    nouns = load_nouns()
    classes = [key for key in nouns.lines if nouns[key].definition]
    assert len(classes) == 1000
    assert all(label_words(key) for key in classes)
    # A bucket is a kind of "container", which says as much as "thing".
    assert sum(not names_of(key).kinds for key in classes) == 16


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


@pytest.mark.parametrize(
    ("label", "caption", "found"),
    [
        ("n02099601", "a brown dog on grass. a dog looking at the camera", ("dog",)),
        ("golden_retriever", "Golden-Retrievers and other dogs", ("golden retrievers", "dogs")),
        ("n02099601", "a hot dog on a plate, a dog collar", ()),
        ("n02099601", "a hot, dog-like face", ("dog",)),
        ("dog", "a beagle and two puppies", ("beagle", "puppies")),
        ("person", "two men, a woman and nobody else at a bus stop in a crowd", ("men", "woman", "nobody", "crowd")),
        ("person", "people", ("people",)),
        ("bus", "a man at a bus stop", ()),
        ("car", "a car near a truck and a taxi", ("car", "taxi")),
        ("vehicle", "a taxi, three vans and parked cars", ("taxi", "vans", "cars")),
        ("Black_footed_Albatross", "a large bird in flight", ("bird",)),
        ("Kamchatkan sea eagle", "a sea eagle over water", ("sea eagle",)),
        ("Acme rocket sled", "a sled on snow", ("sled",)),
        ("Acme cup of joy", "a cup on a table", ("cup",)),
        ("wolf spider", "spiders on a leaf", ("spiders",)),
        ("mouse", "mice and a mouse", ("mice", "mouse")),
        ("oboe", "a man playing an instrument", ("instrument",)),
        ("TrafficLight", "a stoplight", ("stoplight",)),
        ("SUVPickupTruck", "a pickup", ("pickup",)),
        ("vegetation", "a birch tree and a hedge", ("birch tree", "hedge")),
        ("void", "void", ()),
        ("n00000000", "a dog", ()),
        ("golden retriever", "", ()),
    ],
)
def test_the_words_of_a_caption_that_name_a_label(label: str, caption: str, found: tuple[str, ...]) -> None:
    assert ground(caption, names_of(label)) == found


def test_the_words_of_a_class() -> None:
    assert class_words("TrafficLight") == ("Traffic Light",)
    assert class_words("SUVPickupTruck") == ("SUV Pickup Truck",)
    assert class_words("iPod") == ("iPod",)
    assert class_words("Void") == class_words("ego vehicle") == ()


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("window", "bird", False),
        ("a hummingbird", "a small hummingbird", True),
        ("window", "wall", True),
        ("", "near a bird", False),
        ("bird", "hummingbird", False),
    ],
)
def test_texts_that_name_a_thing_alike(old: str, new: str, alike: bool) -> None:
    assert named_alike(old, new, names_of("n01833805")) == alike
