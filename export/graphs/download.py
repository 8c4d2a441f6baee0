"""One file of the hub, fetched with its progress told, and gone on with where it was cut.

The hub's own client deletes what it has of a file when a connection breaks for good (huggingface_hub 2.4.0:
`_download_to_tmp_and_move`). So the file is fetched here by that client's `http_get`, which continues a part, into one
that is named by the content that it is to become, and is kept whatever happens. What the client would do first, look
for the file's size and content, is asked once: a hub that does not answer is waited for by whoever says the command
again, not for minutes at each file. One that asks for patience (429) and says for how long is waited for here, in
bounds and aloud: of its own the client waits five times, however long, or at other requests not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import explain_os_errors, make_folder
from counterfactory.engine.keys import file_digest

_SHA256 = 64  # hex digits
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
_TOLD_BYTES = 10_000_000  # of smaller files the beginning alone is told
_PATIENCE_S = 900  # for one file in all: the hub counts requests in windows of 300 s


@dataclass(frozen=True)
class HubFile:
    """A file of a repository at a commit."""

    repository: str
    revision: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.repository} at {self.revision[:12]}"


class UnreachableError(CounterfactoryError):
    """The hub does not answer, or nobody is to be asked."""


class _BusyError(CounterfactoryError):
    """The hub asks for patience: `wait_s`, None where it does not say for how long."""

    def __init__(self, wait_s: int | None) -> None:
        super().__init__("429")
        self.wait_s = wait_s


def download(file: HubFile, folder: Path | None = None, say: Callable[[str], None] | None = None) -> Path:
    """The file in `folder`, laid out like the hub, or in the hub's cache.

    Raises FileNotFoundError where the repository has none of that name, UnreachableError where the hub does not answer,
    and CounterfactoryError with what to do for all else that stands in the way.
    """
    say, patience_s = say or _print, _PATIENCE_S
    while True:
        try:
            with _busy_answers():
                return _downloaded(file, folder, say)
        except _BusyError as busy:
            if busy.wait_s is None or busy.wait_s > patience_s:
                wait = "some time" if busy.wait_s is None else f"{busy.wait_s} s"
                asks = f"{file} could not be fetched: the hub asks to wait {wait} (429)"
                raise CounterfactoryError(f"{asks}; {_AGAIN.format(' then')}, or log in: hf auth login") from None
            say(f"{file.name} of {file.repository}: the hub asks to wait {busy.wait_s} s (429)")
            patience_s -= busy.wait_s
            time.sleep(busy.wait_s)


@contextmanager
def _busy_answers() -> Iterator[None]:
    """Let the hub's client raise _BusyError when it is asked for patience."""
    from huggingface_hub import get_session

    def look(response: Any) -> None:
        if response.status_code == 429:
            raise _BusyError(_wait_s(response.headers))

    client = get_session()
    hooks = client.event_hooks
    client.event_hooks = {**hooks, "response": [*hooks["response"], look]}
    try:
        yield
    finally:
        client.event_hooks = hooks


