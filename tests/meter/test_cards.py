"""The state of cards, asked through NVIDIA's own bindings of a library that stands in for the driver's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_nvml import StandInCard, bindings_over

from counterfactory.engine.meter.cards import REASONS, Card, card_warnings, read_cards, throttled

pynvml = bindings_over()
# What is no slowdown: an idle card, and clocks that a person or a screen asked for.
MEANT = {"None", "All", "GpuIdle", "ApplicationsClocksSetting", "UserDefinedClocks", "DisplayClockSetting"}
BITS = {
    match[2]: value
    for name, value in vars(pynvml).items()
    if (match := re.fullmatch(r"nvmlClocks(Event|Throttle)Reason([A-Z]\w+)", name))
}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def read(bindings: Any, visible: str | None = None) -> tuple[Card, ...]:
    return read_cards(lambda: bindings, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})


def test_reasons_are_all_that_the_bindings_know() -> None:
    assert {bit: snake(name) for name, bit in BITS.items() if name not in MEANT} == REASONS


def test_a_card_is_told_in_full() -> None:
    bits = BITS["GpuIdle"] | BITS["HwThermalSlowdown"] | BITS["HwSlowdown"]
    (card,) = read(bindings_over(StandInCard(reasons=bits)))
    assert card == Card(0, "NVIDIA A10G", 61, 1710, 6251, ("hw_slowdown", "hw_thermal_slowdown"), 3, 0)


def test_what_a_card_does_not_tell_is_left_out() -> None:
    """A virtual GPU answers "not supported" to each of these."""
    silent = StandInCard(temperature=None, clocks={}, reasons=None, ecc={})
    assert read(bindings_over(silent)) == (Card(0, "NVIDIA A10G"),)
    assert throttled(read(bindings_over(silent))) == ()
    assert list(card_warnings(read(bindings_over(silent)))) == []


@pytest.mark.parametrize(("driver", "stale"), [("525.60", False), ("525.60", True), ("580.65", True)])
def test_old_drivers_and_packages_have_the_older_name(driver: str, stale: bool) -> None:
    bindings = bindings_over(StandInCard(reasons=BITS["SwPowerCap"]), driver=driver, stale=stale)
    assert throttled(read(bindings)) == ("sw_power_cap",)


CARDS = [StandInCard(f"GPU-{first}0000000-0000-0000-0000-000000000000") for first in "aab0"]
CARDS[1].uuid = CARDS[1].uuid.replace("0000-", "1111-", 1)


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, [0, 1, 2, 3]),
        ("2", [2]),
        (" 3, 1", [3, 1]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [1]),
        ("4", []),
        ("1,9,2", [1]),
        ("none", []),
        ("1,1", [1]),
        (CARDS[2].uuid, [2]),
        ("GPU-b", [2]),
        ("GPU-a", []),
        (f"{CARDS[3].uuid},GPU-b", [3, 2]),
        ("GPU-c", []),
        ("MIG-1", [2]),
        ("MIG-1,0", [2, 0]),
    ],
)
def test_the_cards_are_those_that_are_left_to_this_process(visible: str | None, numbers: list[int]) -> None:
    """As CUDA's programming guide reads the variable."""
    bindings = bindings_over(*CARDS, instances={"MIG-1": 2})
    assert [card.number for card in read(bindings, visible)] == numbers


def test_without_a_driver_there_are_no_cards() -> None:
    def none() -> Any:
        raise ModuleNotFoundError("pynvml")

    assert read_cards(none, {}) == ()
    assert read_cards(lambda: pynvml, {}) == ()
    assert read_cards(lambda: object(), {}) == ()
    assert read(bindings_over(StandInCard()), "MIG-unknown") == ()


def test_a_card_that_fell_off_the_bus_hides_no_other() -> None:
    cards = (StandInCard(), StandInCard(lost=True), StandInCard("GPU-2", temperature=70))
    assert [card.number for card in read(bindings_over(*cards))] == [0, 2]
    assert [card.number for card in read(bindings_over(*cards), "GPU-2,0")] == [2, 0]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=4))
@settings(max_examples=30, deadline=None)
def test_throttled_names_each_reason_once(bits: list[int]) -> None:
    found = throttled(read(bindings_over(*(StandInCard(reasons=one) for one in bits))))
    assert found == tuple(name for bit, name in REASONS.items() if any(one & bit for one in bits))


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([], []),
        (["GpuIdle", "SwPowerCap", "SyncBoost"], []),
        (["SwThermalSlowdown"], ["sw_thermal_slowdown", "cooling"]),
        (["HwSlowdown", "HwThermalSlowdown", "SwPowerCap"], ["hw_slowdown, hw_thermal_slowdown:", "cooling"]),
        (["HwSlowdown", "HwPowerBrakeSlowdown"], ["hw_power_brake_slowdown", "power supply"]),
        (["HwSlowdown"], ["hw_slowdown"]),
    ],
)
def test_heat_and_the_power_brake_are_worth_a_warning(reasons: list[str], told: list[str]) -> None:
    bits = sum(BITS[name] for name in reasons)
    warnings = list(card_warnings(read(bindings_over(StandInCard(), StandInCard(reasons=bits, temperature=91)))))
    assert len(warnings) == bool(told)
    assert all(word in warnings[0] for word in [*told, "card 1 NVIDIA A10G", "91 °C"] if told)


def test_memory_that_failed_is_worth_a_warning() -> None:
    """What ECC corrected is not, nor what failed before the driver was loaded."""
    cards = read(bindings_over(StandInCard(ecc={(0, 0): 50, (1, 0): 0, (1, 1): 9}), StandInCard(ecc={(1, 0): 2})))
    (warning,) = card_warnings(cards)
    assert "card 1 " in warning
    assert "2 memory errors" in warning
