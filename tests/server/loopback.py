"""A server of the tests' own on the loopback, which answers as a function says: whole, broken, or never."""

from __future__ import annotations

import contextlib
import email.parser
import email.policy
import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, bytes]:
        """The fields of a form, read by the standard library's parser of mail."""
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body)
        return {
            str(part.get_param("name", header="Content-Disposition")): part.get_payload(decode=True)
            for part in message.iter_parts()
        }

    @property
    def text(self) -> dict[str, str]:
        """The fields of a form that are no file."""
        return {name: value.decode() for name, value in self.form.items() if name != "image"}


@dataclass(frozen=True)
class Reply:
    """An answer. `body` in pieces has no length, and is sent for as long as anybody listens."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


# A reply, bytes that are sent as they are, all at once or in pieces, or silence until the server ends.
Answer = Reply | bytes | Iterator[bytes] | None


@dataclass(frozen=True)
class Served:
    """A server that runs, and what it was asked so far."""

    address: str
    asked: list[Asked]


@contextlib.contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Served]:
    """A server for as long as the block lasts, whose answers are as `answer` says."""
    asked, ended = list[Asked](), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Asked(self.command, self.path, dict(self.headers.items()), body)
            asked.append(request)
            reply = answer(request)
            with contextlib.suppress(ConnectionError):
                if reply is None:
                    ended.wait()
                elif isinstance(reply, Reply):
                    self._send(reply)
                else:
                    self._write([reply] if isinstance(reply, bytes) else reply)

        do_GET = do_POST  # noqa: N815

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            length = {"Content-Length": str(len(reply.body))} if isinstance(reply.body, bytes) else {}
            for name, value in (length | dict(reply.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            self._write([reply.body] if isinstance(reply.body, bytes) else reply.body)

        def _write(self, pieces: Iterable[bytes]) -> None:
            for piece in pieces:
                if ended.is_set():
                    return
                self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(json.dumps(value).encode(), status, headers={name.replace("_", "-"): v for name, v in headers.items()})


def file_of(picture: NDArray[np.uint8], format_: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format_, **options)
    return buffer.getvalue()


def pixels_of(file: bytes) -> NDArray[np.uint8]:
    return np.array(Image.open(io.BytesIO(file)).convert("RGB"))
