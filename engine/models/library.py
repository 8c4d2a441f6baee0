"""The folder of exported networks: where each one's files are, and what their content is.

On a CPU a plan is NAME.xml with NAME.bin; for GPUs it is plans/NAME.plan or onnx/NAME/model.onnx. [llm] names the
language model. Small files (tokenizers, the size of latents) lie in the same folder. Nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..content_keys import STAGES, Stage, maker_key
from ..errors import CounterfactoryError
from ..files.fill import fill_record
from ..files.reading import read_json
from ..keys import Digests, content_key
from ..language.open_llm import model_digest
from ..profile.paint import SamplerSettings
from ..profile.rewrite import LLAMA_GRAPH, LlmSettings
from ..profile.runtime import RuntimeSettings
from ..runtime.blob_cache import BlobCache
from ..runtime.installing import releases
from ..runtime.opening import PlanState, arithmetic, plan_digest, plan_file, plan_state
from ..runtime.plans import existing, read_exported, read_key
from .network import Network, Networks
from .sampler import Sampler
from .schedule import settle

_ADVICE = "export the networks again"
_MOST = 1024


@dataclass(frozen=True)
class _Latents:
    """What an export says of its latents: their channels, and pixels per side of one of their values."""

    channels: int
    factor: int

    def __post_init__(self) -> None:
        if not (0 < self.channels <= _MOST and 0 < self.factor <= _MOST):
            raise ValueError(f"'channels' and 'factor' are from 1 to {_MOST}")


@dataclass(frozen=True)
class Library:
    """The networks of the table `networks` in `folder`, for the runtimes that the settings name.

    In `blobs` compiled networks are kept between runs; None keeps none. `files` are the digests of files.
    """

    folder: Path
    networks: Networks
    runtime: RuntimeSettings
    llm: LlmSettings
    blobs: BlobCache | None = field(default=None, repr=False, compare=False)
    # (height, width) in pixels of all pictures that will be painted, where that is known beforehand.
    painted: tuple[tuple[int, int], ...] = ()
    # How the denoiser's latents are taken from noise, by the profile.
    sampling: SamplerSettings | None = None
    files: Digests = field(default_factory=Digests, init=False, repr=False, compare=False)
    # Why what GPUs' libraries compiled could not be kept beside the models, in sentences.
    unkept: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _digests: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def cache_problem(self) -> str | None:
        """Why what was compiled is not kept for the next run; None where it is, or nobody wants it to be."""
        own = self.blobs.problem if self.blobs is not None else None
        return own or next(iter(self.unkept), None)

    @property
    def llm_path(self) -> Path:
        """The language model: a file or a folder, in the models' folder or anywhere."""
        return self.folder / Path(self.llm.model).expanduser()

    def existing(self, name: str) -> Path:
        """The path of a file of the folder. Raises CounterfactoryError when it is missing."""
        return existing(self.folder / name)

    def latents(self) -> tuple[int, int]:
        """Channels of the latents, and pixels per side of one of their values.

        Raises CounterfactoryError when the file that says it is missing or damaged.
        """
        file = self.existing("latent.json")
        latent = fill_record(_Latents, read_json(file, _ADVICE), str(file), _ADVICE)
        return latent.channels, latent.factor

    def sizes(self, network: Network, height: int, width: int) -> dict[str, tuple[int, int]]:
        """(height, width) of each input of a network that follows a picture of that size in pixels."""
        if not network.sizes:
            return {}
        _, factor = self.latents()
        return network.sizes_at((height, width), (height // factor, width // factor))

    def sampler(self) -> Sampler:
        """The way from noise to latents, by the profile and by what the denoiser was exported with.

        Raises CounterfactoryError as `settle` does.
        """
        assert self.sampling is not None, "only a profile that paints by a denoiser asks"
        return Sampler(*settle(self.sampling, self._scheduler(), self.networks["denoiser"].plan))

    def _scheduler(self) -> Mapping[str, Any] | None:
        """The scheduler_config.json that the denoiser was exported with, also of a form in int8 made of it."""
        return read_exported(self.folder, self.networks["denoiser"].plan.removesuffix("_int8")).scheduler

    def graph(self, network: Network) -> Path:
        """The file of a network's graph, for counting. Raises CounterfactoryError when it is missing."""
        if network.name == "llm":
            return existing(self.llm_path / LLAMA_GRAPH if self.llm.backend == "openvino" else self.llm_path)
        return existing(plan_file(self.folder, network.plan, self.runtime.backend))

    def state(self, network: Network) -> tuple[PlanState, str]:
        """Whether a network is there and serves, and if not, why; the bytes of plans are not read."""
        if network.name == "llm":
            return ("found", "") if self.llm_path.exists() else ("missing", str(self.llm_path))
        sizes: list[dict[str, tuple[int, int]]] = []
        if network.sizes and self.runtime.backend == "tensorrt" and (self.folder / "latent.json").is_file():
            sizes = [self.sizes(network, *size) for size in self.painted]
        state, why = plan_state(self.folder, network.plan, self.runtime.backend, sizes)
        if network.name == "denoiser" and self.sampling is not None and state == "found":
            try:
                self.sampler()
            except CounterfactoryError as error:
                return "stale", str(error)
        return state, why

    def plan_bytes(self, plan: str) -> tuple[int | None, int | None]:
        """Bytes that a plan takes on a GPU by its compiler's record: its own, and scratch memory, which plans share.

        None where there is no such record.
        """
        if self.runtime.backend != "tensorrt":
            return None, None
        try:
            key = read_key(plan_file(self.folder, plan, "tensorrt"))
        except CounterfactoryError:  # not compiled, or damaged: an error when it is opened
            return None, None
        return (key.held_bytes, key.scratch_bytes) if key.scratch_bytes is not None else (None, None)

    def activation_bytes(self, plan: str) -> int | None:
        """Bytes that a plan's graph computes in by its export's record; None without one."""
        try:
            return read_exported(self.folder, plan).activation_bytes
        except CounterfactoryError:  # damaged: an error when it is opened
            return None

    def digest(self, stage: Stage) -> str:
        """A key of the content of the files that a stage uses, the precision they run in, and what runs them.

        Raises CounterfactoryError when one is missing.
        """
        used = [digest for network in self.networks.of(stage) for digest in self._content(network)]
        return maker_key(stage, used, arithmetic(self.runtime), releases(self._libraries(stage)))

    def releases(self) -> dict[str, str]:
        """The installed releases of everything that computes a suite, our own and NumPy's included, by distribution."""
        used = dict.fromkeys(library for stage in STAGES for library in self._libraries(stage))
        adapters = ["torch"] if self.llm.backend.startswith("exllama") else []
        provider = [self.runtime.provider] if self.runtime.provider == "tensorrt" else []
        return releases(["counterfactory", *used, *provider, *adapters])

    def _libraries(self, stage: Stage) -> tuple[str, ...]:
        if not self.networks.table:
            return () if stage == "rewrite" else ("numpy", "opencv", "pillow")
        if stage == "rewrite":
            encodes = "sentence" in self.networks or "masked" in self.networks
            encoder = (self.runtime.backend,) if encodes else ()
            return (self.llm.backend, "llguidance", "tokenizers", *encoder)
        return (self.runtime.backend, "tokenizers", "numpy", "opencv", "pillow")

    def _content(self, network: Network) -> list[str]:
        if network.plan not in self._digests:
            if network.name == "llm":
                plan = [model_digest(existing(self.llm_path), self.llm.backend, self.files.of)]
            else:
                plan = plan_digest(self.folder, network.plan, self.runtime.backend, self.files.of)
            optional = [self.folder / name for name in network.optional_files]
            files = [*map(self.existing, network.files), *filter(Path.is_file, optional)]
            self._digests[network.plan] = [*plan, *map(self.files.of, files)]
            if network.name == "denoiser" and self.sampling is not None:
                self.sampler()  # refused before anything is painted
                published = self._scheduler()
                self._digests[network.plan] += [] if published is None else [content_key(published)]
        return self._digests[network.plan]
