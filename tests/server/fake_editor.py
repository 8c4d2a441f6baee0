"""An editor behind OpenAI's image edits that does what it is told with OpenCV: fog, night, and else nothing."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator

import cv2
import numpy as np
from loopback import Asked, Reply, Served, json_reply, serving
from numpy.typing import NDArray


def edited(picture: NDArray[np.uint8], prompt: str, seed: int) -> NDArray[np.uint8]:
    """uint8 [H, W, 3] BGR with what the prompt tells before it says what to keep: fog or night, with some noise of the
    seed; the same pixels where it tells neither.
    """
    wanted = re.sub(r"\bfrom .*? to\b|\binstead of [^.]*", "", re.split(r"\bkeep\b", prompt, flags=re.IGNORECASE)[0])
    noise = np.random.default_rng(seed).normal(0, 2, picture.shape)
    changed = picture.astype(np.float64)
    if re.search(r"\b(?:fog|foggy|mist|misty)\b", wanted):
        far = np.linspace(0.8, 0.4, len(picture))[:, None, None]
        changed = cv2.GaussianBlur(changed, (0, 0), 1.5) * (1 - far) + 205 * far + noise
    if re.search(r"\b(?:night|midnight|dark)\b", wanted):
        changed = changed * (0.35, 0.2, 0.15) + noise
    return np.clip(np.rint(changed), 0, 255).astype(np.uint8)


@contextlib.contextmanager
def fake_editor(key: str | None = None) -> Iterator[Served]:
    """The server, for as long as the block lasts; with a key it refuses whoever does not show it."""

    def answer(asked: Asked) -> Reply:
        if key is not None and asked.headers.get("Authorization") != f"Bearer {key}":
            return json_reply({"error": {"message": "Incorrect API key provided"}}, 401)
        if (asked.method, asked.path) != ("POST", "/v1/images/edits"):
            return json_reply({"detail": "Not Found"}, 404)
        return edit_reply(asked)

    with serving(answer) as served:
        yield served


def edit_reply(asked: Asked) -> Reply:
    """The picture that was sent, as its prompt tells."""
    form = asked.form
    picture = cv2.imdecode(np.frombuffer(form["image"], np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    _, file = cv2.imencode(".png", edited(picture, form["prompt"].decode(), int(form.get("seed", b"0"))))
    return json_reply({"created": 0, "data": [{"b64_json": base64.b64encode(file.tobytes()).decode()}]})
