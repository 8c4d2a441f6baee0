"""ComfyUI's API: a workflow with places for values, the queue, the history, and what goes wrong on the way."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Asked, Reply, file_of, json_reply, pixels_of, serving

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.server import ServerSettings
from counterfactory.engine.server import comfyui as module
from counterfactory.engine.server.client import PaintClient, open_client
from counterfactory.engine.server.exchange import PictureRefusedError, ServerBusyError, ServerGoneError

SETTINGS = ServerSettings("http://127.0.0.1:1", "comfyui", 64, 16, 30.0, 0, 2, workflow="edit.json")
PICTURE = np.random.default_rng(3).integers(0, 255, (48, 64, 3), dtype=np.uint8)
OTHER = (255 - PICTURE).astype(np.uint8)
WORKFLOW = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{image}"}},
    "2": {"class_type": "TextEncode", "inputs": {"text": "a photo. {instruction}", "clip": ["4", 1]}},
    "3": {"class_type": "KSampler", "inputs": {"seed": "{seed}", "steps": 4, "cfg": 1.5, "positive": ["2", 0]}},
    "5": {"class_type": "ImageScale", "inputs": {"width": "{width}", "height": "{height}", "on": True}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "seed {seed}"}},
}
SAVED = {"filename": "seed 5_1_.png", "subfolder": "a b", "type": "output"}
SHOWN = {"filename": "x.png", "subfolder": "", "type": "temp"}


@dataclass
class Comfy:
    """What a server does that runs workflows: each is in the history after some looks, with these outputs."""

    outputs: Any = field(default_factory=lambda: {"9": {"images": [SAVED]}})
    status: Any = field(default_factory=lambda: {"status_str": "success", "completed": True, "messages": []})
    looks: int = 2
    queued: Reply | None = None
    uploaded: Reply | None = None
    history: Reply | None = None
    shown: Reply = field(default_factory=lambda: Reply(file_of(OTHER), kind="image/png"))
    jobs: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        """The answer by path."""
        path = urlsplit(asked.path).path
        match asked.method, path:
            case "POST", "/upload/image":
                return self.uploaded or json_reply({"name": "in.png", "subfolder": "", "type": "input"})
            case "POST", "/prompt":
                with self.lock:
                    self.jobs.append(json.loads(asked.body)["prompt"])
                    job = len(self.jobs)
                return self.queued or json_reply({"prompt_id": f"job-{job}", "number": job, "node_errors": {}})
            case "GET", "/view":
                return self.shown
            case "POST", "/queue":
                return Reply(b"")
        assert path.startswith("/history/job-"), asked
        with self.lock:
            self.looks -= 1
            through = self.looks < 0
        entry = {"outputs": self.outputs, "status": self.status}
        return self.history or json_reply({path.removeprefix("/history/"): entry} if through else {})


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "edit.json"
    path.write_text(json.dumps(WORKFLOW))
    return path


def client(address: str, workflow: Path, waits: list[float] | None = None, **changes: Any) -> PaintClient:
    waits = [] if waits is None else waits
    return open_client(replace(SETTINGS, address=address, workflow=str(workflow), **changes), waits.append)


def failing(comfy: Callable[[Asked], Any], workflow: Path, **changes: Any) -> CounterfactoryError:
    with serving(comfy) as served, pytest.raises(CounterfactoryError) as failed:
        client(served.address, workflow, **changes).paint(PICTURE, "Make it night.", 5)
    assert str(failed.value).isprintable()
    return failed.value


def test_a_workflow_runs_with_the_values_in_their_places(workflow: Path) -> None:
    comfy, waits = Comfy(), list[float]()
    with serving(comfy) as served:
        painted = client(served.address, workflow, waits).paint(PICTURE, 'Make "{seed}" night.', 5)
    np.testing.assert_array_equal(painted, OTHER)
    upload, prompt, *looks, view = served.asked
    np.testing.assert_array_equal(pixels_of(upload.form["image"]), PICTURE)
    assert upload.text == {"type": "input"}
    digest = hashlib.sha256(upload.form["image"]).hexdigest()[:32]
    assert f'filename="counterfactory_{digest}.png"'.encode() in upload.body
    assert prompt.headers["Content-Type"] == "application/json"
    assert comfy.jobs == [
        {
            "1": {"class_type": "LoadImage", "inputs": {"image": "in.png"}},
            "2": {"class_type": "TextEncode", "inputs": {"text": 'a photo. Make "{seed}" night.', "clip": ["4", 1]}},
            "3": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 4, "cfg": 1.5, "positive": ["2", 0]}},
            "5": {"class_type": "ImageScale", "inputs": {"width": 64, "height": 48, "on": True}},
            "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "seed 5"}},
        }
    ]
    assert [look.path for look in looks] == ["/history/job-1"] * 3
    assert waits == [0.5, 0.5]
    assert parse_qs(urlsplit(view.path).query, keep_blank_values=True) == {k: [v] for k, v in SAVED.items()}


def test_an_address_may_have_a_path_and_an_upload_a_folder(workflow: Path) -> None:
    comfy = Comfy(uploaded=json_reply({"name": "in.png", "subfolder": "deep", "type": "input"}))
    with serving(lambda asked: comfy(replace(asked, path=asked.path.removeprefix("/api")))) as served:
        client(f"{served.address}/api/", workflow).paint(PICTURE, "Now.", 5)
    assert all(asked.path.startswith("/api/") for asked in served.asked)
    assert comfy.jobs[0]["1"]["inputs"]["image"] == "deep/in.png"


NONE = "is none in the API format: export it from ComfyUI by File > Export (API)"
HALF = json.dumps({"1": {"class_type": "LoadImage", "inputs": {"{seed}": "{image}"}}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        *((text, NONE) for text in ("[]", "{}", '{"nodes": [], "links": []}', '{"1": {"inputs": {}}}')),
        (HALF, "lacks {instruction}, {seed}: write that where the value belongs"),
        (None, "is missing: correct workflow in the profile"),
    ],
)
def test_what_is_no_workflow_is_refused_before_it_is_asked(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "edit.json").write_text(text)
    with pytest.raises(CounterfactoryError) as refused:
        client("http://127.0.0.1:1", tmp_path / "edit.json")
    assert str(refused.value).removeprefix("the workflow ").startswith(f"{tmp_path / 'edit.json'} {message}")


NODE = {"errors": [{"type": "value_not_in_list", "message": "Value not in list", "details": "unet: 'a' not in []"}]}
REFUSED = {
    "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": ""},
    "node_errors": {"4": {**NODE, "dependent_outputs": ["9"], "class_type": "UNETLoader"}},
}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (REFUSED, 400, "UNETLoader: Value not in list unet: 'a' not in []"),
        (REFUSED | {"prompt_id": "job-1"}, 200, "UNETLoader: Value not in list unet: 'a' not in []"),
        ({"error": "no prompt", "node_errors": []}, 400, "no prompt"),
        ({"error": {"message": "Node type not found"}, "node_errors": {}}, 400, "Node type not found"),
        ({"node_errors": {"4": 7}, "prompt_id": "job-1"}, 200, '{"node_errors": {"4": 7}, "prompt_id": "job-1"}'),
    ],
)
def test_a_workflow_that_is_refused_ends_the_run(body: dict[str, Any], status: int, words: str, workflow: Path) -> None:
    error = failing(Comfy(queued=json_reply(body, status)), workflow)
    assert type(error) is ServerGoneError
    said = f" answered status {status} (application/json): {words}; correct workflow in the profile"
    assert str(error).endswith(said)


def error_of(*messages: Any) -> dict[str, Any]:
    return {"status_str": "error", "completed": False, "messages": list(messages)}


START, FULL = ["execution_start", {"prompt_id": "job-1"}], {"node_type": "A", "exception_message": "out of\nmemory. "}
WHY, FAILED = "failed in the workflow: ", {"status_str": "error", "messages": None}
COUNT = "pictures of one: leave one node that saves, or shows, a single picture in the workflow"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": error_of(START, ["execution_error", FULL])}, f"{WHY}A: out of memory"),
        ({"status": error_of(["execution_interrupted", {"node_id": "3"}])}, f"{WHY}somebody interrupted it"),
        ({"status": error_of(["execution_error", FULL | {"exception_message": "\ud800b"}])}, f"{WHY}A: b"),
        *(
            ({"status": status}, f"{WHY}it does not say why")
            for status in (error_of(), FAILED, error_of(["execution_error", None], 7))
        ),
        *(({"outputs": outputs}, f" made 0 {COUNT}") for outputs in ({}, None, [])),
        ({"outputs": {"9": {"images": [SAVED, SAVED]}}}, f" made 2 {COUNT}"),
        ({"outputs": {"8": {"images": [SHOWN] * 3}}}, f" made 3 {COUNT}"),
        ({"uploaded": json_reply({})}, "without the name of the upload"),
        ({"uploaded": json_reply([1])}, "without the name of the upload"),
        ({"uploaded": Reply(b"no image", 400, "text/plain")}, "answered status 400 (text/plain): no image"),
        ({"queued": json_reply({"prompt_id": "../../etc"})}, "without a prompt_id"),
        ({"queued": json_reply({"prompt_id": 7})}, "without a prompt_id"),
        ({"queued": json_reply(None)}, "without a prompt_id"),
        ({"queued": json_reply("x", 413)}, "answered status 413 (application/json): x"),
        *(({"history": json_reply(history)}, ", without the prompt") for history in ({"job-2": {}}, [], {"job-1": 7})),
        (
            {"shown": Reply(b"", 404), "outputs": {"9": {"images": [SAVED | {"filename": "\ud800"}]}}},
            "answered status 404 (application/json): nothing",
        ),
    ],
)
def test_what_fails_or_is_no_answer_costs_a_picture(changes: dict[str, Any], words: str, workflow: Path) -> None:
    error = failing(Comfy(**changes), workflow)
    assert type(error) is PictureRefusedError
    assert str(error).endswith(words)


@pytest.mark.parametrize(
    "outputs",
    [
        {"9": {"images": [SAVED]}, "8": {"images": [SHOWN]}},
        {"9": {"images": [SAVED, {"filename": 7}, None]}, "7": {"text": ["a"]}, "6": None, "5": {"images": None}},
        {"8": {"images": [SHOWN]}},
    ],
)
def test_the_picture_that_is_saved_goes_before_one_that_is_shown(outputs: Any, workflow: Path) -> None:
    """Also where a history is older than statuses."""
    with serving(Comfy(outputs=outputs, status=None)) as served:
        np.testing.assert_array_equal(client(served.address, workflow).paint(PICTURE, "Now.", 5), OTHER)
    wanted = SAVED if "9" in outputs else SHOWN
    assert parse_qs(urlsplit(served.asked[-1].path).query)["filename"] == [wanted["filename"]]


KEYS = (
    *("job-1", "outputs", "9", "images", "filename", "subfolder", "type", "status", "status_str"),
    *("messages", "name", "prompt_id", "node_errors", "class_type", "errors", "message", "details"),
)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["error", "output", "temp", "execution_error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("path", ["/upload/image", "/prompt", "/history/"])
def test_any_answer_is_a_picture_or_one_sentence(path: str, workflow: Path) -> None:
    value: list[Any] = [None]
    comfy = Comfy(looks=0)

    def answer(asked: Asked) -> Reply:
        comfy.jobs.clear()
        return json_reply(value[0]) if asked.path.startswith(path) else comfy(asked)

    with serving(answer) as served:
        painter = client(served.address, workflow)

        @given(JSON)
        def ask(hostile: Any) -> None:
            value[0], told = hostile, ""
            try:
                painter.paint(PICTURE, "Now.", 1)
            except CounterfactoryError as refused:
                told = str(refused)
            assert told.isprintable()

        ask()


def test_a_workflow_that_takes_too_long_leaves_the_queue(workflow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comfy, waits = Comfy(looks=10**9), list[float]()
    # A clock that waiting alone moves.
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: sum(waits)))
    with serving(comfy) as served, pytest.raises(ServerBusyError, match=r"took more than timeout_s = 3.2 seconds$"):
        client(served.address, workflow, waits, timeout_s=3.2).paint(PICTURE, "Now.", 5)
    assert waits == [*[0.5] * 6, pytest.approx(0.2)]
    assert served.asked[-1].path == "/queue"
    assert json.loads(served.asked[-1].body) == {"delete": ["job-1"]}


def test_a_look_at_the_history_is_tried_again_and_the_workflow_is_not(workflow: Path) -> None:
    comfy, failures = Comfy(), iter([503, 503])

    def answer(asked: Asked) -> Reply:
        if "/history" in asked.path and (status := next(failures, None)):
            return json_reply({}, status)
        return comfy(asked)

    with serving(answer) as served:
        client(served.address, workflow, retries=2).paint(PICTURE, "Now.", 5)
    assert len(comfy.jobs) == 1


def test_another_server_is_no_comfyui(workflow: Path) -> None:
    error = failing(lambda _: json_reply({"detail": "Not Found"}, 404), workflow)
    assert type(error) is ServerGoneError


def test_workflows_run_side_by_side(workflow: Path) -> None:
    comfy = Comfy(looks=4)
    with serving(comfy) as served, ThreadPoolExecutor(4) as pool:
        painter = client(served.address, workflow)
        painted = list(pool.map(lambda seed: painter.paint(PICTURE, "Now.", seed), range(4)))
    assert len(painted) == 4
    assert sorted(job["3"]["inputs"]["seed"] for job in comfy.jobs) == [0, 1, 2, 3]