def _wait_s(headers: Any) -> int | None:
    """Whole seconds to wait, one at least, by the hub's RateLimit or by Retry-After, a number or a date (RFC 9110)."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit, said = parse_ratelimit_headers(headers), headers.get("Retry-After", "").strip()
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds + 1
    if said.isdecimal():
        return int(said) + 1
    try:
        return max(round(parsedate_to_datetime(said).timestamp() - time.time()), 0) + 1
    except (ValueError, OverflowError):
        return None


def _downloaded(file: HubFile, folder: Path | None, say: Callable[[str], None]) -> Path:
    from huggingface_hub import constants, hf_hub_download, hf_hub_url
    from huggingface_hub.file_download import get_hf_file_metadata, http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(file.repository, file.name, revision=file.revision)
    try:
        found = get_hf_file_metadata(url)
        if found.etag is None or found.size is None or found.commit_hash is None:
            raise UnreachableError(
                f"{constants.ENDPOINT} does not answer as the hub does: look at HF_ENDPOINT and HTTPS_PROXY"
            )
        cache = Path(constants.HF_HUB_CACHE) / f"models--{file.repository.replace('/', '--')}" / "blobs" / found.etag
        target = cache if folder is None else folder / file.repository / file.name
        part = target.with_name(f"{found.etag}.part")
        make_folder(target.parent)
        with _opened(part, file) as opened:
            if not target.is_file():  # by another command's work, or under another name
                told = _Told(opened, part, file, found.size, say)
                told.begin()
                got: Any = told
                http_get(url, got, resume_size=told.tell(), headers=build_hf_headers(), expected_size=found.size)
                _settle(opened, part, target, found.etag, file)
        part.unlink(missing_ok=True)
        return target if folder else Path(hf_hub_download(file.repository, file.name, revision=file.revision))
    except CounterfactoryError:
        raise
    except Exception as error:  # the client has an exception for each way to fail, and passes others through
        _explain(error, file)


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a process of its own says


@contextmanager
def _opened(part: Path, file: HubFile) -> Iterator[BinaryIO]:
    """The part, for this command alone."""
    with explain_os_errors(part):
        opened = part.open("ab+")
    with opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            busy = f"another command fetches {file}: say this again when that one has ended"
            raise CounterfactoryError(busy) from error
        except OSError:  # a file system without locks
            pass
        yield opened


def _settle(opened: BinaryIO, part: Path, target: Path, etag: str, file: HubFile) -> None:
    """Let a whole part be the file. Large content is named by its SHA-256: what was put together has to be that."""
    with explain_os_errors(part):
        opened.flush()
        os.fsync(opened.fileno())
    if len(etag) == _SHA256 and file_digest(part) != etag:
        part.unlink()
        broken = f"{file} did not arrive as it was published, and was deleted"
        raise CounterfactoryError(f"{broken}: say the same command again")
    with explain_os_errors(target):
        part.replace(target)


@dataclass
class _Told:
    """The part of a file that there is, as `http_get` writes it; tells of each percent."""

    opened: BinaryIO
    path: Path
    file: HubFile
    total: int
    say: Callable[[str], None]
    percent: int = 0
    began: float = field(default_factory=time.monotonic)
    before: int = 0

    def begin(self) -> None:
        """Look at what there is, and at the room for the rest. Raises CounterfactoryError where there is none."""
        if self.opened.seek(0, os.SEEK_END) > self.total:
            self.truncate(0)
            self.seek(0)
        self.before = self.opened.tell()
        free, left = shutil.disk_usage(self.path.parent).free, self.total - self.before
        if free < left:
            _no_room(self.file, self.path.parent, left, free)
        self.percent = 100 * self.before // max(self.total, 1)
        start = f", from {_size(self.before)} on" if self.before else ""
        self.say(f"{self.file.name} of {self.file.repository}: {_size(self.total)} to fetch{start}")

    def write(self, data: bytes) -> int:
        try:
            written = self._write(data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                _no_room(self.file, self.path.parent, self.total - self.tell(), 0)
            raise CounterfactoryError(
                f"{self.path} cannot be written: {error.strerror}; mend that and say this again"
            ) from error
        if (now := 100 * self.tell() // self.total) > self.percent and self.total >= _TOLD_BYTES:
            self.percent = now
            self._tell(now)
        return written

    def _write(self, data: bytes) -> int:
        return self.opened.write(data)

    def _tell(self, percent: int) -> None:
        done = self.tell()
        left_s = (self.total - done) * (time.monotonic() - self.began) / max(done - self.before, 1)
        left = f", {timedelta(seconds=round(left_s))} left" if percent < 100 else ""
        self.say(f"{self.file.name}: {done / 1e9:.2f} of {self.total / 1e9:.2f} GB, {percent} %{left}")

    def tell(self) -> int:
        return self.opened.tell()

    def seek(self, place: int) -> int:
        return self.opened.seek(place)

    def truncate(self, size: int | None = None) -> int:
        """Only ever to begin anew: a server that cannot continue sends the whole."""
        self.before = self.percent = 0
        return self.opened.truncate(size)


def _size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= _TOLD_BYTES else f"{count / 1e6:.2f} MB"


def _no_room(file: HubFile, folder: Path, left: int, free: int) -> NoReturn:
    raise CounterfactoryError(
        f"{file} needs {_size(left)} more in {folder}, whose disk has {_size(free)} free: make room "
        "and say the same command again, which goes on from what there is, or name a folder on another disk "
        "(--weights, or HF_HUB_CACHE)"
    )


_AGAIN = "say the same command again{}, which goes on from what there is"
_STATUSES = {
    401: "the hub does not take your token; say: hf auth login, or set HF_TOKEN anew",
    403: "your token may not read it; allow it gated repositories at https://huggingface.co/settings/tokens",
    407: "the proxy{proxy} refuses (407); look at HTTPS_PROXY and NO_PROXY",
}


def _explain(error: Exception, file: HubFile) -> NoReturn:
    """Raise what the hub's client raised as a sentence; by the names of its classes, which move between libraries."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "EntryNotFoundError" in kinds:
        raise FileNotFoundError(str(file)) from error
    if "GatedRepoError" in kinds:
        raise denied(file.repository) from error
    away = kinds & {"TransportError", "OfflineModeIsEnabled", "ConnectionError", "TimeoutError"}
    kind = UnreachableError if away and "ProxyError" not in kinds else CounterfactoryError
    raise kind(f"{file} could not be fetched: {_reason(error, kinds, file)}") from error


def _reason(error: Exception, kinds: set[str], file: HubFile) -> str:
    from huggingface_hub import constants

    response, page = getattr(error, "response", None), f"https://huggingface.co/{file.repository}"
    proxy = next((f" {os.environ[name]}" for name in _PROXIES if os.environ.get(name)), "")
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "RevisionNotFoundError" in kinds:
        return f"there is no such commit; name one of {page}/commits, ID@COMMIT, in [weights] of a profile of yours"
    if "RepositoryNotFoundError" in kinds:
        return f"the hub has no {file.repository}, or shows it to others alone; look at {page}, or say: hf auth login"
    if "ProxyError" in kinds or response is not None:
        status = 407 if response is None else response.status_code
        usual = f"the hub is out of order ({status}); {_AGAIN.format(' later')}"
        return _STATUSES.get(status, usual).format(proxy=proxy)
    if "OfflineModeIsEnabled" in kinds:
        return "HF_HUB_OFFLINE is set, and the cache has no such file; unset it, or fill the cache"
    if kinds & {"TransportError", "ConnectionError", "TimeoutError"}:
        way = f"{constants.ENDPOINT} cannot be reached{proxy and f' by the proxy{proxy}'} ({said})"
        return f"{way}; {_AGAIN.format(' where there is a network')}, or name the local folder of what you have"
    return f"{type(error).__name__}: {said}; {_AGAIN.format('')}"


def denied(repository: str) -> CounterfactoryError:
    """What is said to whom the hub does not give a repository."""
    return CounterfactoryError(
        f"the hub does not give {repository} to you: accept its terms at https://huggingface.co/{repository}, log in "
        "with 'hf auth login' (or set HF_TOKEN), and say this again; or name the local folder of what you have"
    )
