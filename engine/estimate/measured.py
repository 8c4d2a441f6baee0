"""What this machine measured of a profile, kept so that the next run's cost can be predicted.

After a run its rates arrive; before one they are asked for by profile. They lie in one JSON file in the user's cache
folder, under the machine (CPU and cores) and the profile's content, so that nothing measured elsewhere, or of other
models, steps or sizes, is taken for true. It is a cache: what cannot be read counts as absent and is replaced, and
where nothing can be written nothing is lost but an estimate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CounterfactoryError
from ..files.caches import cache_folder
from ..files.fill import fill
from ..files.reading import read_json
from ..files.writing import make_folder, write_whole
from ..keys import content_key
from ..meter.machine import machine
from ..profile.profile import Profile

if TYPE_CHECKING:
    from ..suite.run_record import RunSummary

_VERSION = 1
# A rate of fewer items than this gives way to any newer one; one of more only to a run of as many.
_ENOUGH = 32
# Profiles that are tried once leave an entry each; the oldest go.
_MOST_ENTRIES = 64


@dataclass(frozen=True)
class StageRate:
    """Seconds an item of a stage took, waiting included and loading not, over `items` items.

    Items are sources for captioning and rewriting, variants for painting and checking.
    """

    item_s: float
    items: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.item_s) and self.item_s >= 0) or self.items < 1:
            raise ValueError(f"a stage's rate cannot be {self.item_s} s an item over {self.items} items")


@dataclass(frozen=True)
class PlanRate:
    """Seconds a plan took to load, and the bytes of memory it was seen to take; None where that was not measured."""

    load_s: float
    bytes: int | None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.load_s) and self.load_s >= 0) or (self.bytes is not None and self.bytes < 0):
            raise ValueError(f"a plan cannot take {self.load_s} s to load and {self.bytes} bytes")


@dataclass(frozen=True)
class Rates:
    """What was measured of the profile with this content key (`profile_key`), by stage and by plan.

    `variants` is how many variants per source were asked for, on which a source's rewriting depends; `accepted_share`,
    0..1, is accepted variants over those asked for. None where the run could not tell.
    """

    profile_key: str
    stages: Mapping[str, StageRate]
    plans: Mapping[str, PlanRate]
    variants: float | None = None
    accepted_share: float | None = None


def measured_rates(profile: Profile, report: RunSummary, variants: int, *, baseline: bool = False) -> Rates:
    """The rates of a run with `variants` variants per source.

    Only a run without captions on record rates rewriting: in others an unknown number of answers were on record too.
    One that drew baselines does not rate painting, which their time is a part of.
    """
    fresh = all(cost.made == cost.items for cost in report.stages if cost.stage == "caption")
    stages = {
        cost.stage: StageRate((cost.busy_s + cost.idle_s) / cost.made, cost.made)
        for cost in report.stages
        if cost.made and (cost.stage != "rewrite" or (fresh and cost.calls)) and (cost.stage != "paint" or not baseline)
    }
    plans = {
        name: PlanRate(sum(u.load_s for u in uses) / sum(u.loads for u in uses), max(u.bytes for u in uses) or None)
        for name in dict.fromkeys(use.plan for use in report.plans)
        if (uses := [use for use in report.plans if use.plan == name and use.loads])
    }
    asked = report.sources * variants
    return Rates(profile_key(profile), stages, plans, float(variants), report.accepted / asked if asked else None)


def profile_key(profile: Profile) -> str:
    """The content key of a profile. A name, how many sources travel together and what memory holds change no rate."""
    settings = {name: value for name, value in profile.decisive.items() if name not in ("name", "shard_sources")}
    settings["runtime"] = {name: value for name, value in settings["runtime"].items() if name != "memory_gb"}
    return content_key("rates", settings)


def rates_file() -> Path | None:
    """Where rates are kept: rates.json in the cache folder (`cache_folder`); None without a home."""
    folder = cache_folder()
    return None if folder is None else folder / "rates.json"


def load_rates(profile: Profile) -> Rates | None:
    """What this machine measured of the profile; None where there is nothing that can be read."""
    return _entries(rates_file()).get(_name(profile_key(profile)))


def save_rates(rates: Rates) -> None:
    """Store what a run measured, together with earlier measurements. Never raises for a file or a disk.

    A stage's rate over many items is not replaced by one over a few; all else is, where the run measured it.
    """
    file = rates_file()
    if file is None:
        return
    entries, name = _entries(file), _name(rates.profile_key)
    old = entries.pop(name, None)
    entries[name] = rates if old is None else _merge(old, rates)  # the newest last
    latest = {name: asdict(entry) for name, entry in list(entries.items())[-_MOST_ENTRIES:]}
    text = json.dumps({"version": _VERSION, "rates": latest}, indent=1)
    with suppress(CounterfactoryError):
        make_folder(file.parent)
        write_whole(file, text.encode())


def _name(key: str) -> str:
    return f"{machine()}, profile {key[:16]}"


def _merge(old: Rates, new: Rates) -> Rates:
    stages = {
        stage: rate
        for stage, rate in new.stages.items()
        if stage not in old.stages or rate.items >= min(old.stages[stage].items, _ENOUGH)
    }
    plans = {
        name: replace(old.plans[name], load_s=plan.load_s) if plan.bytes is None and name in old.plans else plan
        for name, plan in new.plans.items()
    }
    variants = old.variants if new.variants is None else new.variants
    share = old.accepted_share if new.accepted_share is None else new.accepted_share
    return Rates(new.profile_key, {**old.stages, **stages}, {**old.plans, **plans}, variants, share)


def _entries(file: Path | None) -> dict[str, Rates]:
    """The entries of a rates file that can be read; none of a file that is missing, foreign or damaged."""
    entries: dict[str, Rates] = {}
    with suppress(CounterfactoryError, ValueError, TypeError, KeyError):
        data = read_json(file) if file is not None else {}
        for name, entry in dict(data["rates"] if data["version"] == _VERSION else {}).items():
            with suppress(CounterfactoryError, TypeError, ValueError):
                rates = fill(Rates, entry, name)
                if 0 <= (rates.variants or 0) <= 1e9 and 0 <= (rates.accepted_share or 0) <= 1:
                    entries[name] = rates
    return entries
