"""The house's own rules: which way imports point, what the engine may load, and that packaging lists every package."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
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


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
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
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    assert modules(package), f"{package} has no modules: this test would prove nothing"
    for path in modules(package):
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("counterfactory.")}
        assert ours <= MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {ours - MAY_IMPORT[package]}"


@pytest.mark.parametrize("package", ["kernels", "engine"])
def test_nothing_imports_the_training_libraries(package: str) -> None:
    for path in modules(package):
        if path in FOR_GPUS:
            continue
        heavy = {name.split(".")[0] for name in imported(path)} & {"torch", "diffusers", "transformers", "onnx", "gguf"}
        assert not heavy, f"{path.relative_to(ROOT)} imports {heavy}"


def test_the_engine_loads_no_torch() -> None:
    """Also not through a library, whatever is installed beside it."""
    names = [
        ".".join(("counterfactory", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules("engine")
        if path.name != "__main__.py"
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'diffusers', 'transformers'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_every_package_is_shipped() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = [
        ".".join(("counterfactory", *path.parent.relative_to(ROOT).parts))
        for package in MAY_IMPORT
        for path in (ROOT / package).rglob("__init__.py")
    ]
    assert sorted(listed) == sorted(found)
