"""One request and its tries: what is sent, what is waited for, what is refused, and what an error says."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from loopback import Answer, Asked, Reply, json_reply, serving

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.server import ServerSettings
from counterfactory.engine.server import exchange as module
from counterfactory.engine.server.exchange import Exchange, PictureRefusedError, ServerBusyError, ServerGoneError

SETTINGS = ServerSettings("http://127.0.0.1:1", "openai", 1024, 16, 30.0, 0, 2, model="klein")
SECRET = "sk-0123456789abcdef"


def exchange(address: str, waits: list[float] | None = None, **changes: Any) -> Exchange:
    waits = [] if waits is None else waits
    return Exchange(replace(SETTINGS, address=address, **changes), waits.append)


def failing(answer: Callable[[Asked], Answer], **changes: Any) -> CounterfactoryError:
    """The error that a request to such a server ends in; it is one sentence in one line."""
    with serving(answer) as served, pytest.raises(CounterfactoryError) as failed:
        exchange(served.address, **changes).ask("/x", b"body", "text/plain")
    assert str(failed.value).isprintable()
    return failed.value


def test_a_request_has_the_body_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PICTURES_KEY", SECRET)
    with serving(lambda _: json_reply({"a": 1}, Set_Cookie="session=1")) as served:
        asking = exchange(served.address, key_env="PICTURES_KEY")
        assert asking.read_json(asking.ask("/x", b"body", "text/plain")) == {"a": 1}
        assert asking.ask("/y?z=1").status == 200
        exchange(served.address).ask("/y")
    post, get, without = served.asked
    assert (post.method, post.path, post.body, post.headers["Content-Type"]) == ("POST", "/x", b"body", "text/plain")
    assert (get.method, get.path, get.body) == ("GET", "/y?z=1", b"")
    assert {post.headers["Authorization"], get.headers["Authorization"]} == {f"Bearer {SECRET}"}
    assert "Authorization" not in without.headers
    assert get.headers["Accept-Encoding"] == "identity"
    assert "Cookie" not in get.headers


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: Reply(b"proxy")) as proxy, serving(lambda _: Reply(b"server")) as served:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.address)
        assert exchange(served.address).ask("/").body == b"server"
    assert not proxy.asked


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(status: int) -> None:
    left = iter([status, status])
    waits = list[float]()
    with serving(lambda _: json_reply({}, next(left, 200))) as served:
        assert exchange(served.address, waits, retries=3).ask("/").status == 200
    assert len(served.asked) == 3
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize(("asked", "waited"), [("7", 7), ("0", 0), ("86400", 60), ("soon", 1), ("-1", 1), ("1e9", 1)])
def test_what_a_server_asks_to_wait_is_bounded(asked: str, waited: float) -> None:
    left, waits = iter([429]), list[float]()
    with serving(lambda _: json_reply({}, next(left, 200), Retry_After=asked)) as served:
        exchange(served.address, waits, retries=1).ask("/")
    assert waits == [waited]


def test_waits_double_up_to_a_minute_and_end() -> None:
    waits = list[float]()
    error = failing(lambda _: json_reply({"error": {"message": "busy"}}, 503), waits=waits, retries=8)
    assert type(error) is ServerBusyError
    assert str(error).endswith("answered status 503 (application/json): busy")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        *((400, PictureRefusedError, ""), (413, PictureRefusedError, ""), (422, PictureRefusedError, "")),
        (401, ServerGoneError, "name the variable that holds a key in key_env"),
        (403, ServerGoneError, "name the variable that holds a key in key_env"),
        (404, ServerGoneError, "correct address in the profile, or what the server runs"),
        (405, ServerGoneError, "correct address in the profile, or what the server runs"),
        (500, PictureRefusedError, ""),  # which is no busy server
    ],
)
def test_no_other_status_is_tried_again(status: int, kind: type[Exception], words: str) -> None:
    waits = list[float]()
    error = failing(lambda _: json_reply({"error": {"message": "no such thing"}}, status), waits=waits, retries=1)
    assert type(error) is kind
    assert f"answered status {status} (application/json): no such thing" in str(error)
    assert str(error).endswith(words)
    assert waits == [1.0] * (status == 500)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_follows_a_server_elsewhere(status: int) -> None:
    with serving(lambda _: Reply(b"yours")) as other:
        target = f"{other.address.replace('//', f'//me:{SECRET}@')}/x?key={SECRET}#{SECRET}"
        error = failing(lambda _: Reply(b"moved", status, "text/html", {"Location": target}))
    assert type(error) is ServerGoneError
    assert f"sending on to {other.address}/x: moved" in str(error)
    assert SECRET not in str(error)
    assert not other.asked


def test_a_server_that_is_not_there_ends_the_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address, waits = f"http://127.0.0.1:{taken.getsockname()[1]}", list[float]()
        with pytest.raises(ServerGoneError, match=rf"^no connection to {address} \(Connection refused\): start it, or"):
            exchange(address, waits, retries=2).ask("/")
    assert waits == [1.0, 2.0]


def test_a_server_that_takes_no_connection_ends_the_run() -> None:
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # more than wait in line
            line = waiting.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        address = f"http://127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(ServerGoneError, match=rf"^no connection to {address} \(timed out\): start it, or"):
            exchange(address, timeout_s=0.2).ask("/")


def test_a_server_without_tls_is_no_https() -> None:
    with serving(lambda _: Reply()) as served, pytest.raises(ServerGoneError, match=r"^no connection to https://.*SSL"):
        exchange(served.address.replace("http:", "https:")).ask("/")
    assert not served.asked


SLOW: dict[str, Callable[[Asked], Answer]] = {
    "never answers": lambda _: None,
    "answers a letter at a time": lambda _: Reply(pieces(b"a")),
    "has a header without end": lambda _: pieces(b"a", b"HTTP/1.1 200 OK\r\nA: "),
    "answers in chunks of a letter": lambda _: Reply(pieces(b"1\r\na\r\n"), headers={"Transfer-Encoding": "chunked"}),
}


def pieces(piece: bytes, first: bytes = b"") -> Iterator[bytes]:
    """The piece, again and again, each after a while."""
    yield first
    pause = threading.Event()
    while not pause.wait(0.01):
        yield piece


@pytest.mark.parametrize("slow", SLOW)
def test_a_slow_server_costs_no_more_than_its_time(slow: str) -> None:
    waits = list[float]()
    error = failing(SLOW[slow], waits=waits, timeout_s=0.2, retries=3)
    assert type(error) is ServerBusyError
    assert str(error).endswith("took more than timeout_s = 0.2 seconds")
    assert waits == [], "painting again takes as long"


def test_a_server_that_does_not_read_costs_no_more_than_its_time() -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        asking = exchange(f"http://127.0.0.1:{line.getsockname()[1]}", timeout_s=0.2)
        with pytest.raises(ServerBusyError, match="took more than"):
            asking.ask("/", b"a" * (1 << 26), "text/plain")


def chunks(piece: bytes) -> Iterator[bytes]:
    yield from itertools.repeat(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"", headers={"Content-Length": str(10**12)}),
        Reply(itertools.repeat(b"a" * 4096)),
        Reply(chunks(b"a" * 4096), headers={"Transfer-Encoding": "chunked"}),
    ],
    ids=["says so", "has no length", "in chunks"],
)
def test_an_answer_without_end_is_refused(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    error = failing(lambda _: reply, retries=3)
    assert type(error) is PictureRefusedError
    assert str(error).endswith("answered with more than 1 MB")


def test_an_answer_of_the_most_bytes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    with serving(lambda _: Reply(b"a" * 100_000)) as served:
        assert exchange(served.address).ask("/").body == b"a" * 100_000


@pytest.mark.parametrize("status", [200, 400])
def test_a_packed_answer_is_not_unpacked(status: int) -> None:
    bomb = gzip.compress(b'{"error": "%s"}' % (b"0" * 10**7))
    with serving(lambda _: Reply(bomb, status, headers={"Content-Encoding": "gzip"})) as served:
        asking = exchange(served.address)
        told = rf"answered status {status} \(packed application/json\): nothing"
        with pytest.raises(PictureRefusedError, match=told):
            asking.read_json(asking.ask("/"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort",
        b"HTTP/1.1 200 OK\r\n" + b"A: a\r\n" * 200,
    ],
)
def test_what_breaks_off_is_tried_again(answer: bytes) -> None:
    waits = list[float]()
    error = failing(lambda _: answer, waits=waits, retries=1)
    assert type(error) is ServerBusyError
    assert "broke off: " in str(error)
    assert waits == [1.0]


def test_a_server_may_hang_up_before_it_has_read_all() -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()

        def refuse() -> None:
            talk, _ = line.accept()
            with talk:  # which resets what was not read
                talk.recv(100)
                talk.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ServerGoneError, match="status 401"):
            exchange(f"http://127.0.0.1:{line.getsockname()[1]}").ask("/", b"a" * (1 << 26), "text/plain")
        thread.join()


def test_a_server_paints_longer_than_a_connection_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_S", 0.1)
    with serving(lambda _: Reply(b"late") if not threading.Event().wait(0.3) else None) as served:
        assert exchange(served.address).ask("/").body == b"late"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><b>502</b>\x1b[31m Bad\x00Gate\xe2\x80\xaeway \r\n\xff</html>", "502 [31m Bad Gate way \ufffd"),
        (b'{"error": {"message": "502 Bad \\u001b\\u202eGateway\\n"}}', "502 Bad Gateway"),
        (b'{"detail": "502 Bad Gateway."}', "502 Bad Gateway"),
        (b'{"error": "", "message": "502 Bad Gateway"}', "502 Bad Gateway"),
        (b"", "nothing"),
        (b'{"detail": [{"msg": "Field required"}]}', '{"detail": [{"msg": "Field required"}]}'),
        (b"[" * 100_000, "[" * 160 + "..."),
        (b"a" * 1000, "a" * 160 + "..."),
    ],
)
def test_an_error_has_the_first_words(body: bytes, words: str) -> None:
    kind = "text/html" if body.startswith(b"<") else "application/json"
    assert str(failing(lambda _: Reply(body, 400, kind))).partition("): ")[2] == words


def test_no_error_shows_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PICTURES_KEY", SECRET)
    echoes: list[Callable[[Asked], Answer]] = [
        lambda _: json_reply({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, 401),
        lambda _: Reply(f"<p>{'.' * 150}{SECRET}</p>".encode(), 500, "text/html"),
        lambda _: f"HTTP/1.1 {SECRET}\r\n".encode(),
        lambda _: SECRET.encode(),
        lambda _: Reply(b"", 302, headers={"Location": f"http://h/{SECRET}"}),
        lambda _: Reply(SECRET.encode(), kind="application/json"),
    ]
    for echo in echoes:
        with serving(echo) as served:
            asking = exchange(served.address, key_env="PICTURES_KEY")
            with pytest.raises(CounterfactoryError) as failed:
                asking.read_json(asking.ask("/", b"", "text/plain"))
        shown = "".join(traceback.format_exception(failed.value))
        assert SECRET not in shown
        assert SECRET[:12] not in shown
        assert SECRET not in repr(asking)
        assert SECRET not in repr(asking.settings)


@pytest.mark.parametrize("value", [None, "", f"{SECRET}\n", f"{SECRET}ä"])
def test_a_secret_is_looked_for_at_once(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PICTURES_KEY", raising=False)
    told = "key_env names the variable PICTURES_KEY, which is not set: set it, or take key_env out"
    if value is not None:
        monkeypatch.setenv("PICTURES_KEY", value)
    if value:
        told = "the variable PICTURES_KEY holds a space, a line's end or a letter that no key has: set it anew"
    with pytest.raises(CounterfactoryError, match=f"^{told}$"):
        Exchange(replace(SETTINGS, key_env="PICTURES_KEY"))


@pytest.mark.parametrize("state", ["asking", "waiting"])
def test_closing_breaks_off_what_is_under_way(state: str) -> None:
    under_way = threading.Event()

    def answer(_: Asked) -> Reply | None:
        under_way.set()
        return None if state == "asking" else json_reply({}, 503, Retry_After="60")

    with serving(answer) as served, ThreadPoolExecutor(1) as pool:
        asking = Exchange(replace(SETTINGS, address=served.address, timeout_s=3600, retries=int(state == "waiting")))
        asked = pool.submit(asking.ask, "/")
        under_way.wait()
        asking.close()
        with pytest.raises(ServerGoneError, match=r"is asked for nothing any more$"):
            asked.result()
        with pytest.raises(ServerGoneError, match=r"is asked for nothing any more$"):
            asking.ask("/")
    assert len(served.asked) == 1


def test_a_form_is_read_as_it_was_written() -> None:
    picture, fields = bytes(range(256)) * 10 + b"\r\n--", {"prompt": 'Make the "ä"\nblue.', "n": "1"}
    body, kind = module.multipart(fields, "image.png", picture)
    asked = Asked("POST", "/", {"Content-Type": kind}, body)
    assert asked.text == fields
    assert asked.form["image"] == picture
