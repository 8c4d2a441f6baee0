"""Where a checkpoint is: a local folder or file, or files of the hub at a pinned commit, fetched by their names.

Repositories keep the same weights in many forms beside each other (other precisions, other libraries, whole
pipelines). What is opened is fetched, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.published import Checkpoint

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
    inside = f"{part}/" if part and repository.find(f"{part}/{first}") else ""
    folder = repository.need(f"{inside}{first}").parent
    for name in others:
        repository.need(f"{inside}{name}")
    for name in optional:
        repository.find(f"{inside}{name}")
    if weights:
        repository.fetch_weights(inside)
    return folder.parent if inside else folder


def require_access(sources: Iterable[str]) -> None:
    """Raise CounterfactoryError for a source of the hub that this machine's user may not fetch, before hours are spent
    on the others. A hub that does not answer is not waited for: what is fetched from it will say so.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    for name in dict.fromkeys(match["repo"] for one in sources if is_pinned(one) and (match := _PINNED.fullmatch(one))):
        try:
            HfApi().auth_check(name)
        except RepositoryNotFoundError as error:
            raise _denied(name) from error
        except Exception:  # the client has an exception for each way not to reach the hub
            continue


def _denied(repository: str) -> CounterfactoryError:
    return CounterfactoryError(
        f"the hub does not give {repository} to you: accept its terms at https://huggingface.co/{repository}, log in "
        "with 'hf auth login' (or set HF_TOKEN), and say this again; or name the local folder of what you have"
    )


def place(source: str, folder: Path | None) -> str:
    """`source`, or where it lies in a folder that is laid out like the hub, OWNER/NAME/FILE, if it lies there."""
    pinned = _PINNED.fullmatch(source)
    if folder is None or pinned is None:
        return source
    here = folder / pinned["repo"] / (pinned["file"] or "")
    return str(here) if here.exists() else source


def fetch(checkpoint: Checkpoint, folder: Path, say: Callable[[str], None]) -> None:
    """Fetch the files of a published checkpoint that `folder`, laid out like the hub, lacks.

    A file appears when it is whole; of one that broke off what there is is kept and gone on from. Raises
    CounterfactoryError when the hub does not answer or the connection breaks.
    """
    # What the exporter chooses among, it fetches itself.
    missing = {name: size for name, size in checkpoint.missing(folder).items() if "*" not in name}
    if not missing:
        return
    from huggingface_hub import hf_hub_download

    say(f"{checkpoint.repository}: {sum(missing.values()) / 1e9:.2f} GB to fetch")
    for name in missing:
        try:
            local = folder / checkpoint.repository
            hf_hub_download(checkpoint.repository, name, revision=checkpoint.revision, local_dir=local)
        except Exception as error:  # the client has an exception for each way to fail, and passes others through
            raise CounterfactoryError(
                f"{name} of {checkpoint.repository} could not be fetched ({type(error).__name__}): say the same "
                f"command again, which goes on where this one stopped, or put the file into {local}"
            ) from error


def is_pinned(source: str) -> bool:
    """Whether a source is the hub's at a commit, which never changes."""
    return _PINNED.fullmatch(source) is not None and not Path(source).expanduser().exists()


@contextmanager
def explain_unreadable(folder: Path, what: str) -> Iterator[None]:
    """What transformers and diffusers raise where `folder` is not of `what`, as a CounterfactoryError."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise CounterfactoryError(f"{folder} cannot be read as {what}: {str(error).strip().splitlines()[0]}") from error


@dataclass(frozen=True)
class _Repository:
    """A repository of the hub at a commit; `source` is how the user named it."""

    source: str
    name: str
    revision: str

    def find(self, file: str) -> Path | None:
        """A file, fetched unless it is here already; None where the repository has none of that name."""
        from huggingface_hub import hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError, RepositoryNotFoundError

        known = try_to_load_from_cache(self.name, file, revision=self.revision)
        if known is not None:  # a path, or a mark that the hub was asked and has no such file
            return Path(known) if isinstance(known, str) else None
        try:
            return Path(hf_hub_download(self.name, file, revision=self.revision))
        except Exception as error:  # the client has an exception for each way to fail, and passes others through
            if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
                return None
            if isinstance(error, RepositoryNotFoundError):  # as one is called, too, that others may fetch
                raise _denied(self.name) from error
            raise CounterfactoryError(
                f"weights {self.source} could not be fetched from the hub ({type(error).__name__}): "
                "fetch them where there is a network and name the local folder"
            ) from error

    def need(self, file: str) -> Path:
        """The same of a file that there has to be."""
        found = self.find(file)
        if found is None:
            raise CounterfactoryError(f"{self.name} at {self.revision[:12]} has no file {file}")
        return found

    def fetch_weights(self, inside: str) -> None:
        """The weights in the folder `inside`: the first form that there is, whole or in the parts of its index."""
        for name in (*WHOLE, _HALF):
            if self.find(f"{inside}{name}"):
                return
            if index := self.find(f"{inside}{name}.index.json"):
                for file in sorted({*parts_of(index)}):
                    self.need(f"{inside}{file}")
                return
        raise CounterfactoryError(
            f"{self.name} at {self.revision[:12]} has none of {', '.join(inside + name for name in WHOLE)}, nor an "
            "index of its parts; fetch the checkpoint, convert it with safetensors and name its folder"
        )


def parts_of(index: Path) -> list[str]:
    """The files that an index of weights names, one for each tensor. Raises CounterfactoryError for no such index."""
    try:
        return [str(file) for file in json.loads(index.read_text())["weight_map"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CounterfactoryError(f"{index} is no index of weights: {error!r}") from error
