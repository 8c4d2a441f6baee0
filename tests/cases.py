"""The kinds of input that reports about other tools tell of, and what becomes of each here.

    python tests/cases.py [--write]

Runs the tests that carry the mark `case` and prints a row for each case: right, or wrong where one of its tests fails.
`--write` keeps in docs/truth.json how many there are and how many are wrong, as cases and cases_wrong_silently.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from mutants import write_figures

ROOT = Path(__file__).parents[1]


class Verdicts:
    """What pytest tells of the tests of each case: how many there are, and how many fail."""

    def __init__(self) -> None:
        self.tests: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self._case_of: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of each case."""
        for item in session.items:
            for mark in item.iter_markers("case"):
                case = str(mark.args[0])
                self._case_of[item.nodeid] = case
                self.tests[case] = self.tests.get(case, 0) + 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count those that fail, or are skipped and so tell nothing."""
        if report.nodeid in self._case_of and not report.passed:
            case = self._case_of[report.nodeid]
            self.failed[case] = self.failed.get(case, 0) + 1


def main(argv: Sequence[str]) -> int:
    """Run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description="What becomes of each kind of input?")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/truth.json")
    args = parser.parse_args(argv)
    verdicts = Verdicts()
    pytest.main(["-q", "-m", "case", "--no-header", str(ROOT / "tests")], plugins=[verdicts])
    for case in sorted(verdicts.tests):
        wrong = verdicts.failed.get(case, 0)
        print(f"{'wrong' if wrong else 'right':<6} {case:<60} {verdicts.tests[case]:>3} tests")
    print(f"{len(verdicts.failed)} of {len(verdicts.tests)} cases are wrong")
    if args.write:
        figures = {"cases": len(verdicts.tests), "cases_wrong_silently": len(verdicts.failed)}
        write_figures(ROOT / "docs" / "truth.json", figures)
    return int(bool(verdicts.failed) or not verdicts.tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
