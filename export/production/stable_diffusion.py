"""Stable Diffusion 1.5 with a ControlNet at full size and random weights, for CPUs: networks to time, not to look at.

It writes hint.xml, denoiser.xml and vae_decoder.xml to a folder, in OpenVINO's form. The networks are those of
export/production. Nothing is downloaded: speed does not depend on weights, and what depends on them is ignored here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from counterfactory.engine.files.writing import write_whole

from ..graphs.tracing import to_ir
from .denoiser import SD15, denoiser_graph, hint_graph
from .graph import Request
from .vae import decoder_graph

SEED = 15


@dataclass(frozen=True)
class Sd15Paths:
    """The exported networks; each .xml has its .bin beside it."""

    hint: Path
    denoiser: Path
    decoder: Path


def denoiser_sd15(folder: Path) -> Sd15Paths:
    """Export all three networks to `folder`, weights in fp16 (2.6 GB in all); a finished export is taken as it is.

    Takes minutes, 12 GB of memory at most and, while it runs, 5 GB of temporary files on the disk.
    """
    paths = Sd15Paths(folder / "hint.xml", folder / "denoiser.xml", folder / "vae_decoder.xml")
    channels = SD15["block_out_channels"]
    recipe = {"seed": SEED, "torch": torch.__version__, "channels": channels, "hint": channels[0], "form": 1}
    done = folder / "done.json"
    if done.is_file() and json.loads(done.read_text()) == json.loads(json.dumps(recipe)):
        return paths
    done.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    # Small pictures: graphs are the same for all sizes, and tracing them computes nothing worth waiting for.
    for path, build in ((paths.decoder, decoder_graph), (paths.hint, hint_graph), (paths.denoiser, denoiser_graph)):
        graph = build(Request(seed=SEED, hint_channels=3))
        to_ir(graph.module, graph.inputs, graph.outputs, path, graph.axes)
    write_whole(done, json.dumps(recipe))  # the last act: half an export never looks like a whole one
    return paths
