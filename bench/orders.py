"""Orders of a suite's variants, and how soon each shows failures of models that took no part in it.

Careless classifiers of the street world, trained on fair days from different seeds and scenes, and the demo's
answer a suite of the pocket profile. Each in turn is held out: orders are made of the answers of one other model, of
all others, of none, of the held-out model's confidence, or drawn. A failure is a class, an edit's value and a wrong
answer; APFD is of all failures, and of those that show in one variant alone, of which a drawn order has a half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import picture_at
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import counterfactory as cf
from counterfactory.engine.cli.demo import write_sources
from counterfactory.engine.judging.order import VariantAnswer, apfd, failures_shown, label_answers, order_variants
from counterfactory.engine.judging.predictions import Prediction
from counterfactory.engine.pocket.judges import classify_streets
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import PictureRow
from counterfactory.export.pocket.data import TRAIN, as_pixels
from counterfactory.export.pocket.judges import Block, fair_weather

# Widths of the classifiers' blocks.
_MODELS = ((24, 48, 96), (32, 64, 96), (16, 32, 64), (20, 40, 80, 80))
_SIDE, _STEPS, _SCENES, _SEEN, _BATCH, _LR, _DRAWN = 64, 300, 1500, 900, 32, 4e-3, 20
Shares = NDArray[np.float64]
Answers = Mapping[str, VariantAnswer]


def measure_orders(folder: Path, sources: int) -> dict[str, Any]:
    """APFD by order, the mean over held-out models, on a suite of so many scenes in `folder`."""
    if not (folder / "suite").exists():
        write_sources(folder / "sources", sources)
        cf.generate(folder / "sources", out=folder / "suite", variants=5, controls=0, edits=(1, 3), warn=print)
    rows = [row for row in cf.open(folder / "suite").rows if row.kind == "variant" and row.accepted]
    pictures = np.stack([picture_at(folder / "suite" / row.file_name) for row in rows])
    shares = [classify_streets(pictures).astype(np.float64), *_trained(pictures)]
    models = [label_answers(rows, _predictions(rows, one)) for one in shares]
    figures: dict[str, list[float]] = {}
    for number, held in enumerate(models):
        for name, value in _figures(rows, held, models[:number] + models[number + 1 :], shares[number]).items():
            figures.setdefault(name, []).append(value)
    measured = {name: round(float(np.mean(values)), 4) for name, values in figures.items()}
    return {**measured, "apfd_least": round(min(figures["apfd"]), 4), "apfd_models": len(models)}


def _figures(rows: Sequence[PictureRow], held: Answers, others: Sequence[Answers], shares: Shares) -> dict[str, float]:
    shows = {row.file_name: failures_shown(row, held[row.file_name]) for row in rows}
    counts = Counter(failure for failures in shows.values() for failure in failures)
    once = {failure for failure, count in counts.items() if count == 1}

    def both(order: Sequence[PictureRow]) -> tuple[float, float]:
        every = apfd([shows[row.file_name] for row in order])
        single = apfd([shows[row.file_name] & once for row in order])
        assert every is not None
        assert single is not None
        return single, every

    def of(models: Sequence[Answers]) -> tuple[float, float]:
        return both([place.row for place in order_variants(rows, models)])

    rng = np.random.default_rng(0)
    by_confidence = [rows[i] for i in np.argsort(shares.max(axis=1), kind="stable")]
    orders = {
        "apfd": np.mean([of([one]) for one in others], axis=0),
        "apfd_of_all_others": of(others),
        "apfd_of_no_model": of([]),
        "apfd_confidence": both(by_confidence),
        "apfd_random": np.mean([both([rows[i] for i in rng.permutation(len(rows))]) for _ in range(_DRAWN)], axis=0),
    }
    return {f"{name}{all_}": float(pair[k]) for name, pair in orders.items() for k, all_ in enumerate(("", "_all"))}


def _predictions(rows: Sequence[PictureRow], shares: Shares) -> list[Prediction]:
    kinds = EMBEDDED.kinds
    return [
        Prediction(kinds[int(of.argmax())], float(of.max()), None, float(of[kinds.index(str(row.label))]))
        for row, of in zip(rows, shares, strict=True)
    ]


def _trained(pictures: NDArray[np.uint8]) -> list[Shares]:
    """What each of the models gives each kind of vehicle, [N, K], trained here."""
    images, _, labels = fair_weather(TRAIN, _SCENES)
    pixels, asked = _pixels(images), _pixels(pictures)
    answers = []
    for seed, widths in enumerate(_MODELS, start=1):
        torch.manual_seed(seed)
        net, draw = _classifier(widths), torch.Generator().manual_seed(seed)
        seen = torch.randperm(_SCENES, generator=draw)[:_SEEN]
        adam = torch.optim.AdamW(net.parameters())
        rate = torch.optim.lr_scheduler.OneCycleLR(adam, _LR, total_steps=_STEPS)
        for _ in range(_STEPS):
            some = seen[torch.randint(_SEEN, (_BATCH,), generator=draw)]
            batch = pixels[some].flip(-1) if torch.rand(()) < 0.5 else pixels[some]
            loss = functional.cross_entropy(net(batch), torch.from_numpy(labels)[some], label_smoothing=0.05)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            rate.step()
        net.eval()
        with torch.no_grad():
            logits = torch.cat([net(part) for part in torch.split(asked, _BATCH)])
        answers.append(np.asarray(functional.softmax(logits.double(), dim=1).numpy()))
    return answers


def _classifier(widths: Sequence[int]) -> Any:
    blocks = [Block(inward, outward, 2) for inward, outward in zip((3, *widths), widths, strict=False)]
    left = 16 * (_SIDE // 2 ** len(widths)) ** 2
    head = (nn.Conv2d(widths[-1], 16, 1), nn.ReLU(), nn.Flatten(), nn.Linear(left, 48), nn.ReLU())
    return nn.Sequential(*blocks, *head, nn.Linear(48, len(EMBEDDED.kinds)))


def _pixels(images: NDArray[np.uint8]) -> torch.Tensor:
    return functional.interpolate(as_pixels(images), size=(_SIDE, _SIDE), mode="area")
