"""HTTP with a server that a user names, each request bounded: in time, in bytes, and to that one server.

It is the standard library's client. What others add to it would have to be switched off here: proxies and passwords
from the environment, cookies, redirects, packed answers, kept connections, retries with waits of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import CounterfactoryError
from ..profile.server import ServerSettings

MOST_BYTES = 64 * 2**20  # of an answer
# Statuses after which no other picture would fare better, those which pass, and those which more tries may mend.
FATAL = frozenset((*range(300, 400), 401, 403, 404, 405))
_BUSY = frozenset((429, 502, 503, 504))
_AGAIN = frozenset((429, *range(500, 600)))
# Seconds: of a connection to come about, of the first wait before another try, and of the longest.
_CONNECT_S, _FIRST_WAIT_S, _LONGEST_WAIT_S = 10.0, 1.0, 60.0
_SHOWN = 160  # characters of an answer in an error
_PIECE = 1 << 16


class PictureRefusedError(CounterfactoryError):
    """No picture came of one request, and others may fare better: it costs this picture and not the run."""


class ServerBusyError(PictureRefusedError):
    """A picture for which the server was too slow, overloaded or broke off: several in a row are `ServerGoneError`."""


class ServerGoneError(CounterfactoryError):
    """No picture will come: the server is not there, sends elsewhere, wants another key, or does not take the workflow.
    The run stops, and goes on later where it stood.
    """


@dataclass(frozen=True)
class HttpAnswer:
    """What a server answered. `kind` is the media type in small letters, with "packed" before it where the body is, and
    then left unread; `wait_s` is for how long the server asks to be left alone, `target` where it sends on to.
    """

    status: int
    kind: str
    body: bytes
    wait_s: float | None
    target: str | None


class Exchange:
    """Asks one server, from any thread. Its secret stands in the requests' headers and nowhere else."""

    def __init__(self, settings: ServerSettings, wait: Callable[[float], object] | None = None) -> None:
        """Reads the secret from the environment; `wait` takes seconds, and stands in for waiting between tries. Raises
        CounterfactoryError for a variable that is not set, or holds what no header can.
        """
        self.settings = settings
        self._secret = _secret(settings.key_env)
        self._closed, self._lock, self._open = threading.Event(), threading.Lock(), set[socket.socket]()
        self.wait = wait or self._closed.wait
        parts = urlsplit(settings.address)
        self.origin, self.base = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None

    def close(self) -> None:
        """Break off what other threads ask for, which raises ServerGoneError there; nothing is asked any more."""
        self._closed.set()
        with self._lock:
            for line in self._open:
                _cut(line)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        kind: str = "",
        fatal: Collection[int] = FATAL,
        accept: Collection[int] = (),
        limit_s: float | None = None,
    ) -> HttpAnswer:
        """The answer to a GET of `path`, or to a POST of a body of that media type; its status is 200 to 299, or one to
        `accept`.

        Where no connection comes about, one breaks, or the server is overloaded (429) or fails (5xx), `retries` more
        tries follow, after waits that double or that the server asks for in seconds. A try of more than `limit_s`
        seconds, by default `timeout_s`, is the last one; the look-up of the name is not in them. Raises ServerGoneError
        without a connection and for `fatal` statuses, ServerBusyError, and PictureRefusedError for all else.
        """
        wait_s, limit_s = _FIRST_WAIT_S, self.settings.timeout_s if limit_s is None else limit_s
        for left in reversed(range(self.settings.retries + 1)):
            asked_s = None
            try:
                answer = self._try(path, body, kind, limit_s)
            except TimeoutError:
                raise self.late() from None
            except (ServerGoneError, ServerBusyError):
                if not left:
                    raise
            else:
                if answer.status not in _AGAIN or not left:
                    return answer if answer.status in accept else self._checked(answer, fatal)
                asked_s = answer.wait_s
            self.wait(min(wait_s if asked_s is None else asked_s, _LONGEST_WAIT_S))
            wait_s *= 2
        raise AssertionError("the last try returns or raises")

    def late(self) -> ServerBusyError:
        return ServerBusyError(f"{self.origin} took more than timeout_s = {self.settings.timeout_s:g} seconds")

    def read_json(self, answer: HttpAnswer) -> Any:
        """The JSON in an answer. Raises PictureRefusedError for anything else."""
        with contextlib.suppress(ValueError, RecursionError):
            if answer.kind == "application/json":
                return json.loads(answer.body)
        raise PictureRefusedError(f"{self.told(answer)}, which is no JSON")

    def told(self, answer: HttpAnswer, body: str | None = None) -> str:
        """A clause about an answer, with the first words of its body, or of a part of it."""
        words = self.words(answer.body if body is None else body)
        onward = f", sending on to {self.words(answer.target)}" if answer.target else ""
        return f"{self.origin} answered status {answer.status} ({answer.kind}){onward}: {words}"

    def words(self, text: bytes | str) -> str:
        """The first words of a text, of the message where it is JSON; without tags, control characters, the secret."""
        text = text if isinstance(text, str) else text[:_PIECE].decode("utf-8", "replace")
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
            while isinstance(value, Mapping):
                value = next((value[key] for key in ("error", "message", "detail") if value.get(key)), None)
            text = value if isinstance(value, str) else text
        if self._secret is not None:
            text = text.replace(self._secret, "***")
        text = "".join(letter if letter.isprintable() else " " for letter in re.sub(r"<[^<>]*>", " ", text))
        text = " ".join(text.split()).rstrip(" .")
        return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text or "nothing"

    def _checked(self, answer: HttpAnswer, fatal: Collection[int]) -> HttpAnswer:
        if 200 <= answer.status < 300:
            return answer
        if answer.status in (401, 403):
            named = self.settings.key_env
            advice = f"correct the key in {named}" if named else "name the variable that holds a key in key_env"
            raise ServerGoneError(f"{self.told(answer)}; {advice}")
        if answer.status in fatal:
            raise ServerGoneError(f"{self.told(answer)}; correct address in the profile, or what the server runs")
        raise (ServerBusyError if answer.status in _BUSY else PictureRefusedError)(self.told(answer))

    def _try(self, path: str, body: bytes | None, kind: str, limit_s: float) -> HttpAnswer:
        """One request on a connection of its own. Raises TimeoutError after `limit_s`."""
        end = time.monotonic() + limit_s
        with self._connected(min(limit_s, _CONNECT_S)) as (connection, line):
            left_s, over = end - time.monotonic(), threading.Event()

            def cut() -> None:
                over.set()
                _cut(line)

            line.settimeout(None)  # a server that sends a byte a second keeps within every time-out of a socket
            watch = threading.Timer(left_s, cut)
            watch.start()
            answer, reason = None, ""
            try:
                headers = {"Accept": "application/json, image/*", "User-Agent": "counterfactory", "Connection": "close"}
                headers |= {"Content-Type": kind} if kind else {}
                headers |= {"Authorization": f"Bearer {self._secret}"} if self._secret is not None else {}
                # A server may answer and hang up before it has read all of a picture.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request("GET" if body is None else "POST", path, body, headers)
                answer = self._read(connection.getresponse())
            except (OSError, http.client.HTTPException) as error:
                reason = self.words(_reason(error))
            finally:
                watch.cancel()
            self._require_open()  # what was cut off may look whole
            if over.is_set():
                raise TimeoutError
            if answer is None:
                raise ServerBusyError(f"{self.origin} broke off: {reason}")
            return answer

    @contextlib.contextmanager
    def _connected(self, limit_s: float) -> Iterator[tuple[http.client.HTTPConnection, socket.socket]]:
        self._require_open()
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=limit_s)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=limit_s, context=self._tls)
        try:
            connection.connect()
            line: socket.socket = connection.sock
        except (OSError, UnicodeError) as error:
            connection.close()
            raise ServerGoneError(
                f"no connection to {self.origin} ({_reason(error)}): start it, or correct address in the profile"
            ) from error
        with self._lock:
            self._open.add(line)
        try:
            self._require_open()
            yield connection, line
        finally:
            with self._lock:
                self._open.remove(line)
            connection.close()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise ServerGoneError(f"{self.origin} is asked for nothing any more")

    def _read(self, response: http.client.HTTPResponse) -> HttpAnswer:
        kind, body = response.headers.get_content_type(), bytearray()
        packing = response.headers.get("Content-Encoding", "identity").strip().casefold()
        if packing != "identity":  # nobody asked for it, and a few bytes of it may be gigabytes
            kind = f"packed {kind}"
        elif (response.length or 0) <= MOST_BYTES:
            while len(body) <= MOST_BYTES and (piece := response.read(_PIECE)):
                body += piece
            if response.length and len(body) <= MOST_BYTES:
                raise ConnectionError("the answer ended early")
        if len(body) > MOST_BYTES or (response.length or 0) > MOST_BYTES:
            raise PictureRefusedError(f"{self.origin} answered with more than {MOST_BYTES >> 20} MB")
        wait, target = response.headers.get("Retry-After", ""), response.headers.get("Location")
        wait_s = float(wait) if re.fullmatch(r"[0-9]{1,9}", wait.strip()) else None
        if target is not None:  # without names, secrets and questions
            target = re.sub(r"//[^/]*@", "//", re.split(r"[?#]", target)[0])
        return HttpAnswer(response.status, kind, bytes(body), wait_s, target)


