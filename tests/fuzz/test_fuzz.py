"""No reader ends otherwise than in a value or a sentence, whatever bytes it is given; `make fuzz` tries for longer."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fuzz import fuzz
from readers import READERS

ENGINE = Path(__file__).parents[2] / "engine"
# Inputs of each reader: with as many in each of CI's slow tests all of them together take a core about a minute.
COUNT = 300
# Calls that bring bytes or texts of files into the engine.
BRINGING = {
    *("read_text", "read_json", "parse_json", "read_toml", "read_table", "read_blob", "read_bytes", "open_file"),
    *("parse_array", "read_array", "read_known", "open_parquet", "imdecode", "fromstring", "deserialize", "connect"),
}
# By readers of the table, who calls them: functions and classes of the engine.
READ_BY = {
    "names of a model's numbers": ["api/answers.class_names"],
    "array of answers": ["api/model_answers.array_answers", "files/arrays.read_array"],
    "a pipeline's labels": ["api/model_answers.json_predictions"],
    "boxes": ["api/box_files.json_boxes"],
    "preparation": ["asking/published_inputs.read_published"],
    "ONNX of a user": ["runtime/onnx_file.read_onnx_file"],
    "what a model says of itself": ["asking/model_file._published"],
    "rates": ["estimate/measured._entries"],
    "TOML": ["files/fill.read_toml"],
    "JSON": ["files/reading.read_bytes", "files/reading.read_text", "files/reading.read_json"],
    "table of CSV": ["files/tables.read_table"],
    "table of Parquet": ["files/tables.open_parquet", "files/tables._parquet_rows"],
    "table of JSONL": ["files/tables._jsonl_rows"],
    "names of a model's classes": ["judging/answer_labels.read_names"],
    "labelmap of TensorFlow": ["judging/answer_labels._item_names"],
    "labelled edits": ["judging/edit_labels.read_labelled"],
    "predictions of CSV": ["judging/predictions.load_predictions"],
    "predictions of Parquet": ["judging/predictions._parquet_rows"],
    "valid": ["judging/threshold_curve.load_valid"],
    "answer about words": ["language/questions._read"],
    "vocabulary": ["language/token_filter.read_vocabulary", "language/token_filter._without_prefix_space"],
    "tokenizer": ["language/token_filter.load_tokenizer"],
    "latents": ["models/library.Library"],
    "tokens of the captioner": ["models/model_pool.ModelPool"],
    "facts": ["models/plan_facts.load_facts"],
    "words": ["models/text_networks.MaskVocabulary"],
    "profile": ["profile/profile._load"],
    "ONNX": ["runtime/onnx_header.read_ports"],
    "norms in ONNX": ["runtime/cuda_norms.norms_for_cuda"],
    "plan key": ["runtime/plans.read_key"],
    "manifest": ["runtime/plans.read_exported"],
    "workflow": ["server/comfyui._read_workflow"],
    "server's answer": ["server/comfyui.ComfyUi", "server/exchange.Exchange", "server/openai_edits.OpenAiEdits"],
    "class map": ["sources/class_map.load_class_map"],
    "VOC's labels": ["sources/class_map.label_lines"],
    "Mapillary's classes": ["sources/class_map._mapillary"],
    "labelme": ["sources/labelling_tools._read"],
    "BDD100K": ["sources/labelling_tools._bdd100k_frames"],
    "names of labels": ["sources/class_map._plain_names"],
    "COCO": ["sources/coco._Annotations"],
    "depth": ["sources/depth.open_depth", "sources/depth.read_depth"],
    "world": ["sources/domain.world_of"],
    "edited pairs": ["sources/edited_pairs._Table"],
    "ImageNet's labels": ["sources/imagenet._read_truths"],
    "real pictures": ["sources/real_pictures.read_real"],
    "recipe": ["training/recipe.load_recipe"],
    "lesson": ["training/lesson.read_lesson"],
    "table of sources": ["sources/listing._Rows"],
    "palette": ["sources/palette.load_palette"],
    "picture size": ["sources/pixels.picture_size"],
    "classes": ["sources/sampling.parse_classes"],
    "shard": ["sources/shards._samples", "sources/shards._label"],
    "list of VOC": ["sources/voc._split_names"],
    "VOC": ["sources/voc._add_boxes"],
    "YOLO names": [f"sources/yolo.{name}" for name in ("is_yolo", "_is_about_classes", "_load", "_list_of")],
    "YOLO labels": ["sources/yolo._LabelLines"],
    "review": ["review/answer_book.AnswerBook"],
    "questions of a review": ["review/question_set.load_questions"],
    "answers of a review": ["review/answer_tables._unfolded"],
    "posted to a review": ["review/serving.ReviewApp"],
    "part": ["cluster/parts.Part"],
    "status": ["suite/status.read_status"],
    "by hand": ["suite/by_hand.read_by_hand"],
    "rulings": ["suite/by_hand.read_rulings"],
    "metadata": ["suite/contents.read_table", "suite/metadata._open_parts"],
    "record": ["suite/contents.read_record"],
    "PNG of a suite": ["suite/images.read_png"],
    "ledger": ["suite/ledger.Ledger", "suite/ledger._read_once", "suite/sql.connect"],
    "interventions": ["tasks/user_task.load_interventions"],
    "types": ["tasks/user_task.load_types"],
    "task": ["tasks/user_task.load_task"],
}
# Who reads what is our own, the machine's or this process's, or hands pictures on to what is in the table.
OTHERS = {
    *("api/predicting._load", "cli/gpus.has_nvidia_card", "cli/rehearse.Rehearsal", "cli/cluster_commands.split"),
    *("cluster/merging._copy_files", "cluster/packing._samples", "cluster/parts.FolderPlace"),
    *("cluster/parts.write_part", "cluster/worker._OpenWorker", "english/label_names._synonyms"),
    "english/conditions._lexicon",
    *("english/menus._phrases", "english/nouns.load_nouns", "judging/mask_answers.read_class_mask", "keys.file_digest"),
    *("light/camera.compressed", "meter/energy._processors", "meter/energy._number", "meter/machine.cpu_model"),
    *("meter/machine.machine_memory", "meter/machine.free_memory", "meter/memory._status"),
    *("meter/machine.mounted_disks", "suite/status.listing"),
    *("profile/published.checkpoints_of", "report/page._read_part", "review/serving._file"),
    *("runtime/trt_library.load_engine", "runtime/trt_library.make_context", "sources/aside._opened"),
    "sources/companions.heads",
    *("sources/blobs.read_blob", "sources/blobs.read_known", "sources/coco._of_size", "sources/given.open_given"),
    *("sources/given.load_given", "sources/source.Mask", "sources/source.load_pixels", "sources/source.Reader"),
    *("sources/voc._fits", "sources/voc._contradiction", "suite/contents.digest_of", "suite/images.open_png"),
    *("suite/metadata.accepted_edits", "suite/row_spool.RowSpool", "suite/sql.create", "suite/suite.Suite"),
}


def bringing(tree: ast.Module) -> set[str]:
    """The functions and classes of a module that bring bytes or texts in."""
    return {
        top.name
        for top in tree.body
        if isinstance(top, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(top)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BRINGING
    }


def test_whoever_reads_is_fuzzed() -> None:
    assert bringing(ast.parse("def f(x):\n    return [tables.read_table(x)]\ndef g(x): return x.read()")) == {"f"}
    assert READ_BY.keys() <= READERS.keys()
    fuzzed = {function for functions in READ_BY.values() for function in functions}
    assert not fuzzed & OTHERS
    modules = {path.relative_to(ENGINE).with_suffix("").as_posix(): path for path in ENGINE.rglob("*.py")}
    reading = {
        f"{name}.{top}" for name, path in modules.items() for top in bringing(ast.parse(path.read_text("utf-8")))
    }
    assert reading == fuzzed | OTHERS, "fuzz a new reader in tests/fuzz/readers.py"


@pytest.mark.parametrize("name", READERS)
def test_what_once_was_uncaught_is_a_sentence_now(name: str) -> None:
    """And so are the first few changes."""
    result = fuzz(name, count=len(READERS[name].once) + len(READERS[name].seeds()) + 4)
    assert not result.uncaught


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_every_input_is_a_value_or_a_sentence(name: str) -> None:
    result = fuzz(name, count=COUNT)
    assert result.inputs == COUNT
    assert not result.uncaught
