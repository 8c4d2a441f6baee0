"""Suites, sets and tables by somebody who means harm, as code that makes them, and what the commands do with each.

`run_all()` builds every case beside a folder of the user's and runs the real command line on it, each command in a
process of its own. A command does harm if anything changes outside of the suite, if it ends otherwise than in a status
of its own (a crash, a signal, no end), if it takes more memory than a suite of that size needs, or if a terminal would
obey what it prints. By itself: `python tests/hostile_cases.py [NAME ...]`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from counterfactory.engine.suite.contents import write_record

# No command below takes half of either where nothing is wrong; a hang or a flood takes all there is.
SECONDS, MEGABYTES = 150, 900
_OWN_ENDS = (0, 1, 2, 3)
_NAMES = ("bus/0", "car/0")
_EVIL = "bus\x1b]0;owned\x07\x1b[2J\u202etxt.exe"


@dataclass(frozen=True)
class HostileCase:
    """`build` spoils a good suite and set in a folder; each of `commands` is run there, "suite", "set", "outside" and
    other words as they are. They end in one of `ends`, and `holds` is asked afterwards.
    """

    name: str
    build: Callable[[Path], object]
    commands: tuple[tuple[str, ...], ...]
    ends: tuple[int, ...] = _OWN_ENDS
    holds: Callable[[Path], bool] = lambda _: True
    megabytes: int = MEGABYTES


@dataclass(frozen=True)
class HostileRun:
    """What a command came to: `faults` are the harm that it did, empty for none."""

    case: str
    command: str
    faults: tuple[str, ...]


CHECK, REPORT = ("check", "suite"), ("report", "suite")
EVALUATE = ("evaluate", "suite", "--predictions", "answers.csv", "--all")
GENERATE = ("generate", "set", "--out", "suite", "--profile", "light", "--variants", "2")
EDITS = ("edits", "suite", "--write", "edits.csv")
VERIFY = ("verify", "suite")
ESTIMATE = ("estimate", "set", "--profile", "light")
SUITE = (CHECK, REPORT, EVALUATE, EDITS, VERIFY, GENERATE)
READ_ONLY = (REPORT, EVALUATE, EDITS, VERIFY)
CHANGED = ("check", "suite", "--set", "check.min_changed=0.01")


# A good suite


def make_good(here: Path) -> None:
    """A set of two pictures with masks, its suite, a model's answers, and a folder of the user's."""
    rng = np.random.default_rng(1)
    for name in _NAMES:
        for top, array in (
            ("images", rng.integers(60, 200, (64, 64, 3), dtype=np.uint8)),
            ("masks", np.pad(np.ones((20, 30), np.uint8), ((10, 34), (20, 14)))),
        ):
            path = here / "set" / top / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)
    (here / "outside" / "bus").mkdir(parents=True)
    Image.new("RGB", (64, 64), "red").save(here / "outside" / "secret.png")
    Image.new("RGB", (64, 64), "red").save(here / "outside" / "bus" / "0.png")
    (here / "outside" / "diary.txt").write_text("what the user keeps\n")
    (here / "outside" / "sub").mkdir()
    run_command(here, GENERATE)
    table = pq.read_table(here / "suite" / "metadata.parquet")
    lines = [f"{name},bus\n" for name in table.column("file_name").to_pylist()]
    (here / "answers.csv").write_text("image,prediction\n" + "".join(lines))


def _variant(here: Path, column: str = "file_name") -> Path:
    rows = pq.read_table(here / "suite" / "metadata.parquet").to_pylist()
    name = next(row[column] for row in rows if row["kind"] == "variant")
    return here / "suite" / name


def _in_place(path: Path, put: Callable[[Path], object]) -> None:
    """Puts something else in the place of a file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path)


def _link(name: str, to: str) -> Callable[[Path], object]:
    return lambda here: _in_place(here / name, lambda path: path.symlink_to(here / to))


