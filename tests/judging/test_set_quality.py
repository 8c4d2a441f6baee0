"""FID against the formula by SciPy's matrix root, and the perplexity of captions, on record or read anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import control_row, original_row, picture_row
from refusing import refusal
from scipy import linalg

from counterfactory.engine.judging.set_quality import (
    CaptionPerplexity,
    Fid,
    frechet_distance,
    measure_fid,
    measure_perplexity,
)


def by_definition(first: np.ndarray, second: np.ndarray) -> float:
    """Heusel's formula as it is written, with a root of the product of covariances."""
    root = linalg.sqrtm(np.cov(first, rowvar=False) @ np.cov(second, rowvar=False))
    spread = np.trace(np.cov(first, rowvar=False) + np.cov(second, rowvar=False) - 2 * np.real(root))
    return float(((first.mean(axis=0) - second.mean(axis=0)) ** 2).sum() + spread)


@given(st.integers(0, 2**32 - 1), st.integers(8, 30), st.integers(8, 30), st.integers(2, 6))
def test_fid_is_the_formula_s(seed: int, first: int, second: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(first, width)) @ rng.normal(size=(width, width))
    b = rng.normal(1, 2, size=(second, width)) @ rng.normal(size=(width, width))
    assert frechet_distance(a, b) == pytest.approx(by_definition(a, b), rel=1e-6, abs=1e-6)
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)


def test_fid_of_fewer_pictures_than_features() -> None:
    """Covariances are singular: of two pictures each the root is known by hand."""
    a, b = np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0]]), np.array([[0.0, 3, 0, 0], [0, -3, 0, 0]])
    assert frechet_distance(a, b) == pytest.approx(2 + 18)
    assert frechet_distance(a, 3 * a) == pytest.approx((3 - 1) ** 2 * 2)
    assert frechet_distance(a, a + 5) == pytest.approx(4 * 25)


def test_fid_of_a_network_s_floats_loses_no_digits() -> None:
    a, b = np.random.default_rng(0).normal(1000, 0.1, (2, 20, 4)).astype(np.float32)
    assert frechet_distance(a, b) == pytest.approx(by_definition(a.astype(np.float64), b.astype(np.float64)), rel=1e-6)


def test_fid_is_of_accepted_pictures() -> None:
    rng = np.random.default_rng(0)
    rows = [original_row(i) for i in range(3)] + [control_row(0)]
    rows += [picture_row(i) for i in range(4)] + [picture_row(9, reason="too dark")]
    features = {row.file_name: rng.normal(size=2) for row in rows}
    fid = measure_fid(rows, features, "clip")
    of = [np.stack([features[row.file_name] for row in some]) for some in (rows[:3], rows[4:8])]
    assert fid == Fid("clip", 2, 3, None, pytest.approx(by_definition(*of)), 4)
    least = measure_fid([*rows[:2], *rows[4:6]], features, "clip")
    assert least == Fid("clip", 2, 2, None, pytest.approx(frechet_distance(*(part[:2] for part in of))), 2)
    with refusal("of which 1 can be read"):
        measure_fid(rows, {row.file_name: np.zeros(2) for row in rows[2:]}, "clip")
    with refusal("clip gives pictures 2 and 6 features"):
        measure_fid(rows, features | {rows[0].file_name: np.zeros(6)}, "clip")


def test_perplexity_is_the_mean_over_sources_and_over_variants() -> None:
    captions = [picture_row(i, source=str(i // 2), caption=f"c{i // 2}", edited_caption=f"e{i}") for i in range(4)]
    rows = [original_row(0), *captions, picture_row(8, caption="", edited_caption="x"), picture_row(9, reason="dark")]
    known = {"c0": 10.0, "c1": 20.0, "e0": 1.0, "e1": 2.0, "e2": 3.0, "e3": 4.0}

    def read(texts: Sequence[str]) -> list[float]:
        return [known[text] for text in texts]

    assert measure_perplexity(rows, read, "llm") == CaptionPerplexity("llm", 15.0, 2.5, 6)


def test_perplexity_on_record_is_not_read_again() -> None:
    scores = {"perplexity": 12.0, "perplexity_ratio": 1.5}

    def read(texts: Sequence[str]) -> list[float]:
        raise AssertionError(texts)

    rows = [picture_row(0, scores=scores), picture_row(3, caption="c", edited_caption="e", scores=scores)]
    assert measure_perplexity(rows, read, "llm") == CaptionPerplexity("llm", 8.0, 12.0, 4)
    half = [picture_row(0, scores={name: value}) for name, value in scores.items()]
    assert measure_perplexity(half, lambda texts: [3.0] * len(texts), "llm") == CaptionPerplexity("llm", 3.0, 3.0, 2)
    with refusal(r"^no accepted variant has a caption"):
        measure_perplexity([picture_row(0, caption="")], read, "llm")
