"""The house in figures: its lines by room, its words, its wiring tests, and what it takes to install.

    python bench/house.py [--installs] [--write]

Lines are those of Python files, words those of `wc -w`. `--installs` makes environments in a temporary folder, one of
the base and one that judges, and counts the bytes of their site-packages, pip's own left out. With `--write` the
figures go into docs/house.json beside those of other commands (tests/mutants.py). The last line is JSON.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import DOCS, ROOT, bench_parser, finish

POCKET = ROOT / "engine" / "pocket"
PRODUCT = ("engine", "export", "kernels", "bench")
# What a user installs: an extra of the product's own wheel, and whether the pocket networks too.
INSTALLS = {"base_install_mb": ("", 0), "judge_install_mb": ("[judge]", 0), "generate_install_mb": ("[generate]", 1)}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/house.json")
    parser.add_argument("--installs", action="store_true", help="install into new environments and count their bytes")
    args = parser.parse_args()
    rooms = {room: lines_of(ROOT / room) for room in (*PRODUCT, "tests")}
    for room, lines in rooms.items():
        print(f"{room:<8} {lines:>7,} lines")
    readmes = [ROOT / "README.md", ROOT / "bench" / "README.md"]
    figures: dict[str, Any] = {"product_lines": sum(rooms[room] for room in PRODUCT), "test_lines": rooms["tests"]}
    figures |= {"readme_words": words_of(readmes[:1]), "docs_words": words_of([*readmes, *DOCS.glob("*.md")])}
    figures["wiring_options_tested"] = wired_options(sorted((ROOT / "tests").glob("**/*.py")))
    figures |= install_sizes() if args.installs else {}
    finish("house", into=args.write and DOCS / "house.json", **figures)


def lines_of(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def words_of(files: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").split()) for path in files)


def wired_options(files: list[Path]) -> int:
    """Pairs of an option and a command that a case of the wiring tests is for: the arguments of `shows`, in which names
    of commands may be those of tests/wiring.py.
    """
    trees = [ast.parse(text) for file in files if "shows(" in (text := file.read_text(encoding="utf-8"))]
    named, count = dict[str, int](), 0
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.Assign)):
        if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Tuple):
            named[node.targets[0].id] = len(node.value.elts)
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "shows":
            starred = [part.value for part in call.args[1:] if isinstance(part, ast.Starred)]
            count += len(call.args) - 1 - len(starred) + sum(named[ast.unparse(name)] for name in starred)
    return count


def install_sizes() -> dict[str, float]:
    """Megabytes (10^6 bytes) of a new environment's packages, by what is installed."""
    sizes: dict[str, float] = {}
    pip = [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / "wheel"
        build = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheel), str(ROOT), str(POCKET)]
        for place in (ROOT, POCKET):  # or setuptools packs again what it packed once
            shutil.rmtree(place / "build" / "lib", ignore_errors=True)
        subprocess.run(build, check=True)
        (package,), (pocket,) = wheel.glob("counterfactory-*.whl"), wheel.glob("counterfactory_pocket-*.whl")
        for name, (extra, networks) in INSTALLS.items():
            target = Path(folder) / name
            asked = [f"{package}{extra}", *[str(pocket)] * networks]
            subprocess.run([*pip, "install", "--quiet", "--target", str(target), *asked], check=True)
            sizes[name] = round(sum(f.stat().st_size for f in target.rglob("*") if f.is_file()) / 1e6, 1)
    return sizes


if __name__ == "__main__":
    main()
