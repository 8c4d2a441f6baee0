"""A language model for the engine: quantised for ExLlama on a GPU, or written for a CPU.

    python -m counterfactory.export llm --profile a10g --bits 5
    python -m counterfactory.export llm SOURCE --format openvino --target FOLDER

A source is Hugging Face weights (config.json, tokenizer.json, *.safetensors): a folder, or a hub id with its commit.
The result is a folder that the engine opens. For ExLlama the converter of its package runs, which measures every layer
on a GPU; without a GPU or the package nothing is made, and the error tells what to run on the box. Not run on a GPU.
For a CPU a Llama, which may be a GGUF file too (llama_source.py), is written in fp16 (llama_steps.py).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.exllama import INSTALL, existing_model
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.runtime.installing import pip_install

from ..graphs.hub import locate

Format = Literal["exl2", "exl3"]
PACKAGES: dict[Format, str] = {"exl2": "exllamav2", "exl3": "exllamav3"}
# LLaMA-2-13B's weights: what a source that is not here yet is taken to hold.
_WEIGHTS = 13_015_864_320
# What converters and tokenizers read, some of which a repository may lack.
_FILES = ("config.json", "tokenizer.json")
_OPTIONAL = ("generation_config.json", "special_tokens_map.json", "tokenizer_config.json", "tokenizer.model")
_HEAD_BITS = 6
# ExLlamaV3 comes with a converter and no command for it.
_EXL3 = (
    "from exllamav3.conversion.convert_model import main, parser, prepare; "
    "settings, state, ready, why = prepare(parser.parse_args()); "
    "main(settings, state) if ready else exit(why)"
)


@dataclass(frozen=True)
class Conversion:
    """One model to be quantised to `bits` a weight; the converter keeps its state in `work`, and resumes from it.

    `source` is a folder, or ID@COMMIT of the hub.
    """

    source: str
    target: Path
    form: Format
    bits: float

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise CounterfactoryError(f"--bits must be from 2 to 8, got {self.bits:g}")

    @property
    def folder(self) -> Path | None:
        """The source's folder; None for a hub id, which is fetched when all else is there."""
        return None if "@" in self.source and not Path(self.source).exists() else Path(self.source).expanduser()

    @property
    def work(self) -> Path:
        """The converter's own folder, beside the target; it can be deleted afterwards."""
        return self.target.with_name(f"{self.target.name}.work")

    @property
    def command(self) -> tuple[str, ...]:
        """What is run; the same again resumes what was interrupted."""
        source = str(self.folder or "WEIGHTS")
        if self.form == "exl2":
            words = ["-m", "exllamav2.conversion.convert_exl2", "-i", source, "-o", str(self.work)]
            words += ["-cf", str(self.target)]
        elif (self.work / "args.json").is_file():
            return (sys.executable, "-c", _EXL3, "-w", str(self.work), "-r")
        else:
            words = ["-c", _EXL3, "-w", str(self.work), "-i", source, "-o", str(self.target)]
        return (sys.executable, *words, "-b", f"{self.bits:g}", "-hb", str(_HEAD_BITS))

    @property
    def weights(self) -> int:
        """Weights of the source: those that its files' headers list, or LLaMA-2-13B's where there are none."""
        files = self.folder.glob("*.safetensors") if self.folder else ()
        return sum(map(_weights, files)) or _WEIGHTS

    @property
    def target_gb(self) -> float:
        """About what the quantised model takes, in 10^9 bytes. Embeddings and head, a few per cent, take more bits."""
        return self.weights * (self.bits + 0.25) / 8 / 1e9

    @property
    def free_gb(self) -> float:
        """Disk needed beside the source, in 10^9 bytes: the result, and the converter's copy of it."""
        return 2 * self.target_gb + 1

    def lacking(self, has_gpu: Callable[[], bool]) -> list[str]:
        """What stands against running it here, each with what to do; empty when nothing does."""
        found = []
        if self.folder:
            missing = [name for name in ("config.json", "tokenizer.json") if not (self.folder / name).is_file()]
            if not any(self.folder.glob("*.safetensors")):
                missing.append("*.safetensors")
            if missing:
                found.append(f"{self.folder} lacks {', '.join(missing)}; name the folder of a model from the hub")
        package = PACKAGES[self.form]
        if importlib.util.find_spec(package) is None:
            found.append(f"the package {package} is not installed; say: {pip_install(INSTALL[package])}")
        if not has_gpu():
            found.append("there is no NVIDIA GPU that torch sees; run it on the box")
        target = self.target.absolute()
        free = shutil.disk_usage(next(one for one in (target, *target.parents) if one.is_dir())).free / 1e9
        if free < self.free_gb:
            found.append(f"{self.target.parent} has {free:.0f} GB free of the {self.free_gb:.0f} GB needed")
        return found

    def run(self, has_gpu: Callable[[], bool]) -> str:
        """Quantise, and say what was made. Raises CounterfactoryError, with what to run, where that cannot be."""
        if lacking := self.lacking(has_gpu):
            said = ["nothing was quantised:", *(f"- {x}" for x in lacking), self.advice()]
            raise CounterfactoryError("\n".join(said))
        fetched = replace(self, source=str(fetch_llama(self.source)))
        self.work.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(fetched.command, check=False)
        if done.returncode:
            ended = f"{PACKAGES[self.form]}'s converter ended with status {done.returncode}; its own words stand above"
            raise CounterfactoryError(f"{ended}. The same command goes on from where it stopped")
        # ExLlamaV2's converter ends with status 0 after errors of its own, so the result is looked at.
        existing_model(self.target, PACKAGES[self.form])
        return f"{self.target} holds {self.source} in {self.bits:g} bits; {self.work} can be deleted"

    def advice(self) -> str:
        """What to run on a box with a GPU, and what it takes."""
        asked = shlex.join((self.source, "--target", str(self.target)))
        runs = "which runs" if self.folder else f"which fetches the weights ({2 * self.weights / 1e9:.0f} GB) and runs"
        return f"""on a box with a 24 GB GPU:
  pip install {INSTALL[PACKAGES[self.form]]}
  python -m counterfactory.export llm {asked} --format {self.form} --bits {self.bits:g}
{runs}
  {shlex.join(("python", *self.command[1:]))}
it needs {self.free_gb:.0f} GB of disk beside the source, of which {self.target_gb:.1f} GB stay, and \
hours for 13 B weights (nobody has measured them for these docs)"""


