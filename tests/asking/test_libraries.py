"""Models of Hugging Face, timm and torchvision answer as their own libraries make them answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.asking.opening_models import open_model
from counterfactory.engine.asking.outputs import BoxAnswer, MapAnswer, ScoreAnswer
from counterfactory.engine.asking.reading_outputs import read_outputs
from counterfactory.engine.asking.under_test import ModelUnderTest
from counterfactory.engine.errors import CounterfactoryError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

NAMES = {0: "bus", 1: "car", 2: "truck"}
LABELS: dict[str, Any] = {"num_labels": 3, "id2label": NAMES, "label2id": {name: i for i, name in NAMES.items()}}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TINY: dict[str, Any] = {**SIZES, "patch_size": 8}


def pictures(count: int, height: int = 40, width: int = 56) -> list[NDArray[np.uint8]]:
    random = np.random.default_rng(4)
    return [random.integers(0, 256, (height, width, 3), dtype=np.uint8) for _ in range(count)]


def asked(model: ModelUnderTest, given: list[NDArray[np.uint8]]) -> list[Any]:
    sizes = [(picture.shape[0], picture.shape[1]) for picture in given]
    return read_outputs(
        model.run(np.stack([model.prepare(picture) for picture in given]), sizes), list(map(model.place, sizes))
    )


def test_a_classifier_of_hugging_face(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = transformers.ViTForImageClassification(transformers.ViTConfig(image_size=32, **TINY, **LABELS))
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    for part in (net, processor):
        part.save_pretrained(tmp_path)
    model, given = open_model(f"hf:{tmp_path}"), pictures(3)
    with torch.inference_mode():
        expected = net.eval()(**processor(images=given, return_tensors="pt")).logits.numpy()
    answers = asked(model, given)
    assert all(isinstance(answer, ScoreAnswer) for answer in answers)
    assert np.abs(np.stack([answer.scores for answer in answers]) - expected).max() < 1e-5
    assert (model.classes, model.named_by) == (NAMES, "its id2label")
    assert "'height': 32" in model.input
    declared = open_model(f"hf:{tmp_path}", "resize=32x32 interpolation=bilinear mean=0.5 std=0.5")
    assert np.abs(np.stack([one.scores for one in asked(declared, given)]) - expected).max() < 1e-5
    assert declared.digest != model.digest


def test_a_segmenter_of_hugging_face_gives_maps_at_the_pictures_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    blocks = {"num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [8, 8], "num_attention_heads": [1, 1]}
    shape = {"sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [1, 1]}
    config = transformers.SegformerConfig(**blocks, **shape, decoder_hidden_size=8, **LABELS)
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(tmp_path)
    transformers.SegformerImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(tmp_path)
    (answer,) = asked(open_model(f"hf:{tmp_path}"), pictures(1))
    assert isinstance(answer, MapAnswer)
    assert answer.numbers.shape == (40, 56)
    assert answer.numbers.max() < 3


def test_a_detector_of_hugging_face_gives_boxes_in_the_picture_s_pixels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.YolosConfig(image_size=[32, 48], num_detection_tokens=5, **TINY, **LABELS)
    net = transformers.YolosForObjectDetection(config)
    processor = transformers.YolosImageProcessorPil(size={"height": 32, "width": 48})
    for part in (net, processor):
        part.save_pretrained(tmp_path)
    given = pictures(2)
    with torch.inference_mode():
        outputs = net.eval()(pixel_values=processor(images=given, return_tensors="pt")["pixel_values"])
    expected = processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=[(40, 56)] * 2)
    for answer, own in zip(asked(open_model(f"hf:{tmp_path}"), given), expected, strict=True):
        assert isinstance(answer, BoxAnswer)
        corners = [[box.x0, box.y0, box.x1, box.y1] for box in answer.boxes]
        assert np.abs(np.array(corners) - own["boxes"].numpy()).max() < 1e-3
        assert [box.label for box in answer.boxes] == own["labels"].tolist()


def test_a_model_for_words_is_refused(tmp_path: Path) -> None:
    transformers.BertConfig(architectures=["BertForMaskedLM"]).save_pretrained(tmp_path)
    with pytest.raises(CounterfactoryError, match="is a BertForMaskedLM: models for image classification"):
        open_model(f"hf:{tmp_path}")
    with pytest.raises(CounterfactoryError, match="cannot be opened"):
        open_model(f"hf:{tmp_path / 'none'}")


def test_a_model_of_timm_sees_what_timm_shows_it(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    net = timm.create_model("test_resnet", pretrained=False, num_classes=3).eval()
    torch.save(net.state_dict(), tmp_path / "pytorch_model.bin")
    settings = {"architecture": "test_resnet", "num_classes": 3, "pretrained_cfg": {"num_classes": 3, "crop_pct": 0.9}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    model, given = open_model(f"timm:local-dir:{tmp_path}"), pictures(2)
    module = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(module), is_training=False)
    with torch.inference_mode():
        expected = module(torch.stack([transform(Image.fromarray(picture)) for picture in given])).numpy()
    assert np.abs(np.stack([one.scores for one in asked(model, given)]) - expected).max() < 1e-5
    assert "crop_pct=0.9" in model.input


def test_a_model_of_torchvision_sees_what_torchvision_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    models = pytest.importorskip("torchvision.models")
    net = models.shufflenet_v2_x0_5(weights=None).eval()
    monkeypatch.setattr(models, "get_model", lambda name, weights: net)
    model, given = open_model("torchvision:shufflenet_v2_x0_5"), pictures(2, 300, 260)
    transform = models.get_model_weights("shufflenet_v2_x0_5")["DEFAULT"].transforms()
    with torch.inference_mode():
        expected = net(torch.stack([transform(Image.fromarray(picture)) for picture in given])).numpy()
    assert np.abs(np.stack([one.scores for one in asked(model, given)]) - expected).max() < 1e-5
    assert model.classes is not None
    assert (len(model.classes), model.classes[0]) == (1000, "tench")
    assert "crop_size=[224]" in model.input


def test_clip_chooses_among_the_labels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = ["a</w>", "photo</w>", "of</w>", "bus</w>", "car</w>"]
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *words[1:], "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=[])
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1}
    text = {"vocab_size": len(tokens), "max_position_embeddings": 32, "projection_dim": 8, **TINY, **ends}
    vision = {"image_size": 32, "projection_dim": 8, **TINY}
    net = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    shown = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = transformers.CLIPProcessor(shown, tokenizer)
    for part in (net, processor):
        part.save_pretrained(tmp_path)
    given, labels = pictures(3), ["bus", "car", "truck"]
    model = open_model(f"clip:{tmp_path}", None, labels)
    prompts = [f"a photo of a {label}" for label in labels]
    with torch.inference_mode():
        inputs = processor(text=prompts, images=given, return_tensors="pt", padding=True)
        expected = net.eval()(**inputs).logits_per_image.numpy()
    answers = asked(model, given)
    assert np.abs(np.stack([answer.scores for answer in answers]) - expected).max() < 1e-4
    assert model.classes == dict(enumerate(labels))
    assert open_model(f"clip:{tmp_path}", None, labels[:2]).digest != model.digest
    with pytest.raises(CounterfactoryError, match="name them by --classes"):
        open_model(f"clip:{tmp_path}")
