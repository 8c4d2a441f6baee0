"""Where a checkpoint is: a local folder or file, or files of the hub at a pinned commit, fetched by their names.

Repositories keep the same weights in many forms beside each other (other precisions, other libraries, whole
pipelines). What is opened is fetched, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.published import Checkpoint, hub_folder

from .download import HubFile, UnreachableError, denied, download

_PINNED = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{40})(?:/(?P<file>[\w.-]+(?:/[\w.-]+)*))?")
# What holds all of a network's weights, in the order in which it is looked for; in parts, NAME.index.json lists them.
WHOLE = ("model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin", "diffusion_pytorch_model.bin")
_HALF = "diffusion_pytorch_model.fp16.safetensors"  # taken where there is no other


def locate(
    source: str,
    files: Sequence[str] = ("config.json",),
    *,
    optional: Sequence[str] = (),
    weights: bool = True,
    part: str = "",
) -> Path:
    """The local folder or file of `source`, fetched where it is a hub id with its commit: ID@COMMIT or ID@COMMIT/FILE.

    Of a repository named without a file come `files`, those of `optional` that it has and, with `weights`, one form of
    the network's weights. `part` is the folder of a pipeline in which they are, if it is a pipeline's repository.
    Raises CounterfactoryError for a path that does not exist, an id without a commit (weights that change under one
    name cannot be recorded), a file that the repository lacks, and a hub that does not answer.
    """
    here = Path(source).expanduser()
    if here.exists():
        return here
    pinned = _PINNED.fullmatch(source)
    if pinned is None:
        neither = f"weights {source!r} are no existing path and no hub id with its commit"
        raise CounterfactoryError(f"{neither}; say a folder, or ID@COMMIT with the commit's 40 hex digits")
    repository = _Repository(source, pinned["repo"], pinned["revision"])
    if pinned["file"]:
        return repository.need(pinned["file"])
    first, *others = files
    inside = f"{part}/" if part and repository.holds(f"{part}/{first}", first) else ""
    folder = repository.need(f"{inside}{first}").parent
    for name in others:
        repository.need(f"{inside}{name}")
    if weights:
        repository.fetch_weights(inside)
    for name in optional:
        with suppress(UnreachableError):  # all that has to be there is there
            repository.find(f"{inside}{name}")
    return folder.parent if inside else folder


def require_access(sources: Iterable[str]) -> None:
    """Raise CounterfactoryError for a source of the hub that this machine's user may not fetch, before hours are spent
    on the others. A hub that does not answer is not waited for: what is fetched from it will say so.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    named = [match for one in sources if is_pinned(one) and (match := _PINNED.fullmatch(one))]
    for name in dict.fromkeys(one["repo"] for one in named if not _fetched_before(one["repo"], one["revision"])):
        try:
            HfApi().auth_check(name)
        except (GatedRepoError, RepositoryNotFoundError) as error:
            raise denied(name) from error
        except Exception:  # the client has an exception for each way not to reach the hub
            return


def _fetched_before(repository: str, revision: str) -> bool:
    """Whether the cache holds something of it, which nobody gets without access."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "snapshots" / revision
    return folder.is_dir() and any(file.is_file() for file in folder.rglob("*"))


def place(source: str, folder: Path | None) -> str:
    """`source`, or where it lies in a folder that is laid out like the hub, OWNER/NAME/FILE, if it lies there."""
    pinned = _PINNED.fullmatch(source)
    if folder is None or pinned is None:
        return source
    here = folder / pinned["repo"] / (pinned["file"] or "")
    return str(here) if here.exists() else source


def fetch(checkpoint: Checkpoint, folder: Path, say: Callable[[str], None]) -> None:
    """Fetch the files of a published checkpoint that `folder`, laid out like the hub, lacks, and the hub's cache too.

    A file appears when it is whole; of one that broke off what there is is kept and gone on from. Raises
    CounterfactoryError as `download` does.
    """
    # What the exporter chooses among, it fetches itself.
    missing = {name: size for name, size in checkpoint.missing(folder, hub_folder()).items() if "*" not in name}
    for name in missing:
        file = HubFile(checkpoint.repository, checkpoint.revision, name)
        try:
            download(file, folder, say)
        except FileNotFoundError as error:
            raise _lacks(file) from error


def _lacks(file: HubFile) -> CounterfactoryError:
    return CounterfactoryError(
        f"{file.repository} at {file.revision[:12]} has no file {file.name}: look at "
        f"https://huggingface.co/{file.repository}/tree/{file.revision}, and name another commit or a local folder"
    )


def is_pinned(source: str) -> bool:
    """Whether a source is the hub's at a commit, which never changes."""
    return _PINNED.fullmatch(source) is not None and not Path(source).expanduser().exists()


