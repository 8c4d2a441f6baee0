"""The painter in 8 bits: calibrated on the user's photographs, held against its master on others, kept if it is near.

What it is fed while photographs are captioned and painted, in `BATCHES` batches at least, sets its ranges; what it is
fed for photographs that set none says how far it is off. Beyond `BOUND` the master's own file stands in its place: the
painter is slower then, and paints what it should. What pictures lose within the bound is for eyes to judge.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.sources.pixels import fit, read_picture
from counterfactory.engine.stages.caption_sources import caption_images

from .graphs.quantise import Feeds
from .graphs.ranges import quantise_by_tensor
from .graphs.recording import master_of, painting_feeds

# Of two rows each; NNCF's guide takes some 300 samples for its own way.
BATCHES = 64
# Root mean square of what the prediction is off by, over that of the master's prediction, on held-out batches.
BOUND = 0.1
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp"})
_MOST, _EACH = 20, 5  # photographs that are read, and of so many the one that is held out


def pictures_in(folder: Path) -> list[Path]:
    """Some pictures of a folder, spread over it, the same each time. Raises CounterfactoryError where there is none."""
    if not folder.is_dir():
        raise CounterfactoryError(f"there is no folder {folder}: name one with a few photographs")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)
    if not found:
        raise CounterfactoryError(f"folder {folder} holds no picture: put a few photographs into it")
    return [found[at * len(found) // min(_MOST, len(found))] for at in range(min(_MOST, len(found)))]


def calibrate(profile: Profile, pictures: Sequence[Path]) -> str:
    """Write the int8 form of the profile's denoiser, or its master in the form's place; what became of it, in words."""
    images = [fit(read_picture(picture.read_bytes()), profile.image.sizes[0]) for picture in pictures]
    captions = _captions(profile, pictures, images)
    shown = list(zip(images, captions, strict=True))
    held = shown[::_EACH] if len(shown) > 1 else shown  # of one picture with other noise
    learned = [one for at, one in enumerate(shown) if at % _EACH] or shown
    rounds = math.ceil(BATCHES * profile.paint.batch / (len(learned) * profile.paint.rows_per_variant))
    feeds = painting_feeds(profile, *_columns(learned * rounds))
    kept = painting_feeds(profile, *_columns(held), first=len(learned) * rounds)
    folder, name = profile.models.path, profile.paint.denoiser
    master, form = folder / f"{master_of(name)}.xml", folder / f"{name}.xml"
    quantise_by_tensor(master, feeds, form)
    error = _error(form, master, kept, profile)
    told = f"{form} holds {master.stem} in 8 bits, calibrated on {len(learned)} pictures, {len(feeds)} batches"
    told += f"; on {len(kept)} held-out batches it is off by {100 * error:.1f} % (at most {100 * BOUND:g} %)"
    if error <= BOUND:
        return told
    _put_in_place(master, form)
    return f"{told}: {master.stem} itself stands in its place, which takes longer to paint"


def _captions(profile: Profile, pictures: Sequence[Path], images: Sequence[NDArray[np.uint8]]) -> list[str]:
    if not profile.captioned:
        return ["a photo"] * len(images)
    models = ModelPool(library_of(profile), Meter(lambda _: None))
    keyed = [(picture.name, image) for picture, image in zip(pictures, images, strict=True)]
    captions = caption_images(models.blip2(), keyed, profile.caption)
    models.close()
    return captions


def _columns(shown: Sequence[tuple[NDArray[np.uint8], str]]) -> tuple[list[NDArray[np.uint8]], list[str]]:
    return [image for image, _ in shown], [caption for _, caption in shown]


def _error(form: Path, master: Path, feeds: Sequence[Feeds], profile: Profile) -> float:
    """How far the form's predictions are off; infinite where one is no number."""
    wanted, found = (_predictions(path, feeds, profile) for path in (master, form))
    off = float(np.sqrt(np.square(found - wanted).sum() / np.square(wanted).sum()))
    return off if math.isfinite(off) else math.inf


def _predictions(path: Path, feeds: Sequence[Feeds], profile: Profile) -> NDArray[np.float64]:
    batch = len(feeds[0]["latents"])
    precision: Any = profile.runtime.precision
    session = open_session(path, batch=batch, precision=precision)
    runs: list[Mapping[str, NDArray[np.float32]]] = [session.run(one) for one in feeds]
    return np.stack([np.asarray(run["prediction"], np.float64) for run in runs])


def _put_in_place(master: Path, form: Path) -> None:
    """Let the master's files stand under the form's names, without room of their own where the disk can do that."""
    for suffix in (".bin", ".xml"):
        source, target = master.with_suffix(suffix), form.with_suffix(suffix)
        target.unlink(missing_ok=True)
        with suppress(OSError):
            os.link(source, target)
            continue
        shutil.copyfile(source, target)
