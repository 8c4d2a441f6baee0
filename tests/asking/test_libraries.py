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
from counterfactory.engine.asking.outputs import UNSEEN, BoxAnswer, MapAnswer, ScoreAnswer
from counterfactory.engine.asking.placement import Placement
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
    tiny_segmenter(tmp_path)
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


def test_a_segmenter_whose_processor_crops_sees_the_middle(tmp_path: Path) -> None:
    """As MobileViT's DeepLab: what was cut off has no class, the rest is the input's map at the picture's scale."""
    tiny_segmenter(tmp_path)
    cropping = transformers.MobileViTImageProcessorPil(
        size={"shortest_edge": 80}, crop_size={"height": 64, "width": 64}
    )
    cropping.save_pretrained(tmp_path)
    model, given = open_model(f"hf:{tmp_path}"), pictures(2)
    assert model.place((40, 56)) == Placement((40, 56), (64, 64), (80, 112), -8, -24)
    answers = asked(model, given)
    logits = model.run(np.stack([model.prepare(picture) for picture in given]), [(40, 56)] * 2).logits
    whole = torch.nn.functional.interpolate(logits, (32, 32), mode="bilinear").argmax(dim=1).numpy()
    for answer, inside in zip(answers, whole, strict=True):
        assert (answer.numbers[4:36, 12:44] == inside).mean() > 0.97
        outside = np.ones((40, 56), bool)
        outside[4:36, 12:44] = False
        assert (answer.numbers[outside] == UNSEEN).all()
        assert (answer.numbers != UNSEEN).sum() == 32 * 32


def test_a_segmenter_whose_processor_is_not_understood_is_refused(tmp_path: Path) -> None:
    tiny_segmenter(tmp_path)
    processor = transformers.SegformerImageProcessorPil(size={"height": 64, "width": 64})
    config = json.loads(processor.to_json_string())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**config, "size_divisor": 7, "do_pad": True}))
    with pytest.raises(CounterfactoryError, match="'size_divisor' is not understood"):
        open_model(f"hf:{tmp_path}")
    declared = open_model(f"hf:{tmp_path}", "letterbox=64 mean=imagenet std=imagenet")
    assert declared.place((40, 56)).input == (64, 64)


def test_boxes_of_a_detector_whose_processor_pads_are_of_the_padded_input(tmp_path: Path) -> None:
    torch.manual_seed(0)
    stages = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "out_features": ["stage2"]}
    shape = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_queries": 5, "encoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 16}
    backbone = {"use_timm_backbone": False, "backbone_config": transformers.ResNetConfig(**stages)}
    config = transformers.DetrConfig(
        **backbone, **shape, **heads, use_pretrained_backbone=False, backbone=None, **LABELS
    )
    net = transformers.DetrForObjectDetection(config)
    fit = {"size": {"max_height": 120, "max_width": 120}, "pad_size": {"height": 120, "width": 120}}
    processor = transformers.DetrImageProcessorPil(**fit)
    for part in (net, processor):
        part.save_pretrained(tmp_path)
    given = pictures(2, 40, 60) + pictures(1, 60, 40)
    model = open_model(f"hf:{tmp_path}")
    for picture in given:
        height, width = picture.shape[:2]
        with torch.inference_mode():
            (boxes,) = net.eval()(**processor(images=[picture], return_tensors="pt")).pred_boxes.numpy()
        scale = 120 / max(height, width)
        x, y, wide, tall = (boxes * 120 / scale).T
        right = np.stack([x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2], axis=1)
        (answer,) = asked(model, [picture])
        corners = [[box.x0, box.y0, box.x1, box.y1] for box in answer.boxes]
        most = np.array([width, height, width, height])
        assert np.abs(np.array(corners) - np.clip(right, 0, most)).max() < 1e-3
    both = asked(model, given[:2])
    assert both[1].boxes[0].x0 == pytest.approx(asked(model, given[1:2])[0].boxes[0].x0, abs=1e-3)


def test_a_detector_of_hugging_face_takes_declared_words(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.YolosConfig(image_size=[32, 48], num_detection_tokens=5, **TINY, **LABELS)
    processor = transformers.YolosImageProcessorPil(size={"height": 32, "width": 48})
    for part in (transformers.YolosForObjectDetection(config), processor):
        part.save_pretrained(tmp_path)
    words = "resize=32x48 interpolation=bilinear mean=imagenet std=imagenet"
    own, declared = (asked(open_model(f"hf:{tmp_path}", way), pictures(1))[0] for way in (None, words))
    for one, other in zip(own.boxes, declared.boxes, strict=True):
        assert (one.x0, one.y1, one.label) == (
            pytest.approx(other.x0, abs=1e-2),
            pytest.approx(other.y1, abs=1e-2),
            other.label,
        )


def tiny_segmenter(folder: Path) -> None:
    torch.manual_seed(0)
    blocks = {"num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [8, 8], "num_attention_heads": [1, 1]}
    shape = {"sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [1, 1]}
    config = transformers.SegformerConfig(**blocks, **shape, decoder_hidden_size=8, **LABELS)
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(folder)


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