@contextmanager
def explain_unreadable(folder: Path, what: str) -> Iterator[None]:
    """What transformers and diffusers raise where `folder` is not of `what`, as a CounterfactoryError."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, RuntimeError, EOFError, SafetensorError, UnpicklingError) as error:
        raise CounterfactoryError(f"{folder} cannot be read as {what}: {str(error).strip().splitlines()[0]}") from error


@dataclass(frozen=True)
class _Repository:
    """A repository of the hub at a commit; `source` is how the user named it."""

    source: str
    name: str
    revision: str

    def here(self, file: str) -> Path | None:
        """A file of the cache. A link there may lead nowhere."""
        from huggingface_hub import try_to_load_from_cache

        known = try_to_load_from_cache(self.name, file, revision=self.revision)
        return Path(known) if isinstance(known, str) else None

    def find(self, file: str) -> Path | None:
        """A file, fetched unless it is here already; None where the repository has none of that name."""
        from huggingface_hub import try_to_load_from_cache

        known = try_to_load_from_cache(self.name, file, revision=self.revision)
        if known is not None:  # a path, or a mark that the hub was asked and has no such file
            return Path(known) if isinstance(known, str) else None
        try:
            return download(HubFile(self.name, self.revision, file))
        except FileNotFoundError:
            return None

    def holds(self, file: str, other: str) -> bool:
        """Whether the repository has `file`, or else `other`: by the cache, or by the hub where neither is there."""
        if self.here(file) or self.here(other):
            return self.here(file) is not None
        return self.find(file) is not None

    def need(self, file: str) -> Path:
        """The same of a file that there has to be."""
        found = self.find(file)
        if found is None:
            raise _lacks(HubFile(self.name, self.revision, file))
        return found

    def fetch_weights(self, inside: str) -> None:
        """The weights in the folder `inside`: a form that is here, else the first that there is, whole or in parts."""
        forms = [f"{inside}{name}" for name in (*WHOLE, _HALF)]
        if any(self._has(form) for form in forms):
            return
        for form in forms:
            if self.find(form):
                return
            if index := self.find(f"{form}.index.json"):
                for file in sorted({*parts_of(index)}):
                    self.need(f"{inside}{file}")
                return
        raise CounterfactoryError(
            f"{self.name} at {self.revision[:12]} has none of {', '.join(inside + name for name in WHOLE)}, nor an "
            "index of its parts; fetch the checkpoint, convert it with safetensors and name its folder"
        )

    def _has(self, form: str) -> bool:
        """Whether the cache has all of a form of weights."""
        index = self.here(f"{form}.index.json")
        folder = form.rpartition("/")[0]
        parts = {f"{folder}/{file}".lstrip("/") for file in parts_of(index)} if index else {form}
        return all(self.here(file) for file in parts)


def parts_of(index: Path) -> list[str]:
    """The files that an index of weights names, one for each tensor. Raises CounterfactoryError for no such index."""
    try:
        return [str(file) for file in json.loads(index.read_text())["weight_map"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CounterfactoryError(f"{index} is no index of weights: {error!r}") from error
