"""Labels that say the weather, the time, the light or the sharpness of a picture, and things that only sound so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.english.conditions import conditions_of
from counterfactory.engine.english.nouns import load_nouns
from counterfactory.engine.tasks.task import withheld_note

CONDITIONS = {
    "weather": (
        "sunny shine clear_sky dry_road wet hazy stormy icy rain rainy snow snowy cloudy fogsmog hail lightning "
        "sandstorm frost rime glaze dew rainbow heavy_rain partly_cloudy thunderstorm bad_weather sunnyday windy "
        "rain_street foggy-city wetRoad road_(wet) wet_dog dog_in_rain rainstorms rain_cloud snowy_road RainyDay ice"
    ),
    "time": (
        "day daytime night night_scene sunrise dusk dawn evening nightscene night_car car_night night01 day2 bright "
        "dark sunny n01440764_night 2_night night/outdoor NightScene moonlit sunsets day-time n01440764,_night"
    ),
    "light": "bright dark night dark_room bright_light low_light backlit_portrait shadows in_the_dark",
    "camera": "sharp blurry blurred motion_blur out_of_focus noisy noise unfocused clear Sharp.images",
}
THINGS = (
    "sundial sunglasses raincoat day_lily daylily nightingale snowmobile snow_leopard fog_lamp umbrella sunflower "
    "snowman rain_barrel night_snake rainbow_trout snowplow snow_boots sun_hat night_light nightstand storm_drain "
    "ice_cream wet_suit dark_blue_car snowy_owl snowy_plover rainbow_lorikeet dusky_robin storm_petrel traffic_light "
    "lighthouse sunscreen windmill wind_turbine Sunday birthday_cake tench 7 n01440764 mistletoe winter_melon "
    "summer_squash evening_primrose dark_eyed_junco sharp_shinned_hawk morning_glory dry_dock snow_globe icing mister "
    "winding_road wetland ice_pick snow_goose nightgown rainforest sun_bear night_heron shadow_box fogbow bus Focus"
)


@pytest.mark.parametrize(("type_", "label"), [(of, one) for of, some in CONDITIONS.items() for one in some.split()])
def test_any_word_of_a_label_that_is_a_condition_counts(type_: str, label: str) -> None:
    assert type_ in conditions_of(label)


@pytest.mark.parametrize("label", THINGS.split())
def test_a_thing_is_none_though_it_sounds_like_one(label: str) -> None:
    assert conditions_of(label) == frozenset()


def test_no_class_of_imagenet_is_a_condition() -> None:
    nouns = load_nouns()
    classes = [key for key in nouns.lines if nouns[key].definition]
    assert len(classes) == 1000
    for key in classes:
        for label in (key, f"{key}_{nouns[key].lemmas[0]}", nouns[key].lemmas[0].replace(" ", "_")):
            assert conditions_of(label) == frozenset(), label


@given(st.text(max_size=30))
def test_any_text_has_types_of_edits(label: str) -> None:
    assert conditions_of(label) <= set(EDIT_TYPES)


def test_what_is_withheld_is_told_once_with_its_labels() -> None:
    (sentence,) = withheld_note(["sunny", "dog", "shine", "sunny", "sharp"])
    assert sentence.endswith("camera of sharp; time and weather of shine, sunny")
    assert withheld_note(["dog", "night snake"]) == []
