"""The hub on the loopback: its addresses, headers, redirects and error codes, over a folder laid out like it.

Small files are served where they are asked for; large ones (`_LARGE` bytes, or weights by their names) are on another
host, to which a redirect leads, as the hub's are on its content network: with the SHA-256 as X-Linked-ETag, the size as
X-Linked-Size, and ranges. What a request is answered with instead is a `Fault`. As seen of huggingface.co in 2026, and
as huggingface_hub 2.4.0 reads it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_ACCESS = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/auth-check")
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pth")
_LARGE = 10_000_000


@dataclass
class Fault:
    """What is wrong with files whose names contain `file`, so many `times`: a `status` with the hub's X-Error-Code, one
    of the host of their `content`, or a connection that breaks after `cut` bytes of a range.
    """

    file: str = ""
    status: int = 0
    content: int = 0
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    times: int = 1_000_000

    def strikes(self, name: str) -> bool:
        if self.file not in name or self.times <= 0:
            return False
        self.times -= 1
        return True


@dataclass
class HubStandIn:
    """A hub of the repositories below `root`, OWNER/NAME/FILE, each at its commit. `asked` is what was asked for:
    method, path, range.
    """

    root: Path
    commits: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""
    content_url: str = ""

    def fault(self, **of: Any) -> Fault:
        made = Fault(**of)
        self.faults.append(made)
        return made

    def fetched(self) -> list[str]:
        """The names of files whose bytes were asked for."""
        return [path.rpartition("/")[2] for method, path, _ in self.asked if method == "GET" and "resolve" in path]


@contextmanager
def served(root: Path, commits: Mapping[str, str]) -> Iterator[HubStandIn]:
    """A hub that runs while the context is open."""
    hub = HubStandIn(root, commits)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (_Asked,), {"hub": hub})) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    hub.url = f"http://127.0.0.1:{servers[0].server_port}"
    hub.content_url = f"http://localhost:{servers[1].server_port}"
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def look_there(hub: HubStandIn, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of this process ask the stand-in; its constants were read when it was imported."""
    from huggingface_hub import constants

    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.hf_api.HfApi.__init__", _api_of(hub.url))


def _api_of(url: str) -> Any:
    from huggingface_hub import HfApi

    made = HfApi.__init__

    def init(self: Any, **options: Any) -> None:
        made(self, **{"endpoint": url, **options})

    return init


class _Asked(BaseHTTPRequestHandler):
    hub: HubStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        self.hub.asked.append((self.command, self.path, self.headers.get("Range", "")))
        if self.path.startswith("/content/"):
            self._content(self.path.removeprefix("/content/"), body)
        elif access := _ACCESS.fullmatch(self.path):
            self._refused(access["repo"], "", access["repo"]) or self._say(200)
        elif asked := _FILE.fullmatch(self.path):
            self._resolve(asked["repo"], asked["revision"], asked["file"], body)
        else:
            self._say(404)

    def _refused(self, repo: str, file: str, name: str) -> bool:
        for fault in self.hub.faults:
            if fault.status and fault.strikes(f"{repo}/{file}" if file else name):
                self._say(fault.status, {"X-Error-Code": fault.code, **fault.headers})
                return True
        if repo not in self.hub.commits:
            self._say(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."})
            return True
        return False

    def _resolve(self, repo: str, revision: str, file: str, body: bool) -> None:
        if self._refused(repo, file, file):
            return
        commit = self.hub.commits[repo]
        if revision != commit:
            self._say(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
            return
        path, told = self.hub.root / repo / file, {"X-Repo-Commit": commit}
        if not path.is_file():
            self._say(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found", **told})
            return
        size = path.stat().st_size
        if size > _LARGE or path.suffix in _WEIGHTS:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            told |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(size)}
            self._say(302, {**told, "Location": f"{self.hub.content_url}/content/{repo}/{file}"})
            return
        blob = hashlib.sha1(b"blob %d\0" % size + path.read_bytes()).hexdigest()
        self._say(200, {**told, "ETag": f'"{blob}"'}, path.read_bytes(), body)

    def _content(self, name: str, body: bool) -> None:
        self.hub.tokens += [self.headers["Authorization"]] if self.headers["Authorization"] else []
        data = (self.hub.root / name).read_bytes()
        start = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0])[0])
        head = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        for fault in self.hub.faults:
            if fault.content and fault.strikes(name):
                self._say(fault.content, fault.headers)
                return
            if fault.cut is not None and body and fault.strikes(name):
                self._head(206 if start else 200, {**head, "Content-Length": str(len(data) - start)})
                self.wfile.write(data[start : start + fault.cut])
                self.close_connection = True
                return
        self._say(206 if start else 200, head, data[start:], body)

    def _say(self, status: int, headers: Mapping[str, str] | None = None, data: bytes = b"", body: bool = True) -> None:
        self._head(status, {**(headers or {}), "Content-Length": str(len(data))})
        if body:
            self.wfile.write(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