def fetch_llama(source: str) -> Path:
    """The folder or file of a language model, fetched from the hub if need be. Raises as `locate` does."""
    return locate(source, _FILES, optional=_OPTIONAL)


def write_for_cpu(source: str, target: Path) -> str:
    """Write a Llama (a GGUF file, a folder, or ID@COMMIT of the hub) to `target`, for `[llm] backend = "openvino"`.

    Raises CounterfactoryError for a file that is damaged, a model of another kind, and a form of the Llama that
    llama_steps.py does not write.
    """
    from .llama_source import read_llama
    from .llama_steps import write_llama

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:  # not in memory, as /tmp may be
        llama = read_llama(fetch_llama(source), Path(scratch))
        write_llama(llama.model, llama.tokenizer, llama.end, target)
    size = sum(file.stat().st_size for file in target.iterdir()) / 1e9
    return f'{target} holds {source}, {size:.2f} GB; say [llm] backend = "openvino" and model = "{target}"'


def _weights(file: Path) -> int:
    """Elements of all tensors of a safetensors file, from its header. Raises CounterfactoryError for another file."""
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if size > file.stat().st_size:
                raise ValueError(f"its header would be {size} bytes long")
            header = json.loads(stream.read(size))
        return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CounterfactoryError(f"{file} is no safetensors file ({error}); download it again") from error


def cuda_is_there() -> bool:
    """Whether torch sees an NVIDIA GPU."""
    import torch

    return torch.cuda.is_available()


def add_command(commands: Any) -> None:
    parser = commands.add_parser("llm", help="quantise the language model of a GPU box")
    source = "folder of the weights, a hub id with its commit, or for openvino a GGUF file (default: the profile's)"
    parser.add_argument("source", nargs="?", help=source)
    parser.add_argument("--profile", default="a10g", help="whose language model is made: its folder and its format")
    parser.add_argument("--target", type=Path, help="another folder for the quantised model")
    form = "another format: exl2 for exllamav2, exl3 for exllamav3, openvino for CPUs (--target names its folder)"
    parser.add_argument("--format", choices=(*PACKAGES, "openvino"), help=form)
    parser.add_argument("--bits", type=float, default=5.0, help="bits a weight, 2 to 8")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be run, and what it needs")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """`python -m counterfactory.export llm`; raises CounterfactoryError where it cannot be done here."""
    profile = load_profile(asked.profile)
    own = profile.llm.on_cpu and profile.weights is not None
    usual = profile.models.path / Path(profile.llm.model).expanduser()
    if asked.format == "openvino" or (asked.format is None and own):
        if asked.target is None and not own:
            raise CounterfactoryError("--format openvino needs --target, the folder that [llm] model will name")
        say(write_for_cpu(asked.source or _usual(profile), asked.target or usual))
        return 0
    formats = {package: form for form, package in PACKAGES.items()}
    form = asked.format or formats.get(profile.llm.backend)
    if form is None:
        raise CounterfactoryError(
            f"profile {profile.name} decodes with {profile.llm.backend}, on a CPU, which needs no quantising; name "
            "a profile with exllamav2 or exllamav3, or --format and --target"
        )
    conversion = Conversion(asked.source or _usual(profile), asked.target or usual, form, asked.bits)
    say(conversion.advice() if asked.dry_run else conversion.run(cuda_is_there))
    return 0


def _usual(profile: Profile) -> str:
    """The profile's own source. Raises CounterfactoryError where it names none."""
    if profile.weights is None:
        raise CounterfactoryError(f"profile {profile.name} has no table [weights]: name the language model's source")
    return profile.weights.llm
