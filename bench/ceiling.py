"""What a run could take at most: the matrix products of the device that it ran on, and the shares reached of them.

On a CPU products are measured by OpenVINO in each precision that the networks run in. On a GPU it is torch's float16
product, whatever library ran the networks; where a network rounds to 8 bits its share is of float16 too and may pass
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from measure import Bracket, Yardstick, open_yardstick, seconds

from counterfactory.engine.estimate.estimate import cpu_precision
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.estimate.peak import measure_peak
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.plan_facts import PlanFacts
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.report.table import Table
from counterfactory.engine.suite.run_record import RunSummary

Device = Literal["cuda", "cpu"]
_SIDES = (2048, 4096, 8192)
_IN_A_ROW = 4


def refuse_without_device(profile: Profile) -> None:
    """End the bench before its run where the profile's ceiling could not be measured after it."""
    if not profile.runtime.on_gpu:
        return
    runs = f"profile {profile.name} runs on a GPU"
    try:
        import torch
    except ImportError as error:
        said = f"whose products are measured with torch, and torch cannot be imported ({error}); install torch for CUDA"
        raise SystemExit(f"{runs}, {said} beside the engine") from error
    if not torch.cuda.is_available():
        advice = "run it on the box, with a torch built for CUDA, or choose a profile for CPUs"
        raise SystemExit(f"{runs}, and torch {torch.__version__} sees none; {advice}")


def measure_product(device: Device, sides: Sequence[int] = _SIDES, rounds: int = 5) -> float:
    """Operations per second (2 for each multiply-accumulate) of torch's square products, the best of sides and rounds.

    In float16 on "cuda", timed by CUDA events; in float32 on "cpu", timed by the wall clock.
    """
    if not sides or min(sides) < 1 or rounds < 1:
        raise ValueError(f"sides and rounds start at 1; got {list(sides)} and {rounds}")

    def measure(side: int) -> float:
        multiply = torch_products(device, side)
        multiply()  # the first one allocates and chooses a kernel
        return 2 * side**3 * _IN_A_ROW / min(device_seconds(multiply, device) for _ in range(rounds))

    return max(measure(side) for side in sides)


def torch_products(device: Device, side: int, in_a_row: int = _IN_A_ROW) -> Callable[[], None]:
    """Square products in a row by torch, of values that stay near their size."""
    import torch

    dtype = torch.float16 if device == "cuda" else torch.float32
    weights = (torch.randn((side, side), generator=torch.Generator().manual_seed(0)) / side**0.5).to(device, dtype)
    states = torch.full((side, side), 0.5, dtype=dtype, device=device)

    def multiply() -> None:
        product = states
        for _ in range(in_a_row):
            product = product @ weights

    return multiply


def device_seconds(work: Callable[[], object], device: Device) -> float:
    """What `work` takes on the device; queueing it is not counted on a GPU."""
    import torch

    if device == "cpu":
        return seconds(work)
    event: Callable[..., Any] = torch.cuda.Event  # whose constructor has no types
    first, last = event(enable_timing=True), event(enable_timing=True)
    first.record()
    work()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000


def gpu_yardstick(device: Device = "cuda") -> Yardstick:
    """The fixed product of rounds on a GPU: its time there, and the share of the cores that the CPU's got before it."""
    multiply, on_cpu = torch_products(device, 4096 if device == "cuda" else 256, 4 * _IN_A_ROW), open_yardstick()

    def product() -> Bracket:
        share = on_cpu().share
        return Bracket(device_seconds(multiply, device), share)

    product()  # the first one allocates and chooses a kernel
    return product


def precisions_of(profile: Profile, facts: Mapping[str, PlanFacts]) -> dict[str, str]:
    """By plan, the precision whose product is its ceiling."""
    if profile.runtime.on_gpu:
        return dict.fromkeys(facts, "f16")
    return {plan: "int8" if fact.integers else cpu_precision(profile) for plan, fact in facts.items()}


def measure_peaks(profile: Profile, precisions: set[str]) -> dict[str, float]:
    """Operations per second by precision, on the device that the profile runs on."""
    if profile.runtime.on_gpu:
        return {"f16": measure_product("cuda")}
    names: tuple[Literal["bf16", "f32", "int8"], ...] = ("bf16", "f32", "int8")
    return {name: measure_peak(name, profile.runtime.threads) for name in names if name in precisions}


def ceiling(
    profile: Profile, report: RunSummary, measure: Callable[[Profile, set[str]], Mapping[str, float]] = measure_peaks
) -> tuple[Table, dict[str, float], float]:
    """What share of the measured matrix product each plan and each stage reached, and the whole run without loading."""
    library = library_of(profile)
    # Rendered scenes are square, and taken at the profile's short side.
    facts = known_facts(profile, library, (profile.image.short_side, profile.image.short_side))
    precisions = precisions_of(profile, facts)
    peaks = measure(profile, set(precisions.values()))
    row_flops = {plan: fact.flops for plan, fact in facts.items()}
    # The tokens that are read at once are one row of a call, as each that is written is.
    tokens = library.networks["opt_decoder"].tokens
    assert tokens is not None
    row_flops[library.networks["opt_decoder"].plan] *= (tokens.read + tokens.written) / tokens.written
    # Prompts are mostly in the cache: only what was written is counted, so the language model's share is at least this.
    written = sum(stage.generated_tokens for stage in report.stages)
    rows: list[tuple[str, ...]] = []
    shares: dict[str, float] = {}
    least_s = 0.0
    for stage in report.stages:
        needed = counted = 0.0
        for plan in (plan for plan in report.plans if plan.stage == stage.stage):
            count = written if plan.plan == "llm" else plan.rows
            flops = row_flops[plan.plan] * count
            peak = peaks[precisions[plan.plan]]
            needed, counted = needed + flops / peak, counted + flops
            name = "llm (tokens written)" if plan.plan == "llm" else plan.plan
            rows.append((f"  {name}", f"{count:,}", *_shared(flops, flops / peak, plan.busy_s)))
        spent = stage.wall_s - stage.load_s
        shares[stage.stage] = needed / spent if spent > 0 else 0.0
        rows.append((f"{stage.stage}, idle included", "", *_shared(counted, needed, spent)))
        least_s += needed
    told = ", ".join(f"{peak / 1e12:.3f} TFLOP/s in {precision}" for precision, peak in sorted(peaks.items()))
    title = f"Of this machine's matrix products: {told}, each network of its own"
    table = Table(title, ("stage", "rows", "s", "GFLOP", "% of peak"), tuple(rows))
    return table, shares, least_s / (report.wall_s - report.models_load_s)


def _shared(flops: float, needed_s: float, spent_s: float) -> tuple[str, str, str]:
    return f"{spent_s:.2f}", f"{flops / 1e9:.1f}", f"{100 * needed_s / spent_s:.1f}" if spent_s > 0 else "-"
