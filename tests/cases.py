"""The kinds of input that reports about other tools tell of, and what becomes of each here.

    python tests/cases.py [--only models] [--write]

Prints a row for each kind of data: right, or wrong where one of its tests fails, is skipped or is not there. Then a row
for each report about models and their answers (model_cases/), rebuilt and judged by the command line: its verdict, what
is right, what came of it where that differs, and the last sentence that was said.

`--write` keeps the first table's figures in docs/truth.json (cases, cases_wrong_silently), the second's in
docs/evaluation.json (model_cases, model_cases_wrong_silently, model_cases_crashed), and the second table, with its date
and the digest of the code that made it, in docs/model_cases.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pytest
from model_cases.all import CASES as REPORTS
from model_cases.table import Case, code_digest, differences, working_in
from mutants import write_figures

ROOT = Path(__file__).parents[1]
CONTENTS, NAMES, OBJECTS = "sources/test_mask_contents.py", "sources/test_names.py", "sources/test_objects.py"
LABELS, ANSWERS, MASKS = "sources/test_labels.py", "judging/test_answer_labels.py", "judging/test_mask_answers.py"
# The tests of each kind, without "test_".
CASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "masks of 0 and 255": (
            f"{CONTENTS}::black_and_white_are_two_classes",
            f"{CONTENTS}::a_map_names_white",
            f"{CONTENTS}::one_number_is_nothing_to_judge_by",
            f"{MASKS}::black_and_white_answer_two_classes",
            f"{MASKS}::masks_of_one_class_judge_nobody",
            "cli/test_data_sets.py::a_model_that_sees_nothing_in_black_and_white_masks",
        ),
        "answers in trainIds, shifted or unknown numbers": (
            f"{MASKS}::right_answers_in_other_numbers_are_refused_with_their_cause",
            f"{MASKS}::from_a_tenth_on_numbers_that_are_no_class_are_refused",
        ),
        "masks in another encoding than their map": (
            f"{CONTENTS}::masks_in_trainids_under_the_map_of_labelids",
            f"{CONTENTS}::a_map_by_which_nearly_everything_counts_for_nothing",
        ),
        "things that are marked as crowds": (
            "sources/test_boxes.py::crowds_are_no_things_unless_nearly_all_are_marked",
        ),
        "own classes in VOC's folders": (
            f"{NAMES}::names_in_the_folder_of_a_set_like_voc",
            f"{NAMES}::voc_s_names_are_not_used_where_something_contradicts_them",
        ),
        "corners read as sizes, and other forms of boxes": (
            "sources/test_boxes.py::numbers_that_mean_another_form_are_refused_with_what_to_say",
            "sources/test_boxes.py::an_area_tells_corners_where_no_box_leaves_its_picture",
            "sources/test_boxes.py::shares_are_no_pixels",
        ),
        "keypoints and outlines among boxes": (
            "sources/test_boxes.py::keypoints_that_the_file_does_not_name_are_no_outlines",
            "sources/test_boxes.py::lines_of_another_kind_are_said",
        ),
        "objects in other keys": (
            f"{OBJECTS}::lists_of_things_and_dicts_of_lists",
            f"{OBJECTS}::classes_by_any_of_their_keys",
            f"{OBJECTS}::a_bad_thing_costs_its_own_row",
            f"{OBJECTS}::unknown_objects_are_named",
        ),
        "composed and decomposed names": (f"{LABELS}::class_folders_in_two_unicode_forms_are_one_class",),
        "masks among photographs": (
            "sources/test_aside.py::masks_beside_photographs_are_left_out",
            "sources/test_aside.py::photographs_stay",
            "cli/test_refusals.py::masks_are_no_sources",
        ),
        "thumbnails": ("sources/test_aside.py::thumbnails_are_left_out_and_small_pictures_of_something_else_are_not",),
        "names from a foreign file": (
            f"{NAMES}::names_of_a_yolo_set",
            f"{NAMES}::names_that_cannot_be_told_are_refused",
        ),
        "palettes in another order": (f"{CONTENTS}::palettes_in_another_order_are_refused_without_their_colours",),
        "smoothed masks": (
            f"{CONTENTS}::smoothed_masks_are_refused",
            f"{CONTENTS}::smoothed_colours_and_photographs_are_refused",
        ),
        "one mask for two pictures": (f"{CONTENTS}::a_mask_of_two_pictures_is_said",),
        "twelve bits in sixteen, thermal pictures": ("sources/test_pixels.py::a_sensor_s_values_are_no_picture_yet",),
        "nan as a label, 3.0 as a number": (
            f"{LABELS}::tables_have_no_label_where_a_program_wrote_none",
            f"{LABELS}::columns_of_the_hub",
        ),
        "JPEGs broken in the middle": (
            "sources/test_jpeg.py::a_file_that_was_cut_off_and_ended_is_seen",
            "sources/test_jpeg.py::a_hole_in_the_middle_is_mostly_seen",
            "sources/test_jpeg.py::whole_pictures_are_whole",
        ),
        "answers that are no label": (
            f"{ANSWERS}::a_tenth_of_answers_that_nobody_knows_is_refused_and_less_is_named",
            f"{ANSWERS}::numbers_become_names_in_image_folder_s_order_when_asked",
        ),
        "a second picture column": (f"{NAMES}::a_second_picture_is_a_mask_by_its_name",),
        "what plan accepts and generate refuses": ("cli/test_refusals.py::plan_refuses_what_generate_refuses",),
    }
)


class Verdicts:
    """Hears from pytest which tests passed and which did not, by their names without parameters."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a test that ran, and one that failed or was skipped at any time."""
        test = report.nodeid.partition("[")[0].removeprefix("tests/").replace("::test_", "::")
        if not report.passed:
            self.failed[test] += 1
        elif report.when == "call":
            self.passed[test] += 1


