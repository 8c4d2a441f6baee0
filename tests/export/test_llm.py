"""The command that makes language models: what it runs on a GPU box, and what it says where there is none."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exllama_standin import real_package, write_model

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.language import llm
from counterfactory.export.language.llm import PACKAGES, Conversion


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llm") / "model")


def test_quantising_says_what_to_run(folder: Path, tmp_path: Path) -> None:
    conversion = Conversion(str(folder), tmp_path / "made" / "exl2", "exl2", 5.0)
    weights = sum(
        int(np.prod(tensor["shape"]))
        for name, tensor in _header(folder / "model.safetensors").items()
        if name != "__metadata__"
    )
    assert conversion.weights == weights
    with pytest.raises(CounterfactoryError) as told:
        conversion.run(lambda: False)
    said = str(told.value)
    assert "no NVIDIA GPU" in said
    assert "python -m counterfactory.export llm" in said
    assert f"-i {folder} -o {conversion.work} -cf {conversion.target} -b 5 -hb 6" in said
    empty = Conversion(str(tmp_path / "nothing"), tmp_path / "out", "exl3", 5.0)
    assert "lacks config.json, tokenizer.json, *.safetensors" in " ".join(empty.lacking(lambda: True))
    with pytest.raises(CounterfactoryError, match="from 2 to 8"):
        Conversion(str(folder), tmp_path / "x", "exl2", 9.0)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(CounterfactoryError, match="no safetensors file"):
        _ = Conversion(str(tmp_path / "bad"), tmp_path / "x", "exl2", 4.0).weights


def test_the_command_takes_its_target_from_the_profile(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    llm.add_command(parser.add_subparsers())

    def heard(*words: str) -> str:
        lines: list[str] = []
        assert llm.run(parser.parse_args(["llm", *words]), lines.append) == 0
        return "\n".join(lines)

    said = heard("--dry-run")
    profile = load_profile("a10g")
    target = profile.models.path / profile.llm.model
    assert f"-i WEIGHTS -o {target}.work -cf {target} -b 5 -hb 6" in said
    assert "meta-llama/Llama-2-13b-chat-hf@" in said
    assert "fetches the weights (26 GB)" in said
    assert "18 GB of disk beside the source, of which 8.5 GB stay" in said
    other = ["--dry-run", "--format", "exl3", "--target", str(tmp_path / "made"), "--bits", "4.5"]
    assert f"-o {tmp_path / 'made'} -b 4.5 -hb 6" in heard(*other)
    with pytest.raises(CounterfactoryError, match="which needs no quantising"):
        heard("--profile", "pocket")


def _header(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    read: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return read


@pytest.mark.parametrize("form", ["exl2", "exl3"])
def test_the_converters_take_the_options(
    form: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own parsers, read from their sources: importing one of them runs it."""

    real_package(PACKAGES[form])
    name = {"exl2": "exllamav2.conversion.convert_exl2", "exl3": "exllamav3.conversion.convert_model"}[form]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
    ]
    parser = argparse.ArgumentParser()
    for call in calls:
        parser.add_argument(
            *[a.value for a in call.args if isinstance(a, ast.Constant)],
            **{
                k.arg: eval(ast.unparse(k.value))
                for k in call.keywords
                if k.arg in ("type", "action", "default", "nargs", "const")
            },
        )
    conversion = Conversion(str(folder), tmp_path / "out", form, 4.5)
    options = list(conversion.command[3:])
    read = parser.parse_args(options)
    assert (read.in_dir, read.bits, read.head_bits) == (str(folder), 4.5, 6)
    assert str(tmp_path / "out") in vars(read).values()
    assert str(conversion.work) in vars(read).values()
