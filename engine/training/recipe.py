"""A recipe: how a network is trained, from a TOML file. Those of the papers ship in `recipes/`.

It names no model: the same recipe trains any network that answers with as many classes as the set has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import CounterfactoryError
from ..files.fill import fill, nearest, read_toml
from ..profile.bounds import require

RECIPES = Path(__file__).parent / "recipes"
_MOST_EPOCHS, _MOST_BATCH = 100_000, 65_536


@dataclass(frozen=True)
class OptimiserSettings:
    """SGD with `momentum`, or Adam and AdamW with `betas` and `eps`; each has its own and none of the others'."""

    kind: Literal["sgd", "adam", "adamw"]
    rate: float
    weight_decay: float
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None

    def __post_init__(self) -> None:
        require(self, 0, "rate", "weight_decay")
        own = ("momentum",) if self.kind == "sgd" else ("betas", "eps")
        for name in ("momentum", "betas", "eps"):
            if (getattr(self, name) is not None) != (name in own):
                raise ValueError(f"kind = {self.kind!r} {'needs' if name in own else 'has no'} {name}")


@dataclass(frozen=True)
class RateSettings:
    """The learning rate over `epochs`: "constant", times `gamma` after each `every` epochs ("step"), or a half cosine
    down to nothing. It starts over `warmup` steps.
    """

    kind: Literal["constant", "step", "cosine"]
    epochs: int
    warmup: int
    every: int | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        require(self, 1, "epochs", most=_MOST_EPOCHS)
        require(self, 0, "warmup")
        for name in ("every", "gamma"):
            if (getattr(self, name) is not None) != (self.kind == "step"):
                raise ValueError(f"kind = {self.kind!r} {'needs' if self.kind == 'step' else 'has no'} {name}")
        if self.every is not None:
            require(self, 1, "every")


@dataclass(frozen=True)
class AugmentSettings:
    """What training does to a picture by chance: the `mirror`, and a crop of such a share of its area, from `least` to
    all, its sides 3 to 4 at the most (Szegedy et al., arXiv 1409.4842), scaled to the crop of `preprocess`; 1 crops
    nothing.
    """

    mirror: bool
    least: float

    def __post_init__(self) -> None:
        require(self, 0.01, "least", most=1)


@dataclass(frozen=True)
class TrainingRecipe:
    """`preprocess` declares how a picture becomes the model's input (asking/preparation.py). A model starts from
    weights that it was "given", or from "scratch". `smoothing` is of labels; a network computes in `precision`, its
    weights are f32.
    """

    name: str
    task: Literal["classification", "segmentation"]
    start: Literal["given", "scratch"]
    preprocess: str
    batch: int
    smoothing: float
    precision: Literal["f32", "bf16"]
    optimiser: OptimiserSettings
    rate: RateSettings
    augment: AugmentSettings

    def __post_init__(self) -> None:
        require(self, 1, "batch", most=_MOST_BATCH)
        require(self, 0, "smoothing", most=0.99)
        cuts = any(f"{word}=" in self.preprocess for word in ("crop", "letterbox", "pad", "middle"))
        if self.task == "segmentation" and (cuts or self.augment.least < 1):
            raise ValueError("a crop would cut masks: segmentation takes resize=HxW alone, and least = 1 in [augment]")


def recipe_names() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load_recipe(name: str) -> TrainingRecipe:
    """The recipe of that name, or in that file. Raises CounterfactoryError, naming file and key."""
    path = Path(name)
    if path.suffix != ".toml":
        path = RECIPES / f"{name}.toml"
        if name not in recipe_names():
            raise CounterfactoryError(f"there is no recipe {name!r}; {nearest(name, recipe_names())}")
    return fill(TrainingRecipe, read_toml(path), str(path))
