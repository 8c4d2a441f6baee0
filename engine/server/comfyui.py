"""ComfyUI: the user's own workflow in the API format, `POST /prompt`, with the picture, the instruction and the seed
put where it says {image}, {instruction} and {seed}.

A prompt has no entry in the history until it is through, with an error or without.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from ..errors import CounterfactoryError
from ..files.reading import read_json
from .exchange import FATAL, Exchange, HttpAnswer, PictureRefusedError, ServerGoneError, multipart

_PLACES = re.compile(r"\{(image|instruction|seed|width|height)\}")
_NEEDED = ("image", "instruction", "seed")
_POLL_S = 0.5
_JSON = "application/json"


class ComfyUi:
    def __init__(self, exchange: Exchange) -> None:
        """Reads the workflow. Raises CounterfactoryError for a file that is none, or lacks a place that is needed."""
        self._exchange = exchange
        self._workflow = _read_workflow(exchange)

    def edit(self, picture: bytes, size: tuple[int, int], instruction: str, seed: int) -> bytes:
        """The file of an edited picture, of a PNG file of `size` (height, width). Raises as `Exchange.ask` does."""
        exchange = self._exchange
        end = time.monotonic() + exchange.settings.timeout_s
        # One name for one content: the server keeps it once, and no other thread's request changes it.
        name = f"counterfactory_{hashlib.sha256(picture).hexdigest()[:32]}.png"
        uploaded = self._ask("/upload/image", end, *multipart({"type": "input"}, name, picture))
        match exchange.read_json(uploaded):
            case {"name": str(name), **rest}:
                folder = rest.get("subfolder")
            case _:
                raise PictureRefusedError(f"{exchange.told(uploaded)}, without the name of the upload")
        values: dict[str, str | int] = {"image": f"{folder}/{name}" if folder else name, "instruction": instruction}
        values |= {"seed": seed, "height": size[0], "width": size[1]}
        job = self._queue(_filled(self._workflow, values), end)
        file = self._file(self._result(job, end))
        return self._ask(f"/view?{urlencode(file, errors='replace')}", end, fatal=()).body

    def _ask(
        self,
        path: str,
        end: float,
        body: bytes | None = None,
        kind: str = "",
        fatal: Collection[int] = FATAL,
        accept: Collection[int] = (),
    ) -> HttpAnswer:
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise self._exchange.late()
        return self._exchange.ask(f"{self._exchange.base}{path}", body, kind, fatal, accept, left_s)

    def _queue(self, workflow: object, end: float) -> str:
        """The id of a workflow in the queue. A workflow that does not hold for one picture holds for none."""
        exchange, body = self._exchange, json.dumps({"prompt": workflow, "client_id": "counterfactory"}).encode()
        answer = self._ask("/prompt", end, body, _JSON, accept=(400,))
        value = exchange.read_json(answer)
        # One branch of a workflow may be wrong and another queued.
        errors = value.get("node_errors") if isinstance(value, Mapping) else None
        if errors or answer.status == 400:
            raise ServerGoneError(f"{exchange.told(answer, _node_error(errors))}; correct workflow in the profile")
        match value:
            case {"prompt_id": str(job)} if re.fullmatch(r"[\w-]{1,64}", job, re.ASCII):
                return job
        raise PictureRefusedError(f"{exchange.told(answer)}, without a prompt_id")

    def _result(self, job: str, end: float) -> Mapping[str, Any]:
        """The outputs of a prompt, by its nodes, when it is through."""
        exchange = self._exchange
        while True:
            try:
                answer = self._ask(f"/history/{job}", end)
            except PictureRefusedError:
                self._give_up(job)
                raise
            match exchange.read_json(answer):
                case {**history} if not history:
                    exchange.wait(min(_POLL_S, max(0.0, end - time.monotonic())))
                case {**history} if isinstance(entry := history.get(job), Mapping):
                    break
                case _:
                    raise PictureRefusedError(f"{exchange.told(answer)}, without the prompt")
        if (failure := _failure(entry.get("status"))) is not None:
            raise PictureRefusedError(f"{exchange.origin} failed in the workflow: {exchange.words(failure)}")
        outputs = entry.get("outputs")
        return outputs if isinstance(outputs, Mapping) else {}

    def _give_up(self, job: str) -> None:
        """Take a prompt that is still in the queue out of it."""
        body = json.dumps({"delete": [job]}).encode()
        with contextlib.suppress(CounterfactoryError):
            self._exchange.ask(f"{self._exchange.base}/queue", body, _JSON, limit_s=1.0)

    def _file(self, outputs: Mapping[str, Any]) -> dict[str, str]:
        """The one picture that a workflow saves; without one, the one that it shows."""
        pictures = dict[str, list[dict[str, str]]]()
        for output in outputs.values():
            match output:
                case {"images": [*images]}:
                    for image in images:
                        match image:
                            case {"filename": str(name), "subfolder": str(folder), "type": str(kind)}:
                                file = {"filename": name, "subfolder": folder, "type": kind}
                                pictures.setdefault(kind, []).append(file)
        files = pictures.get("output") or pictures.get("temp") or []
        if len(files) != 1:
            raise PictureRefusedError(
                f"{self._exchange.origin} made {len(files)} pictures of one: leave one node that saves, or shows, a "
                "single picture in the workflow"
            )
        return files[0]


def _read_workflow(exchange: Exchange) -> Mapping[str, Any]:
    path = exchange.settings.file()
    workflow = read_json(path)
    nodes = list(workflow.values()) if isinstance(workflow, dict) else []
    if not nodes or not all(isinstance(node, dict) and isinstance(node.get("class_type"), str) for node in nodes):
        raise CounterfactoryError(
            f"the workflow {path} is none in the API format: export it from ComfyUI by File > Export (API)"
        )
    present = {name for text in _texts(workflow) for name in _PLACES.findall(text)}
    if missing := [f"{{{name}}}" for name in _NEEDED if name not in present]:
        raise CounterfactoryError(f"the workflow {path} lacks {', '.join(missing)}: write that where the value belongs")
    return dict(workflow)


def _texts(value: object) -> Iterator[str]:
    """All texts in JSON, but for the keys of tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _filled(value: Any, values: Mapping[str, str | int]) -> Any:
    """JSON with the values in their places; a text that is nothing but the place of a number is that number."""
    if isinstance(value, str):
        alone = _PLACES.fullmatch(value)
        return values[alone[1]] if alone else _PLACES.sub(lambda place: str(values[place[1]]), value)
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    return [_filled(item, values) for item in value] if isinstance(value, list) else value


def _node_error(errors: object) -> str | None:
    """The first error of a node that a workflow was refused for; None where none is named."""
    for node in errors.values() if isinstance(errors, Mapping) else ():
        match node:
            case {"class_type": str(kind), "errors": [{"message": str(text), **more}, *_]}:
                return f"{kind}: {text} {more.get('details') or ''}"
    return None


def _failure(status: object) -> str | None:
    """What a status in the history says went wrong; None where nothing did."""
    if not isinstance(status, Mapping) or status.get("status_str") != "error":
        return None
    messages = status.get("messages")
    for message in messages if isinstance(messages, list) else ():
        match message:
            case ["execution_error", {"node_type": str(node), "exception_message": str(text)}]:
                return f"{node}: {text}"
            case ["execution_interrupted", *_]:
                return "somebody interrupted it"
    return "it does not say why"
