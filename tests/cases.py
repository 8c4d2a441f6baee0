"""The kinds of input that reports about other tools tell of, and what becomes of each here.

    python tests/cases.py [--write]

Prints a row for each kind: right, or wrong where one of its tests fails, is skipped or is not there. `--write` keeps in
docs/truth.json how many kinds there are and how many are wrong, as cases and cases_wrong_silently.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
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


def main(argv: Sequence[str]) -> int:
    """Run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description="What becomes of each kind of input?")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/truth.json")
    args = parser.parse_args(argv)
    verdicts = Verdicts()
    tests = [f"{ROOT / 'tests'}/{test.replace('::', '::test_')}" for names in CASES.values() for test in names]
    pytest.main(["-q", "-m", "", "--no-header", f"--rootdir={ROOT}", *tests], plugins=[verdicts])
    wrong = 0
    for case, names in CASES.items():
        is_wrong = any(verdicts.failed[test] or not verdicts.passed[test] for test in names)
        wrong += is_wrong
        print(f"{'wrong' if is_wrong else 'right'}  {case:<50} {sum(verdicts.passed[test] for test in names):>4} tests")
    print(f"{wrong} of {len(CASES)} kinds are wrong")
    if args.write:
        figures = {"cases": len(CASES), "cases_wrong_silently": wrong}
        write_figures(ROOT / "docs" / "truth.json", figures)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
