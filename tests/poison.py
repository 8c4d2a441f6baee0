"""Every small network gives NaN or infinity in one row, under every runtime: `python tests/poison.py [--write]`.

Runs test_assembled.py's poisons, all of them where CI runs some: a run that ends with the network's name, and keeps
nothing of it, has caught one. `--write` keeps in docs/a10g.json how many were tried and caught, as poison_tried and
poison_caught.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pytest
from cases import Verdicts
from full_size import FIGURES
from mutants import ROOT, write_figures

TEST = "test_assembled.py::a_network_that_goes_wrong_in_one_row_ends_the_run"


class AllPoisons:
    """Asks test_assembled.py for all of them."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Before tests are collected."""
        config.all_poisons = True  # type: ignore[attr-defined]


def main(argv: Sequence[str]) -> int:
    """Run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description="Is every network caught that gives no numbers?")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/a10g.json")
    args = parser.parse_args(argv)
    verdicts, test = Verdicts(), f"{ROOT / 'tests'}/{TEST.replace('::', '::test_')}"
    pytest.main(["-q", "-m", "", "--no-header", f"--rootdir={ROOT}", test], plugins=[verdicts, AllPoisons()])
    caught, failed = verdicts.passed[TEST], verdicts.failed[TEST]
    print(f"{caught} of {caught + failed} poisons are caught")  # noqa: T201 - a command's output
    if args.write:
        write_figures(FIGURES, {"poison_caught": caught, "poison_tried": caught + failed})
    return int(failed > 0 or not caught)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