def multipart(fields: Mapping[str, str], name: str, picture: bytes) -> tuple[bytes, str]:
    """A form (RFC 7578) with the fields and, as "image", a PNG file of that name, and its media type."""
    boundary = hashlib.sha256(picture).hexdigest()  # which no field holds
    parts = [f'name="{field}"\r\n\r\n{value}\r\n'.encode() for field, value in fields.items()]
    parts.append(f'name="image"; filename="{name}"\r\nContent-Type: image/png\r\n\r\n'.encode() + picture + b"\r\n")
    begin = f"--{boundary}\r\nContent-Disposition: form-data; ".encode()
    body = b"".join(begin + part for part in parts) + f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def _secret(name: str | None) -> str | None:
    """The secret in an environment variable; no error shows it."""
    if name is None:
        return None
    if not (secret := os.environ.get(name)):
        raise CounterfactoryError(f"key_env names the variable {name}, which is not set: set it, or take key_env out")
    if not re.fullmatch(r"[!-~]+", secret):
        raise CounterfactoryError(
            f"the variable {name} holds a space, a line's end or a letter that no key has: set it anew"
        )
    return secret


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _cut(line: socket.socket) -> None:
    """Wake whoever waits for a socket; nothing comes from it any more."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # TLS's own would take its state away from the reader