def _pipe(name: str) -> Callable[[Path], object]:
    return lambda here: _in_place(here / name, os.mkfifo)


def _zero(name: str) -> Callable[[Path], object]:
    return lambda here: _in_place(here / name, lambda path: path.symlink_to("/dev/zero"))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
        bound.bind(path.name)


# Ledgers


def _by_journal(here: Path) -> Path:
    ledger = here / "suite" / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(ledger)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return ledger


def hot_journal(here: Path) -> None:
    """A rollback journal whose end names a super-journal, which SQLite deletes when it has played the journal back
    (sqlite.org/fileformat2.html, section 3, and pager.c, readSuperJournal).
    """
    ledger = _by_journal(here)
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(here / "outside" / "diary.txt").encode()
    header = (magic + struct.pack(">iIIII", 0, 0, ledger.stat().st_size // 4096, 512, 4096)).ljust(512, b"\0")
    end = (
        struct.pack(">I", 1 + (1 << 30) // 4096) + name + struct.pack(">II", len(name), sum(name) & 0xFFFFFFFF) + magic
    )
    Path(f"{ledger}-journal").write_bytes(header + end)


def _sql(*statements: str, schema: str = "") -> Callable[[Path], None]:
    """Runs statements in a suite's ledger; `schema` is then written over the table's own text."""

    def build(here: Path) -> None:
        with contextlib.closing(sqlite3.connect(here / "suite" / "ledger.sqlite", isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)
            if schema:
                database.execute("PRAGMA writable_schema = ON")
                database.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'results'", [schema])

    return build


def _rows_stay(here: Path) -> bool:
    with contextlib.closing(sqlite3.connect(here / "suite" / "ledger.sqlite")) as database:
        return bool(database.execute("SELECT count(*) FROM results WHERE stage = 'paint'").fetchone()[0])


_ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT 'a' stage, n key, 'b' value FROM x"
_TABLE = "CREATE TABLE results (stage TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (stage, key))"
LEDGERS = {
    "view": _sql("ALTER TABLE results RENAME TO old", f"CREATE VIEW results AS {_ENDLESS}"),
    "view beside": _sql(f"CREATE VIEW more AS {_ENDLESS}"),
    "trigger deletes": _sql("CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results; END"),
    "trigger grows": _sql(
        "CREATE TABLE heap (x)",
        "CREATE TRIGGER t AFTER INSERT ON results BEGIN INSERT INTO heap VALUES (zeroblob(500000000)); END",
    ),
    "index": _sql("CREATE INDEX i ON results (length(key)) WHERE hex(zeroblob(100)) > ''"),
    "check": _sql(schema=f"{_TABLE[:-1]}, CHECK (length(hex(zeroblob(400000000))) > 0)) WITHOUT ROWID"),
    "generated": _sql("ALTER TABLE results ADD COLUMN more AS (hex(zeroblob(400000000)))"),
    "module": _sql("CREATE VIRTUAL TABLE more USING fts5(x)"),
    "no table": _sql("DROP TABLE results"),
}


def _as(what: Callable[[Path], object], *names: str) -> Callable[[Path], object]:
    """Puts the same in the place of several of a suite's files."""

    def build(here: Path) -> None:
        for name in names:
            _in_place(here / "suite" / name, what)

    return build


# Tables, records, sets


def seal(here: Path) -> None:
    """Makes a suite's record go with its table again, as anybody can who changes one of them."""
    file = here / "suite" / "run.json"
    if file.exists():
        record = json.loads(file.read_text())
        contents = record["standing"]["contents"]
        contents["table"] = hashlib.sha256((here / "suite" / "metadata.parquet").read_bytes()).hexdigest()
        contents["digest"] = hashlib.sha256(f"{contents['files']}\n{contents['table']}\n".encode()).hexdigest()
        write_record(here / "suite", {name: value for name, value in record.items() if name != "sha256"})


def rewrite_table(here: Path, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """The table of the suite with rows changed, as a stranger writes one."""
    path = here / "suite" / "metadata.parquet"
    table = pq.read_table(path)
    rows = [{**row, **change(row)} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    seal(here)


def _record(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def build(here: Path) -> None:
        path = here / "suite" / "run.json"
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))
        seal(here)

    return build


def _elsewhere(here: Path) -> None:
    """A record with a profile whose networks lie in the suite itself, and would be opened for its edges."""
    (here / "suite" / "networks").mkdir()
    code = (
        "from dataclasses import replace; from counterfactory.engine.files.fill import plain;"
        "from counterfactory.engine.profile.profile import load_profile; import json, sys;"
        "profile = load_profile('cpu'); folder = replace(profile.models, folder=sys.argv[1]);"
        "print(json.dumps(plain(replace(profile, models=folder, edges=replace(profile.edges, hed=1)))))"
    )
    networks = str(here / "suite" / "networks")
    said = subprocess.run([sys.executable, "-c", code, networks], capture_output=True, text=True, check=False)
    profile = json.loads(said.stdout) if said.returncode == 0 else {"name": "x", "models": {"folder": networks}}
    _record(lambda record: [session.update(profile=profile) for session in record["sessions"]])(here)


def equal_rows(here: Path, count: int = 300_000) -> None:
    table = pq.read_table(here / "suite" / "metadata.parquet")
    rows = table.slice(table.num_rows - 1)
    pq.write_table(rows.take(pa.array(np.zeros(count, np.int32))), here / "suite" / "metadata.parquet")
    seal(here)


def long_values(here: Path) -> None:
    """2,000 rows whose captions are one text of 4 MB."""
    path = here / "suite" / "metadata.parquet"
    table = pq.read_table(path)
    rows = table.take(pa.array([table.num_rows - 1] * 2000))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["a" * 4_000_000]))
    at = rows.schema.get_field_index("caption")
    pq.write_table(rows.set_column(at, "caption", texts), path, compression="zstd", dictionary_pagesize_limit=1 << 30)
    seal(here)


def _equal_answers(here: Path) -> None:
    names, labels = pa.array(["images/a.png"] * 1), pa.array(["bus"])
    many = pa.array(np.zeros(3_000_000, np.int32))
    pq.write_table(pa.table({"image": names.take(many), "prediction": labels.take(many)}), here / "many.parquet")


def _injection(row: dict[str, Any]) -> dict[str, Any]:
    variant = row["kind"] == "variant"
    return {"label": _EVIL, "verdict": "rejected" if variant else row["verdict"], "reason": _EVIL if variant else None}


def _formula(here: Path) -> None:
    rewrite_table(
        here, lambda _: {"label": "=cmd|' /c calc'!A1", "source": "@x", "edited_caption": "+1", "caption": "-1"}
    )


def _no_formula(here: Path) -> bool:
    cells = [
        cell.strip('"')
        for name in ("failures.csv", "edits.csv")
        for line in ((here / name).read_text().splitlines() if (here / name).exists() else ())
        for cell in line.split(",")
    ]
    return not [cell for cell in cells if cell[:1] in ("=", "@", "+") or (cell[:1] == "-" and not cell[1:2].isdigit())]


def _large(mode: str, side: int) -> Callable[[Path], object]:
    def build(here: Path) -> None:
        for name in _NAMES:
            Image.new(mode, (side, side)).save(here / "set" / "images" / f"{name}.png")
            Image.new("L", (side, side)).save(here / "set" / "masks" / f"{name}.png")

    return build


def _large_in_suite(here: Path) -> None:
    for path in (here / "suite").rglob("*.png"):
        Image.new("1", (13_000, 13_000)).save(path)


def _yaml(text: str) -> Callable[[Path], None]:
    def build(here: Path) -> None:
        folder = here / "set"
        (folder / "labels" / "bus").mkdir(parents=True)
        (folder / "labels" / "bus" / "0.txt").write_text("0 0.5 0.5 0.2 0.2\n")
        (folder / "data.yaml").write_text(text)

    return build


_ALIASES = "\n".join(["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"] + [
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)
])  # fmt: skip
_MERGES = "\n".join(["a0: &a0 {x: 1}"] + [
    f"a{i}: &a{i}\n  <<: [{','.join([f'*a{i - 1}'] * 10)}]\n  y{i}: 1" for i in range(1, 10)
])  # fmt: skip


def _outline(here: Path) -> None:
    points = np.random.default_rng(0).uniform(0, 64, 400_000).round(1).tolist()
    shutil.rmtree(here / "set" / "masks")
    images = [{"id": i, "file_name": f"images/{name}.png", "width": 64, "height": 64} for i, name in enumerate(_NAMES)]
    thing = {"id": 1, "image_id": 0, "category_id": 1, "iscrowd": 0, "bbox": [0, 0, 64, 64], "segmentation": [points]}
    content = {"images": images, "annotations": [thing], "categories": [{"id": 1, "name": "bus"}]}
    (here / "set" / "instances.json").write_text(json.dumps(content))


def _many_shapes(here: Path) -> None:
    _outline(here)
    content = json.loads((here / "set" / "instances.json").read_text())
    thing = {**content["annotations"][0], "segmentation": [[0, 0, 60, 0, 60, 60]]}
    content["annotations"] = [{**thing, "id": i} for i in range(1, 4001)]
    (here / "set" / "instances.json").write_text(json.dumps(content))
    for name in _NAMES:
        Image.new("L", (1000, 1000), 90).save(here / "set" / "images" / f"{name}.png")


def _cases() -> Iterator[HostileCase]:
    yield HostileCase("good", lambda _: None, (*SUITE, CHANGED, ESTIMATE), (0, 1))
    # Journals, logs and links beside a ledger
    ledger = (CHECK, CHANGED, VERIFY, GENERATE)
    yield HostileCase("hot journal", hot_journal, ledger)
    for end in ("-journal", "-wal", "-shm", ""):
        for to in ("outside/diary.txt", "outside/new"):
            yield HostileCase(f"ledger{end} links to {to}", _link(f"suite/ledger.sqlite{end}", to), (CHANGED, GENERATE))
        yield HostileCase(f"ledger{end} is a pipe", _pipe(f"suite/ledger.sqlite{end}"), (CHANGED, GENERATE))
    yield HostileCase("ledger is a socket", _as(_socket, "ledger.sqlite"), (CHANGED,))
    for name, build in LEDGERS.items():
        holds = (lambda _: True) if name in ("view", "no table") else _rows_stay
        yield HostileCase(f"ledger with {name}", build, ledger, holds=holds)
    for what, put in (("a pipe", os.mkfifo), ("endless", lambda path: path.symlink_to("/dev/zero"))):
        for name in ("suite.lock", "run.json", "metadata.parquet", "by_hand.json"):
            yield HostileCase(f"{name} is {what}", _as(put, name), (CHECK, CHANGED, *READ_ONLY, GENERATE))
        pictures = (
            ("picture", "file_name"), ("original", "original_file_name"), ("mask", "mask_file_name"),
        )  # fmt: skip
        for kind, column in pictures:
            yield HostileCase(
                f"a {kind} is {what}",
                lambda here, column=column, put=put: _in_place(_variant(here, column), put),  # type: ignore[misc]
                (REPORT, ("report", "suite", "--single-file", "page.html"), GENERATE),
            )
    yield HostileCase("lock links out", _link("suite/suite.lock", "outside/diary.txt"), (CHANGED, GENERATE))
    # Links at any depth of what is written
    for at, to in (
        *(("", "."), ("", "sub"), ("index.html", "diary.txt"), ("report.json", "diary.txt")),
        *(("contact_sheet.png", "secret.png"), ("masks", "."), ("masks/bus", "sub"), ("masks/bus/0.png", "secret.png")),
        *(("masks/bus", "bus"), ("edges", "."), ("edges/bus", "bus"), ("edges/bus/0.png", "secret.png")),
        *(("thumbnails", "sub"), ("thumbnails/images", "sub"), ("album", "sub")),
    ):
        name = f"suite/report/{at}".rstrip("/")
        yield HostileCase(
            f"{name} links to {to}",
            _link(name, f"outside/{to}"),
            (
                *(REPORT, ("report", "suite", "--out", "{here}/suite/report")),
                *(("report", "suite", "--out", "suite/images/../report"), ("report", "suite/../suite")),
                ("report", "suite", "--no-edges", "--single-file", "suite/report/x/page.html", "--markdown", "x.md"),
                (*EVALUATE, "--failures", "suite/report/masks/bus/new.csv", "--order", "suite/report/new.csv"),
            ),
        )
    for top in ("images", "masks", "originals", "images/bus", "superseded", "answers"):
        yield HostileCase(f"{top} links out", _link(f"suite/{top}", "outside"), (*SUITE, CHANGED))
    # Pipes and devices in the place of files that the user names
    options = {
        "--labels": ("estimate", "set", "--profile", "light"),
        "--class-map": ("estimate", "set", "--profile", "light"),
        "--task-file": ("plan", "set", "--profile", "light"),
        "--interventions": ("plan", "set", "--profile", "light"),
        "--types": ("plan", "set", "--profile", "light"),
        "--profile": ("estimate", "set"),
        "--metrics": GENERATE,
        "--predictions": ("evaluate", "suite"),
        "--classes": EVALUATE,
        "--verdicts": CHECK,
        "--valid": REPORT,
    }
    toml = ("--class-map", "--profile", "--task-file", "--types")
    for option, command in options.items():
        name = "given.toml" if option in toml else "given.csv"
        for what, make in (("a pipe", _pipe(name)), ("endless", _zero(name))):
            yield HostileCase(f"{option} is {what}", make, ((*command, option, name),), (2,))
    # Small files that would take the memory, or never end
    classes = _record(lambda r: [s["data"].update(classes={"999999999999": "x"}) for s in r["sessions"]])
    yield HostileCase("a class of twelve digits", classes, (REPORT, EVALUATE))
    yield HostileCase("equal rows", equal_rows, (CHECK, *READ_ONLY), (2, 3))
    yield HostileCase("long equal values", long_values, (CHECK, *READ_ONLY), (2, 3))
    yield HostileCase("equal answers", _equal_answers, (("evaluate", "suite", "--predictions", "many.parquet"),), (2,))
    yield HostileCase("pictures of 169 megapixels in a suite", _large_in_suite, (REPORT, GENERATE))
    for mode in ("RGBA", "LA", "L"):
        yield HostileCase(f"sources of 79 megapixels, {mode}", _large(mode, 8900), (ESTIMATE,))
    yield HostileCase("sources of 169 megapixels", _large("1", 13_000), (ESTIMATE,))
    for name, text in (("aliases", _ALIASES), ("merges", _MERGES)):
        for names in ("[*a9]", "*a9"):
            yield HostileCase(f"YAML {name} {names}", _yaml(f"{text}\nnames: {names}\n"), (ESTIMATE,), (2,))
    yield HostileCase("an outline of 200,000 points", _outline, (ESTIMATE,))
    yield HostileCase("4,000 outlines over each other", _many_shapes, (ESTIMATE,))
    for number in ("1" + "0" * 30, "9" * 5000):
        shown = f"of {len(number)} digits"
        yield HostileCase(
            f"counts {shown}",
            lambda _: None,
            (
                *(("estimate", "--sources", number, "--profile", "light"), (*ESTIMATE, "--variants", number)),
                *((*ESTIMATE, "--seed", number), ("plan", "set", "--profile", "light", "--edits", f"1..{number}")),
            ),
            (2,),
        )
    yield HostileCase(
        "a long reason",
        lambda here: rewrite_table(
            here, lambda row: {"verdict": "rejected", "reason": "a" * 200_000} if row["kind"] == "variant" else {}
        ),
        (CHECK, REPORT),
    )
    long = {"label": "b" * 100_000, "caption": "a " * 50_000, "edited_caption": "e" * 100_000, "source": "s" * 100_000}
    yield HostileCase("long words", lambda here: rewrite_table(here, lambda _: long), (CHECK, REPORT, EVALUATE, EDITS))
    # Words that a terminal, a spreadsheet or a page would obey; networks of a stranger
    yield HostileCase(
        "escape sequences",
        lambda here: rewrite_table(here, _injection),
        (CHECK, *READ_ONLY, (*EVALUATE, "--failures", "f.csv")),
    )
    yield HostileCase("formulas", _formula, (EDITS, (*EVALUATE, "--failures", "failures.csv")), holds=_no_formula)
    yield HostileCase("networks of its own", _elsewhere, (REPORT, EVALUATE))


CASES = tuple(_cases())


# Running


def _state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything outside of the suite: kind, time of change and bytes."""
    state = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        state[str(path.relative_to(folder))] = (about.st_mode, about.st_mtime_ns, data)
    return state


# The kernel counts the memory of who starts a process as the process's own: a small one is between it and the tests.
_MEASURED = """
import os, sys
_, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
open(sys.argv[1], "w").write(f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}")
"""


def run_command(here: Path, command: Sequence[str]) -> tuple[int | None, float, str]:
    """The status (None where it had to be ended), peak memory in MB, and what was printed."""
    words = [word.replace("{here}", str(here)) for word in command]
    said, told = here / "said.txt", here / "told.txt"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(here / "cache")}
    with said.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", _MEASURED, str(told), sys.executable, "-m", "counterfactory.engine", *words],
            cwd=here, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return None, 0.0, said.read_text(errors="replace")
    status, kilobytes = map(int, told.read_text().split())
    return status, kilobytes / 1024, said.read_text(errors="replace")


def run_case(case: HostileCase, good: Path) -> Iterator[HostileRun]:
    """What each command of a case does, each on a fresh copy of a good suite."""
    for command in case.commands:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            shutil.copytree(good, here, symlinks=True, dirs_exist_ok=True)
            case.build(here)
            before = _state(here / "outside")
            status, megabytes, said = run_command(here, command)
            faults = []
            if status not in case.ends:
                faults.append(f"ended in {status}: {said[-600:]}")
            if _state(here / "outside") != before:
                faults.append("changed what is outside")
            if megabytes > case.megabytes:
                faults.append(f"took {megabytes:.0f} MB")
            obeyed = {c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n"}
            if obeyed:
                faults.append(f"printed {sorted(obeyed)!a}")
            if status is not None and not case.holds(here):
                faults.append("what must hold does not")
            yield HostileRun(case.name, " ".join(command)[:90], tuple(faults))


def run_all(names: Sequence[str] = (), told: Callable[[HostileRun], object] = lambda _: None) -> tuple[int, int]:
    """How many commands were tried on hostile input, and how many did harm; `told` is called with each."""
    tried = harm = 0
    with tempfile.TemporaryDirectory() as folder:
        make_good(Path(folder))
        for case in CASES:
            if case.name == "good" or (names and case.name not in names):
                continue
            for run in run_case(case, Path(folder)):
                tried, harm = tried + 1, harm + bool(run.faults)
                told(run)
    return tried, harm


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    began = time.monotonic()

    def show(run: HostileRun) -> None:
        sys.stdout.write(" | ".join((*(run.faults or ("ok",)), run.case, run.command)) + "\n")
        sys.stdout.flush()

    tried, harm = run_all(sys.argv[1:], show)
    sys.stdout.write(f"{tried} tried, {harm} harm, {time.monotonic() - began:.0f} s\n")
