"""The house's own rules: which way imports point, what the engine may load, and that packaging lists every package."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What only a GPU runs: kernels, and the language model's adapters. Nothing on the CPU's path imports them.
FOR_GPUS = {*(ROOT / "kernels" / "gpu").glob("*.py"), *(ROOT / "engine" / "language").glob("exllama*.py")}
MAY_IMPORT = {
    "kernels": {"kernels"},
    "engine": {"kernels", "engine"},
    "export": {"kernels", "engine", "export"},
}
# Rooms, low to high, each with those that it imports. A file that lies loose is a room of its own.
ARROWS: dict[str, dict[str, set[str]]] = {
    "engine": {
        "errors": set(),
        "edit": set(),
        "files": {"errors"},
        "keys": {"files"},
        "packages": {"errors"},
        "content_keys": {"keys"},
        "schedule": {"errors"},
        "profile": {"errors", "edit", "keys", "packages", "files"},
        "runtime": {"errors", "keys", "packages", "files", "profile"},
        "language": {"errors", "files", "keys", "profile", "runtime"},
        "meter": {"errors", "packages", "files", "profile", "runtime"},
        "sources": {"errors", "edit", "keys", "content_keys", "files", "schedule", "profile", "runtime"},
        "variant": {"edit", "sources"},
        "english": {"edit", "keys", "files", "language"},
        "server": {"errors", "edit", "keys", "files", "profile", "language", "sources", "english"},
        "light": {"edit"},
        "models": {"errors", "files", "keys", "content_keys", "schedule", "profile", "runtime", "language", "meter"},
        "suite": {"errors", "edit", "content_keys", "files", "profile", "meter", "sources", "variant"},
        "asking": {"errors", "keys", "files", "runtime", "meter", "suite"},
        "training": {"errors", "keys", "files", "profile", "suite"},
        "tasks": {"errors", "edit", "keys", "files", "profile", "language", "english"},
        "request": {"errors", "edit", "language", "tasks"},
        "pocket": {"errors", "packages", "files", "runtime", "tasks"},
        "stages": {
            *("errors", "edit", "keys", "content_keys", "files", "schedule", "profile", "runtime", "language"),
            *("meter", "sources", "variant", "english", "light", "server", "models", "suite", "tasks"),
            *("request",),
        },
        "inputs": {"errors", "files", "profile", "sources", "stages"},
        "estimate": {
            *("errors", "keys", "content_keys", "files", "schedule", "profile", "runtime", "meter"),
            *("sources", "models", "suite"),
        },
        "judging": {
            *("errors", "edit", "keys", "packages", "files", "profile", "sources", "variant", "english", "suite"),
            "stages",
        },
        "review": {"errors", "files", "profile", "judging", "suite"},
        "report": {
            *("errors", "edit", "light", "files", "schedule", "profile", "meter", "models", "suite", "tasks", "stages"),
            "judging",
        },
        "journey": {
            *(
                "content_keys",
                "errors",
                "files",
                "schedule",
                "profile",
                "meter",
                "sources",
                "variant",
                "models",
                "suite",
            ),
            *("request", "stages", "inputs", "estimate"),
        },
        "cluster": {
            *("errors", "packages", "content_keys", "files", "schedule", "profile", "meter", "sources", "models"),
            *("suite", "request", "stages", "journey"),
        },
        "api": {
            *("errors", "packages", "files", "profile", "runtime", "meter", "sources", "variant", "models", "suite"),
            *("tasks", "request", "stages", "asking", "pocket", "light", "inputs", "estimate", "judging", "report"),
            *("review", "training", "journey", "cluster"),
        },
        "face": {"errors", "packages", "estimate", "api"},
        "cli": {
            *("errors", "packages", "files", "schedule", "profile", "runtime", "meter", "sources"),
            *("variant", "models", "suite"),
            *("tasks", "request", "pocket", "inputs", "estimate", "judging", "report", "journey", "cluster"),
            *("api", "review", "training"),
        },
        "__main__": {"cli"},
    },
    "export": {
        "graphs": set(),
        "precision": {"graphs"},
        "plans": {"precision"},
        "language": {"graphs"},
        "pocket": {"graphs", "language"},
        "production": {"graphs", "precision", "plans"},
        "calibration": {"graphs"},
        "cpu": {"calibration", "graphs", "language", "production"},
        "retraining": set(),
        "__main__": {"language", "pocket", "production", "cpu", "retraining"},
    },
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Full names of all that a module imports, relative imports resolved."""
    here = ("counterfactory", *path.relative_to(ROOT).with_suffix("").parts)
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    assert modules(package), f"{package} has no modules: this test would prove nothing"
    for path in modules(package):
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("counterfactory.")}
        assert ours <= MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {ours - MAY_IMPORT[package]}"


@pytest.mark.parametrize("package", ARROWS)
def test_rooms_import_what_the_table_allows(package: str) -> None:
    table, found = ARROWS[package], dict[str, set[str]]()
    for path in modules(package):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        prefix = f"counterfactory.{package}."
        names = {name.split(".")[2] for name in imported(path) if name.startswith(prefix)}
        if room != "__init__":
            found.setdefault(room, set()).update(names - {room})
    assert found == table, "the table and the imports differ: mend the import, or argue for the arrow"
    order = {room: place for place, room in enumerate(table)}
    assert [(room, low) for room in table for low in table[room] if order[low] > order[room]] == [], "an arrow up"


