"""Files are whole or absent, whoever writes them and however; text that is shown does nothing to what shows it."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.escaping import for_spreadsheet, for_terminal
from counterfactory.engine.files.writing import make_folder, open_whole, write_whole


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("call", ["open", "replace", "fsync"])
@pytest.mark.parametrize(
    ("number", "advice"),
    [
        *((number, "free some space and run the same") for number in (errno.ENOSPC, errno.EDQUOT)),
        *(
            (number, "allow writing there or name another folder, and run the same")
            for number in (errno.EROFS, errno.EACCES)
        ),
        (errno.EIO, "mend that and run the same"),
    ],
)
def test_a_failing_disk_is_a_sentence_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, advice: str
) -> None:
    path = tmp_path / "run.json"
    write_whole(path, b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        said = f"cannot write {re.escape(str(path))}: .*; {advice} command again; nothing is lost"
        with pytest.raises(CounterfactoryError, match=said):
            write_whole(path, b"new")
    assert contents(tmp_path) == {"run.json": b"old"}
    write_whole(path, b"new")
    assert contents(tmp_path) == {"run.json": b"new"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path: Path, error: type[BaseException]) -> None:
    write_whole(tmp_path / "model.bin", "old")
    with pytest.raises(error), open_whole(tmp_path / "model.bin") as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert contents(tmp_path) == {"model.bin": b"old"}


def test_ctrl_c_while_renaming_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "run.json", b"new")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(("sync", "synced"), [("all", 2), ("bytes", 1), ("nothing", 0)])
def test_what_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Any, synced: int) -> None:
    """The file's bytes, then the folder that names it."""
    real, handles = os.fsync, list[str]()

    def counted(handle: int) -> None:
        link = Path(f"/proc/self/fd/{handle}")
        handles.append(str(link.readlink()) if link.exists() else "")
        real(handle)

    monkeypatch.setattr(os, "fsync", counted)
    write_whole(tmp_path / "a", "text: \u96e8", sync=sync)
    assert (tmp_path / "a").read_bytes() == "text: \u96e8".encode()
    assert len(handles) == synced
    if synced and handles[0]:
        assert re.fullmatch(r"a\.\d+\.tmp", Path(handles[0]).name)
        assert handles[1:] in ([], [str(tmp_path.resolve())])


def test_a_link_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "suite"
    secret.write_text("kept")
    folder.mkdir()
    (folder / f"run.json.{os.getpid()}.tmp").symlink_to(secret)
    (folder / "run.json").symlink_to(secret)
    write_whole(folder / "run.json", b"new")
    assert secret.read_text() == "kept"
    assert contents(folder) == {"run.json": b"new"}
    assert not (folder / "run.json").is_symlink()


def test_a_folder_where_a_file_is_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "images").write_text("")
    with pytest.raises(CounterfactoryError, match=r"cannot write .*images/a"):
        make_folder(tmp_path / "images" / "a")


@given(st.text(st.characters()))
def test_a_terminal_obeys_nothing_and_letters_stay(text: str) -> None:
    shown = for_terminal(text)
    kinds = {unicodedata.category(c) for c in shown if c not in "\n\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert shown.count("\n") == text.count("\n")
    letters = "".join(c for c in text if c.isalpha() and c != "\\")
    assert [c for c in shown if c in letters and ord(c) > 127] == [c for c in letters if ord(c) > 127]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bus \u0639\u0631\u0628\u064a \U0001f68c \u96e8\u4e2d", None),
        ("a\u200db\nc", None),
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("txt\u202eexe\u2066\x9b", "txt\\u202eexe\\u2066\\x9b"),
        ("a\rb\u2028c\ud800", "a\\rb\\u2028c\\ud800"),
    ],
)
def test_what_is_written_out(text: str, shown: str | None) -> None:
    assert for_terminal(text) == (text if shown is None else shown)


def test_formulas_are_text() -> None:
    for cell in ("=1+1", "+1", "-1", "@x", "\tx", "\r=1", "\n=1", "\uff1d1"):
        assert for_spreadsheet(cell) == f"'{cell}"
    for other in ("bus", "", " =1", "1-1", -1, 0.5, None):
        assert for_spreadsheet(other) == other