def _run_tests() -> tuple[int, int]:
    """Run the tests of all kinds of data, and print a row for each: (kinds, wrong ones)."""
    verdicts = Verdicts()
    tests = [f"{ROOT / 'tests'}/{test.replace('::', '::test_')}" for names in CASES.values() for test in names]
    pytest.main(["-q", "-m", "", "--no-header", f"--rootdir={ROOT}", *tests], plugins=[verdicts])
    wrong = 0
    for case, names in CASES.items():
        is_wrong = any(verdicts.failed[test] or not verdicts.passed[test] for test in names)
        wrong += is_wrong
        print(f"{'wrong' if is_wrong else 'right'}  {case:<50} {sum(verdicts.passed[test] for test in names):>4} tests")
    print(f"{wrong} of {len(CASES)} kinds are wrong")
    return len(CASES), wrong


def _judge(report: Case, folder: Path) -> dict[str, Any]:
    """A row of the table of reports."""
    with working_in(folder) as workshop:
        try:
            found, crashed = report.find(workshop), any(outcome.crashed for outcome in workshop.outcomes)
        except Exception as error:  # a report that cannot even be read ends like a bug
            found, crashed = {"error": f"{type(error).__name__}: {error}"}, True
    other = differences(report.right, found)
    verdict = "crashed" if crashed else "wrong" if other else "right"
    right = {key: getattr(value, "pattern", value) for key, value in report.right.items()}
    row = {"case": report.name, "source": report.source, "right": right, "verdict": verdict}
    return row | ({"found": {key: found.get(key) for key in other}} if other else {}) | {"said": workshop.sentence}


def _judge_reports() -> list[dict[str, Any]]:
    """Judge all reports, and print a row for each."""
    rows = []
    for number, report in enumerate(REPORTS):
        with TemporaryDirectory() as folder:
            rows.append(_judge(report, Path(folder).resolve() / f"case_{number}"))
        row = rows[-1]
        print(f"{row['verdict']:<8} {row['case']:<60} {row['right']}")
        print(f"         {row['said'][:300]}" if row["verdict"] == "right" else f"         FOUND {row.get('found')}")
    verdicts = Counter(row["verdict"] for row in rows)
    print(f"{len(rows)} reports: " + ", ".join(f"{verdicts[name]} {name}" for name in ("right", "wrong", "crashed")))
    return rows


def main(argv: Sequence[str]) -> int:
    """Run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description="What becomes of each kind of input?")
    parser.add_argument("--write", action="store_true", help="keep tables and figures in docs/")
    parser.add_argument("--only", choices=("data", "models"), help="one of the two tables")
    args = parser.parse_args(argv)
    status = 0
    if args.only != "models":
        kinds, wrong = _run_tests()
        status |= wrong > 0
        if args.write:
            write_figures(ROOT / "docs" / "truth.json", {"cases": kinds, "cases_wrong_silently": wrong})
    if args.only != "data":
        rows = _judge_reports()
        verdicts = Counter(row["verdict"] for row in rows)
        status |= verdicts["right"] < len(rows)
        if args.write:
            figures = {"": len(rows), "_wrong_silently": verdicts["wrong"], "_crashed": verdicts["crashed"]}
            named = {f"model_cases{name}": count for name, count in figures.items()}
            write_figures(ROOT / "docs" / "evaluation.json", named)
            table = {"date": time.strftime("%Y-%m-%d"), "code": code_digest(), "cases": rows}
            text = json.dumps(table, indent=1, ensure_ascii=False)
            (ROOT / "docs" / "model_cases.json").write_text(f"{text}\n", encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