def test_a_stage_takes_the_run_and_its_data() -> None:
    long = []
    for path in sorted((ROOT / "engine" / "stages").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len([name for name in arguments if name not in ("self", "cls")]) > 4:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert long == []


@pytest.mark.parametrize("package", ["kernels", "engine", "export"])
def test_no_files_import_in_a_circle(package: str) -> None:
    names = {
        f"counterfactory.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}": path for path in modules(package)
    }
    waiting = {name: imported(path) & names.keys() - {name} for name, path in names.items()}
    assert any(waiting.values()), "nothing imports anything: this test would prove nothing"
    while free := [name for name, lows in waiting.items() if not lows & waiting.keys()]:
        for name in free:
            del waiting[name]
    assert not waiting, f"these import in a circle: {sorted(waiting)}"


@pytest.mark.parametrize("package", ["kernels", "engine"])
def test_nothing_imports_the_training_libraries(package: str) -> None:
    for path in modules(package):
        if path in FOR_GPUS:
            continue
        heavy = {name.split(".")[0] for name in imported(path)} & {"torch", "diffusers", "transformers", "onnx", "gguf"}
        assert not heavy, f"{path.relative_to(ROOT)} imports {heavy}"


def test_nothing_but_a_server_s_client_and_the_review_page_speaks_to_the_network() -> None:
    speaking = {"socket", "ssl", "http", "http.client", "urllib.request", "urllib3", "requests", "httpx", "asyncio"} | {
        "werkzeug.serving"
    }
    paths = [path for package in ("kernels", "engine") for path in modules(package) if imported(path) & speaking]
    assert [path.relative_to(ROOT).as_posix() for path in paths] == [
        "engine/review/serving.py",
        "engine/server/exchange.py",
        "engine/suite/watchdog.py",  # a socket of this machine's systemd
    ]


# Calls that read, write, move or remove files, or open what does; those that only look are not among them.
TOUCHING = {
    *("open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "touch"),
    *("mkdir", "makedirs", "rename", "renames", "unlink", "rmdir", "removedirs", "symlink_to", "symlink"),
    *("hardlink_to", "link_to", "chmod", "imread", "imwrite", "fromfile", "tofile", "memmap", "loadtxt", "genfromtxt"),
    *("connect", "ParquetFile", "read_parquet", "read_csv", "write_to_textfile", "rmtree", "copyfile"),
    *("copytree", "copy2", "load", "save", "savez", "mkfifo", "mkstemp", "NamedTemporaryFile"),
}
# The doors, and what stands before calls of these names that are given what the doors gave, or are the engine's own.
DOORS = {"files/reading.py", "files/writing.py", "files/tables.py"}
THROUGH_THE_DOORS = {
    *("image", "yaml", "blobs", "Suite", "finished", "frame", "Classifier", "Segmenter", "small", "sheet"),
    *("Image.fromarray(numbers)", "Image.fromarray(array)", "Image.fromarray(drawn)", "Image.fromarray(pixels)"),
    *("Image.fromarray(picture)", "picture.resize((side, side), Image.Resampling.LANCZOS)", "small.convert('RGB')"),
    *("pandas()", "connection", "self._store"),
}
# What no suite, set or table of a stranger names: the system's own files, the user's cache and networks, which run.
BESIDE_THE_DOORS = {
    *(
        "api/model_answers.py",
        "cli/gpus.py",
        "cli/process.py",
        "cluster/worker.py",
        "cli/rehearse.py",
        "files/disk_list.py",
        "cli/setup.py",
        "estimate/measured.py",
        "meter/energy.py",
    ),
    *("meter/machine.py", "meter/memory.py", "models/library.py", "models/model_pool.py", "models/plan_facts.py"),
    *("models/text_networks.py", "language/open_llm.py", "language/token_filter.py", "language/exllama.py"),
    *("language/exllamav3.py", "report/page.py", "runtime/blob_cache.py", "runtime/compiling.py", "runtime/plans.py"),
    *(
        "profile/small.py",
        "runtime/opening.py",
        "runtime/onnx_header.py",
        "runtime/onnx_providers.py",
        "suite/lock.py",
        "suite/row_spool.py",
        "suite/sql.py",
    ),
}


def opened_before(argument: ast.expr | ast.keyword) -> bool:
    """Whether a call is given bytes or an open file."""
    return ast.unparse(argument).startswith(("io.BytesIO(", "io.StringIO(", "fileobj="))


def touching(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What stands before a call that touches files, and its name; `open` by itself is Python's own, or the module's."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not any(map(opened_before, (*node.args, *node.keywords))):
            before, _, name = ast.unparse(node.func).rpartition(".")
            if name in TOUCHING and (before or (name == "open" and name not in own)):
                yield before or "builtins", name


def test_files_are_read_and_written_through_two_doors() -> None:
    """Pipes are refused, links out of a suite are not followed, and what is written is whole, in one place each."""
    assert list(touching(ast.parse("open(x); read_text(x); Path(x).read_text(); cv2.imread(x); a.b.unlink()"))) == [
        *(("builtins", "open"), ("Path(x)", "read_text"), ("cv2", "imread"), ("a.b", "unlink"))
    ]
    strange, seen = [], set()
    for path in modules("engine"):
        name = path.relative_to(ROOT / "engine").as_posix()
        calls = [call for call in touching(ast.parse(path.read_text("utf-8"))) if call[0] not in THROUGH_THE_DOORS]
        seen |= {name} if calls else set()
        strange += [(name, *call) for call in calls if name not in DOORS | BESIDE_THE_DOORS]
    assert strange == [], "read by files/reading.py and write by files/writing.py"
    assert seen >= DOORS


# Rooms whose modules call every thing by its noun.
ROOMS = tuple(room for room in ARROWS["engine"] if (ROOT / "engine" / room).is_dir())
NO_NOUNS = {"found", "made", "said", "beside"}
# Fields of records that others read: their names are part of the format.
FORMAT_FIELDS = {("meter.py", "made"), ("run_record.py", "made")}


def bound(tree: ast.AST) -> Iterator[str]:
    """All names that a module binds: variables, parameters, attributes, functions, classes, imports and exceptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def test_all_ways_to_bind_a_name_are_known() -> None:
    text = """
import a.b
from c import d as e
def f(g, *h, i=0, **j):
    k: int = 1
    self.l = (m := k)
    for n, [o, *p] in q: pass
    with r as s: pass
    try: pass
    except t as u: pass
    return [v for v in (lambda w: w)(x)]
class y: pass
match z:
    case {"key": A, **B} | [C, *D]: pass
"""
    assert sorted(bound(ast.parse(text))) == sorted("aefghijklmnopsuvwyABCD")


@pytest.mark.parametrize("room", ROOMS)
def test_things_are_called_by_their_nouns(room: str) -> None:
    paths = modules(f"engine/{room}")
    assert paths, f"engine/{room} has no modules: this test would prove nothing"
    for path in paths:
        names = {name.strip("_") for name in bound(ast.parse(path.read_text(encoding="utf-8")))} & NO_NOUNS
        names -= {name for file, name in FORMAT_FIELDS if file == path.name}
        assert not names, f"{path.relative_to(ROOT)} binds {names}: say what the thing is, not what was done to it"


def test_no_name_stands_for_two_things_in_the_engine() -> None:
    """A reader who meets a class or a file by its name alone knows which one it is."""
    classes, files = Counter[str](), Counter[str]()
    for path in modules("engine"):
        files[path.name] += 1
        classes.update(
            node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)
        )
    assert classes.total() > 200
    assert files.total() > 200
    assert {name for name, count in classes.items() if count > 1} == set()
    assert {name for name, count in files.items() if count > 1} == {"__init__.py"}


def test_the_engine_loads_no_torch() -> None:
    """Also not through a library, whatever is installed beside it; nor what only ONNX Runtime's sessions need."""
    names = [
        ".".join(("counterfactory", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules("engine")
        if path.name != "__main__.py"
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "heavy = {'torch', 'diffusers', 'transformers', 'onnx', 'onnxruntime'}\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


# They import OpenVINO, or report their own use as it does.
REPORTING = {"openvino", "openvino_tokenizers", "nncf"}


@pytest.mark.parametrize("package", ["engine", "export", "kernels", "bench"])
def test_openvino_is_imported_where_its_telemetry_is_switched_off(package: str) -> None:
    """What imports OpenVINO by itself, as NNCF does, may be imported inside a function of such a module alone."""
    quiet = ROOT / "engine" / "runtime" / "quiet_openvino.py"
    for path in sorted((ROOT / package).rglob("*.py")):
        if path == quiet:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        everywhere, at_import = (
            {name.split(".")[0] for name in names_of(nodes)} for nodes in (ast.walk(tree), run_at_import(tree))
        )
        assert "openvino" not in everywhere, f"{path} imports OpenVINO: take it from {quiet.name}"
        assert not at_import & REPORTING, f"{path}: import {at_import & REPORTING} inside the function that needs it"
        if everywhere & REPORTING and package != "bench":
            assert any(name.endswith(".quiet_openvino") for name in imported(path)), f"{path} does not import {quiet}"


def names_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Full names of absolute imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that are not inside a function."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from run_at_import(node)


def test_no_two_files_of_tests_have_one_name() -> None:
    """Rooms of tests are no packages: pytest refuses to collect the second, and a second conftest hides the first."""
    names = [path.name for file in ("test_*.py", "conftest.py") for path in (ROOT / "tests").rglob(file)]
    assert len(names) > 100
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_package_is_shipped() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = [
        ".".join(("counterfactory", *path.parent.relative_to(ROOT).parts))
        for package in MAY_IMPORT
        for path in (ROOT / package).rglob("__init__.py")
    ]
    # The face is the package itself.
    found[found.index("counterfactory.engine.face")] = "counterfactory"
    assert sorted(listed) == sorted(found)
