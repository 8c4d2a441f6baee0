"""The whole of a lesson: each of its trainings, and what the trained models answer to the pictures that were held out.

An answer's label is a class's name, a mask's numbers are those of the suite. A training that is finished is not asked
again.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from torch import Tensor, nn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import make_folder, open_whole, write_whole
from counterfactory.engine.training.lesson import Lesson, answers_of, read_lesson

from .networks import build_network, logits_of, require_head, scaled
from .pictures import TrainingPictures
from .train import Say, open_device, train

WEIGHTS, ANSWERS, DONE = "model.safetensors", "answers.csv", "done"
_HEAD = ("image", "prediction", "confidence", "p_true")


def run_lesson(folder: Path, device_name: str, say: Say) -> None:
    """Trains and asks whatever the folder's lesson still lacks.

    Raises CounterfactoryError for a device that is not there, a model that cannot be made or lacks a head for the
    lesson's classes.
    """
    lesson, device = read_lesson(folder), open_device(device_name)
    for seed in lesson.seeds:
        for arm in lesson.arms:
            place = answers_of(folder, arm, seed)
            if (place / DONE).exists():
                continue
            torch.manual_seed(seed)
            network = build_network(lesson)
            first, _ = TrainingPictures(lesson, lesson.held, seed)[-1, 0, 0]
            require_head(network, lesson, first[None])
            make_folder(place)
            if arm == "given":
                network = network.eval().to(device)
            else:
                pictures = (*lesson.originals, *(lesson.variants if arm == "after" else ()))
                say(f"{arm}, seed {seed}: {len(pictures)} pictures, on {device}")
                network = train(lesson, network, pictures, seed, place, device, say)
            _ask(lesson, network, place, device)
            # Cloned, since tensors that share memory would be refused.
            weights = {key: value.cpu().clone() for key, value in network.state_dict().items()}
            write_whole(place / WEIGHTS, save(weights))
            write_whole(place / DONE, "")
            for checkpoint in place.glob("checkpoint-*"):
                shutil.rmtree(checkpoint)


def _ask(lesson: Lesson, network: nn.Module, place: Path, device: torch.device) -> None:
    pictures = TrainingPictures(lesson, lesson.held, 0)
    rows = [_HEAD]
    for numbers, logits in _answers(lesson, network, pictures, device):
        if logits.ndim == 2:
            shares = logits.softmax(1)
            for number, share in zip(numbers, shares, strict=True):
                one = lesson.held[number]
                assert one.target is not None, "a lesson without masks has class numbers"
                best = int(share.argmax())
                rows.append((one.file_name, lesson.classes[best], f"{share[best]:.6g}", f"{share[one.target]:.6g}"))
            continue
        for number, one_logits in zip(numbers, logits, strict=True):
            found = scaled(one_logits[None], pictures.size(number))[0].argmax(0).numpy()
            mask = np.array(lesson.numbers, np.uint16)[found]
            _write_mask(place, lesson.held[number].file_name, mask)
    if len(rows) > 1:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(place / ANSWERS, text.getvalue())


def _answers(
    lesson: Lesson, network: nn.Module, pictures: TrainingPictures, device: torch.device
) -> Iterator[tuple[Sequence[int], Tensor]]:
    """Batches of held-out pictures of one shape, and their logits on the CPU."""
    waiting: dict[tuple[int, ...], list[tuple[int, Tensor]]] = {}

    def run(batch: list[tuple[int, Tensor]]) -> tuple[Sequence[int], Tensor]:
        with torch.inference_mode():
            logits = logits_of(network(torch.stack([inputs for _, inputs in batch]).to(device))).float().cpu()
        if not bool(torch.isfinite(logits).all()):
            raise CounterfactoryError("the trained model gives numbers that are not finite: take a lower rate")
        return [number for number, _ in batch], logits

    for number in range(len(lesson.held)):
        inputs, _ = pictures[-1, 0, number]
        batch = waiting.setdefault(tuple(inputs.shape), [])
        batch.append((number, inputs))
        if len(batch) == lesson.recipe.batch:
            yield run(waiting.pop(tuple(inputs.shape)))
    for batch in waiting.values():
        yield run(batch)


def _write_mask(place: Path, name: str, mask: np.ndarray[tuple[int, ...], np.dtype[np.uint16]]) -> None:
    file = place / name
    make_folder(file.parent)
    with open_whole(file, sync="nothing") as opened:
        Image.fromarray(mask.astype(np.uint8) if mask.max() < 256 else mask).save(opened, "PNG")
