"""The state of the NVIDIA cards that this process may use: heat, clocks, what holds the clocks down, memory errors.

It comes from NVML, card by card, and only what a card tells: an old driver or a virtual GPU answers some questions with
"not supported", which leaves that value out. Nothing here raises, and nothing is computed on a card.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .machine import as_text, import_nvml

# Bits of nvmlDeviceGetCurrentClocksEventReasons (NVML API reference, nvmlClocksEventReasons) that mean slower clocks
# than the card would run at, by nvidia-smi's names for them. An idle card and clocks that its owner set are no such.
REASONS: Mapping[int, str] = MappingProxyType(
    {
        0x4: "sw_power_cap",
        0x8: "hw_slowdown",
        0x10: "sync_boost",
        0x20: "sw_thermal_slowdown",
        0x40: "hw_thermal_slowdown",
        0x80: "hw_power_brake_slowdown",
        0x200: "board_limit",
        0x400: "reliability",
    }
)


@dataclass(frozen=True)
class Card:
    """A card as nvidia-smi numbers it: °C, MHz, the names of `REASONS` that hold its clocks down now, and errors of its
    memory since the driver was loaded. None is what it does not tell.
    """

    number: int
    name: str
    temperature_c: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None


def read_cards(nvml: Callable[[], Any] = import_nvml, environment: Mapping[str, str] = os.environ) -> tuple[Card, ...]:
    """The cards that CUDA_VISIBLE_DEVICES of `environment` leaves to this process, in its order; none without NVML.

    Numbers in it are taken for nvidia-smi's, which are CUDA's where all cards are of one kind. An instance of MIG
    stands for its card. `nvml` gives the module `pynvml`.
    """
    with suppress(Exception):  # no module, no driver: NVML has an exception for each, and each means no card
        pynvml = nvml()
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        chosen = environment.get("CUDA_VISIBLE_DEVICES")
        numbers = range(count) if chosen is None else dict.fromkeys(_chosen(pynvml, count, chosen))
        return tuple(card for number in numbers if (card := _card(pynvml, number)) is not None)
    return ()


def throttled(cards: Iterable[Card]) -> tuple[str, ...]:
    """What holds the clocks of any of these cards down, in the order of `REASONS`, each once."""
    active = {name for card in cards for name in card.throttle or ()}
    return tuple(name for name in REASONS.values() if name in active)


def card_warnings(cards: Iterable[Card]) -> Iterator[str]:
    """What a person should do about cards whose memory failed, or that are slowed by heat or by their supply."""
    for card in cards:
        who = f"card {card.number} {card.name}"
        if card.ecc_uncorrected:
            yield (
                f"{who} had {card.ecc_uncorrected} memory errors that ECC could not correct since its driver was "
                "loaded, and runs on it may have failed: restart the machine, which takes the bad memory out of use, "
                "and have the card replaced if they come back (nvidia-smi -q -d ECC,ROW_REMAPPER)"
            )
        if slowed := [reason for reason in card.throttle or () if reason.endswith("_slowdown")]:
            heat = "" if card.temperature_c is None else f", at {card.temperature_c} °C,"
            yield (
                f"{who}{heat} is slowed by {', '.join(slowed)}: look to its cooling, or for a power brake to the "
                "machine's power supply (nvidia-smi -q -d PERFORMANCE,TEMPERATURE)"
            )


def _chosen(pynvml: Any, count: int, names: str) -> Iterator[int]:
    """The numbers of the cards in CUDA_VISIBLE_DEVICES: like CUDA it takes beginnings of UUIDs, and stops at the first
    name that is no card's.
    """
    for name in map(str.strip, names.split(",")):
        fitting = [int(name)] if name.isdecimal() and int(name) < count else []
        if name.startswith("GPU-"):
            fitting = [at for at in range(count) if _uuid(pynvml, at).startswith(name)]
        elif name.startswith("MIG-"):
            whole = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(pynvml.nvmlDeviceGetHandleByUUID(name))
            fitting = [pynvml.nvmlDeviceGetIndex(whole)]
        if len(fitting) != 1:
            return
        yield fitting[0]


def _uuid(pynvml: Any, number: int) -> str:
    with suppress(Exception):  # of a card that fell off the bus
        return as_text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(number)))
    return ""


def _card(pynvml: Any, number: int) -> Card | None:
    """What the card tells; None of one that fell off the bus."""

    def ask(name: str, *of: str) -> Any:
        with suppress(Exception):  # not supported, by this card, its driver or the package
            return getattr(pynvml, name)(handle, *(getattr(pynvml, constant) for constant in of))
        return None

    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        name = as_text(pynvml.nvmlDeviceGetName(handle))
    except Exception:  # NVML has one for each way of being lost
        return None
    bits = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:  # its name before driver 535
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return Card(
        number,
        name,
        ask("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        None if bits is None else tuple(name for bit, name in REASONS.items() if bits & bit),
        ask("nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_CORRECTED", "NVML_VOLATILE_ECC"),
        ask("nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC"),
    )
