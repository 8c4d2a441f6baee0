"""What masks hold is said; numbers that cannot be those of classes are refused, or said to be strange."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from small_sets import encoded, noise, read, refuse, save, save_mask, write

from counterfactory.engine.sources.data_set import DataSet
from counterfactory.engine.sources.mask_contents import examine_mask
from counterfactory.engine.sources.sampling import Selection
from counterfactory.engine.sources.source import load_mask

AS_CLASS = "white is class 1 (--class-map names it, or says that it counts for nothing)"


def scene(seed: int, numbers: Sequence[int] = (0, 1, 2, 3)) -> NDArray[np.uint8]:
    """Ellipses of the other numbers before the first, 96 x 128, drawn without smoothing."""
    random = np.random.default_rng(seed)
    image = Image.new("L", (128, 96), numbers[0])
    for i in range(4 * (len(numbers) - 1)):
        (x, y), (width, height) = random.integers(0, 90, 2), random.integers(12, 40, 2)
        ImageDraw.Draw(image).ellipse((x, y, x + width, y + height), fill=numbers[1 + i % (len(numbers) - 1)])
    return np.array(image)


def masks_of(root: Path, masks: Sequence[Any]) -> Path:
    """A set of noise with these masks."""
    (root / "masks").mkdir(parents=True)
    for i, mask in enumerate(masks):
        image = mask if isinstance(mask, Image.Image) else Image.fromarray(mask)
        image.save(root / "masks" / f"{i}.png")
        save(root / "images" / f"{i}.png", i, image.height, image.width)
    return root


def with_palette(mask: NDArray[np.uint8], palette: NDArray[np.uint8]) -> Image.Image:
    image = Image.fromarray(mask, mode="P")
    image.putpalette(palette.ravel().tolist())
    return image


def loaded(found: DataSet) -> list[NDArray[Any]]:
    return [load_mask(source, source.size) for source in found.sources]


BLACK_WHITE: dict[str, Callable[[NDArray[np.uint8]], Any]] = {
    "L": lambda seen: 255 * seen,
    "RGB": lambda seen: np.repeat(255 * seen[..., None], 3, 2),
    "RGBA": lambda seen: np.dstack([np.repeat(255 * seen[..., None], 3, 2), np.full(seen.shape, 255, np.uint8)]),
    "LA": lambda seen: np.dstack([255 * seen, np.full_like(seen, 255)]),
    "alpha alone": lambda seen: np.dstack([np.zeros((*seen.shape, 3), np.uint8), 255 * seen]),
    "alpha alone, white": lambda seen: np.dstack([np.full((*seen.shape, 3), 255, np.uint8), 255 * seen]),
    "alpha of grey alone": lambda seen: np.dstack([np.zeros_like(seen), 255 * seen]),
    "clear background": lambda seen: np.dstack([np.repeat(255 * seen[..., None], 3, 2), 255 * seen]),
    "P": lambda seen: Image.fromarray(255 * seen).convert("P"),
    "16 bit": lambda seen: seen.astype(np.uint16) * 65_535,
}


@pytest.mark.parametrize("kind", BLACK_WHITE)
def test_black_and_white_are_two_classes(kind: str, tmp_path: Path) -> None:
    seen = [scene(i, (0, 1)) for i in range(3)]
    seen[2][:] = 0  # a picture without the thing
    found = read(masks_of(tmp_path, [BLACK_WHITE[kind](mask) for mask in seen]))
    assert found.class_names == {0: "background", 1: "object"}
    share = 100 * np.mean(seen)
    shares = f"background {100 - share:.1f} %, object {share:.1f} %"
    assert found.contents == [f"masks hold {shares}; every pixel counts; {AS_CLASS}"]
    assert (found.classes, [source.classes for source in found.sources]) == ([], [(), (), ()]), "no caption's words"
    for mask, expected in zip(loaded(found), seen, strict=True):
        np.testing.assert_array_equal(mask, expected)


def test_black_and_white_have_keys_of_their_own(tmp_path: Path) -> None:
    """A suite that was made while 255 counted for nothing is not gone on with."""
    root = masks_of(tmp_path / "set", [255 * scene(i, (0, 1)) for i in range(2)])
    found = read(root)
    as_void = read(root, class_map=str(write(tmp_path / "map.toml", 'ignore = [255]\n[classes]\n0 = "a"\n1 = "b"\n')))
    assert not {source.key for source in found.sources} & {source.key for source in as_void.sources}
    assert [set(np.unique(mask)) for mask in loaded(as_void)] == [{0, 255}] * 2
    assert [source.key for source in read(root).sources] == [source.key for source in found.sources]


@pytest.mark.parametrize(
    ("name", "text", "names", "values"),
    [
        ("map.toml", '[classes]\n0 = "ground"\n255 = "crack"\n', {0: "ground", 1: "crack"}, {0, 1}),
        ("names.txt", "ground\ncrack\n", {0: "ground", 1: "crack"}, {0, 1}),
        ("map.toml", '[classes]\n"0 0 0" = "ground"\n"#ffffff" = "crack"\n', {0: "ground", 1: "crack"}, {0, 1}),
        ("names.txt", "ground\ncrack\nrust\n", {0: "ground", 1: "crack", 2: "rust"}, {0, 255}),
    ],
)
def test_a_map_names_white(name: str, text: str, names: dict[int, str], values: set[int], tmp_path: Path) -> None:
    root = masks_of(tmp_path / "set", [255 * scene(i, (0, 1)) for i in range(2)])
    found = read(root, class_map=str(write(tmp_path / name, text)))
    assert (found.class_names, found.problems) == (names, [])
    assert {int(value) for mask in loaded(found) for value in np.unique(mask)} == values
    assert found.sources[0].classes == tuple(sorted({"crack", "ground"} if 1 in values else {"ground"}))
    assert found.contents[-1] == f"names of classes: {tmp_path / name}"


def test_255_beside_other_classes_takes_the_first_free_number(tmp_path: Path) -> None:
    mask = scene(0, (0, 1, 255, 7))
    root = masks_of(tmp_path / "set", [mask])
    text = 'ignore = [7]\n[classes]\n0 = "ground"\n1 = "rust"\n255 = "crack"\n'
    found = read(root, class_map=str(write(tmp_path / "map.toml", text)))
    assert found.class_names == {0: "ground", 1: "rust", 2: "crack"}
    expected = np.select([mask == number for number in (0, 1, 255, 7)], (0, 1, 2, 255))
    np.testing.assert_array_equal(loaded(found)[0], expected)


@pytest.mark.parametrize("numbers", [(0, 1), (0, 128), (0, 1, 255), (3, 1, 2), range(8)])
def test_other_numbers_stay_and_are_said_the_largest_first(numbers: Sequence[int], tmp_path: Path) -> None:
    mask = scene(1, numbers)
    found = read(masks_of(tmp_path, [mask]))
    shares = {n: 100 * np.mean(mask == n) for n in numbers}
    void = f"{shares.pop(255):.1f} % of the pixels count for nothing" if 255 in shares else "every pixel counts"
    listed = [f"{n} {shares[n]:.1f} %" for n in sorted(shares, key=lambda n: -shares[n])]
    more = f" and {len(listed) - 5} more classes" if len(listed) > 5 else ""
    assert found.contents == [f"masks hold {', '.join(listed[:5])}{more}; {void}"]
    assert (found.class_names, found.notes) == ({}, [])
    np.testing.assert_array_equal(loaded(found)[0], mask)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.full((96, 128), 255, np.uint8), "masks show nothing, so no model can be judged by them"),
        (np.zeros((96, 128), np.uint8), "masks show 0 alone, so no model can be judged by them"),
        (scene(0, (255, 1)), "masks show 1 alone, so no model can be judged by them"),
    ],
)
def test_one_number_is_nothing_to_judge_by(mask: NDArray[np.uint8], said: str, tmp_path: Path) -> None:
    found = read(masks_of(tmp_path, [mask]))
    assert found.contents[1].startswith(said)
    assert found.class_names == {}


def test_masks_of_0_and_1_among_those_of_0_and_255(tmp_path: Path) -> None:
    seen = [scene(i, (0, 1)) for i in range(3)]
    (note,) = read(masks_of(tmp_path, [seen[0], 255 * seen[1], 0 * seen[2]])).notes
    assert note.startswith("some masks hold 0 and 1, others 0 and 255, which counts for nothing; save all alike")


def test_masks_in_trainids_under_the_map_of_labelids(tmp_path: Path) -> None:
    root = masks_of(tmp_path, [scene(0, (0, 2, 13, 8)), scene(1, (10, 2, 11, 255))])
    (note,) = read(root, class_map="cityscapes").notes
    assert note.endswith(
        "% of the masks' pixels count for nothing by the class map cityscapes; the numbers look like trainIds: "
        "--class-map cityscapes-trainids"
    )
    found = read(root, class_map="cityscapes-trainids")
    assert (found.notes, "road" in found.contents[0]) == ([], True)
    # LabelIds hold such numbers too, but not alone.
    right = masks_of(tmp_path / "right", [scene(0, (7, 11, 26, 4))])
    assert read(right, class_map="cityscapes").notes == []


def test_a_map_by_which_nearly_everything_counts_for_nothing(tmp_path: Path) -> None:
    root = masks_of(tmp_path / "set", [scene(0, (9, 1, 2))])
    text = 'ignore = [9]\n[classes]\n1 = "a"\n2 = "b"\n'
    (note,) = read(root, class_map=str(write(tmp_path / "map.toml", text))).notes
    assert "% of the masks' pixels count for nothing by " in note
    assert note.endswith("if the masks have other numbers than that, say by --class-map what they are")


COLOURS = np.random.default_rng(7).integers(0, 256, (256, 3), dtype=np.uint8)


def test_colours_are_said(tmp_path: Path) -> None:
    mask = scene(0, (0, 1))
    found = read(masks_of(tmp_path, [COLOURS[mask]]))
    first, second = (f"{' '.join(map(str, COLOURS[i]))} {100 * np.mean(mask == i):.1f} %" for i in range(2))
    assert found.contents == [
        f"masks are colour-coded: colour {first}, colour {second}; no answers can be judged by them before --class-map "
        "says which class each colour is"
    ]


@pytest.mark.parametrize("behind", [255, 0])
def test_colours_with_an_opaque_alpha_or_a_clear_background_are_colours(behind: int, tmp_path: Path) -> None:
    seen = scene(0, (0, 1))
    coloured = np.where(seen[..., None] == 1, np.uint8([200, 30, 60]), np.uint8(0))
    found = read(masks_of(tmp_path, [np.dstack([coloured, np.where(seen == 1, 255, behind).astype(np.uint8)])]))
    assert "masks are colour-coded: colour 0 0 0 " in found.contents[0]
    np.testing.assert_array_equal(loaded(found)[0], coloured)


def _half_clear(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    mask[0, 0, -1] = 128
    return mask


@pytest.mark.parametrize(
    "mask",
    [
        _half_clear(np.dstack([np.repeat(scene(0)[..., None], 3, 2), np.where(scene(0), 255, 0).astype(np.uint8)])),
        np.dstack([scene(0), np.where(scene(1), 255, 0).astype(np.uint8)]),
        np.dstack([noise(0, 96, 128), 255 * scene(0, (0, 1))]),
    ],
    ids=["half transparent", "grey in both", "a photograph's cut-out"],
)
def test_alpha_that_may_mean_something_costs_its_picture(mask: NDArray[np.uint8], tmp_path: Path) -> None:
    found = read(masks_of(tmp_path, [mask, scene(3)]))
    assert [source.name for source in found.sources] == ["1"]
    assert "alpha" in found.problems[0].reason


def test_a_map_of_colours_ignores_alpha_and_knows_no_classes_in_it(tmp_path: Path) -> None:
    seen = scene(0, (0, 1))
    alone = np.dstack([np.zeros((*seen.shape, 3), np.uint8), 255 * seen])
    text = '[classes]\n"0 0 0" = "ground"\n"255 255 255" = "crack"\n'
    both = np.dstack([np.repeat(255 * seen[..., None], 3, 2), 255 * scene(5, (0, 1))])
    found = read(masks_of(tmp_path / "set", [alone, both]), class_map=str(write(tmp_path / "map.toml", text)))
    assert [source.name for source in found.sources] == ["1"]
    np.testing.assert_array_equal(loaded(found)[0], seen)
    assert "alpha channel alone" in found.problems[0].reason


def test_palettes_in_another_order_are_refused_without_their_colours(tmp_path: Path) -> None:
    masks = [scene(i, (0, 1, 2, 3)) for i in range(3)]
    order = np.array([2, 0, 3, 1])
    moved = COLOURS.copy()
    moved[order] = COLOURS[:4]
    images = [with_palette(masks[0], COLOURS), with_palette(order.astype(np.uint8)[masks[1]], moved)]
    root = masks_of(tmp_path / "set", images)
    refuse(r"masks differ: 0 is colour \d+ \d+ \d+ in the mask of 0 and colour .* in the mask of 1", root)
    refuse("palettes of the masks differ", root, class_map=str(write(tmp_path / "names.txt", "a\nb\nc\nd\n")))
    text = "[classes]\n" + "".join(f'"{" ".join(map(str, COLOURS[i]))}" = "{name}"\n' for i, name in enumerate("abcd"))
    found = read(root, class_map=str(write(tmp_path / "map.toml", text)))
    for mask, expected in zip(loaded(found), masks, strict=False):
        np.testing.assert_array_equal(mask, expected)


def test_palettes_that_agree_on_the_numbers_that_occur(tmp_path: Path) -> None:
    other = COLOURS.copy()
    other[4:] = 9
    seen = [scene(0), scene(1)]
    found = read(masks_of(tmp_path, [with_palette(seen[0], COLOURS), with_palette(seen[1], other), scene(2)]))
    np.testing.assert_array_equal(loaded(found)[1], seen[1])
    # By a map of numbers a palette is a matter of taste, as long as no colour moves.
    root = masks_of(tmp_path / "taste", [with_palette(seen[0], COLOURS), with_palette(seen[1], 255 - COLOURS)])
    refuse("palettes of the masks differ", root)
    assert read(root, class_map=str(write(tmp_path / "names.txt", "a\nb\nc\nd\n"))).problems == []


def as_jpeg(image: Image.Image) -> Image.Image:
    return Image.open(io.BytesIO(encoded(image, "JPEG", quality=90))).copy()


SMOOTHED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "blurred": lambda image: image.filter(ImageFilter.GaussianBlur(1)),
    "bilinear": lambda image: image.resize((200, 150), Image.Resampling.BILINEAR),
    "lanczos": lambda image: image.resize((90, 70), Image.Resampling.LANCZOS),
    "from twice the size": lambda image: image.resize((83, 61), Image.Resampling.BOX),
    "jpeg": as_jpeg,
}


@pytest.mark.parametrize("kind", SMOOTHED)
@pytest.mark.parametrize("numbers", [(0, 255), (0, 3, 9, 14, 21, 30)])
def test_smoothed_masks_are_refused(numbers: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    if kind != "from twice the size" or len(numbers) == 2:
        masks = masks_of(tmp_path, [SMOOTHED[kind](Image.fromarray(scene(i, numbers))) for i in range(3)])
        refuse(r"masks look smoothed, or like photographs|black and white with \d+ numbers between", masks)


def test_smoothed_colours_and_photographs_are_refused(tmp_path: Path) -> None:
    blurred = [Image.fromarray(COLOURS[scene(i)]).filter(ImageFilter.GaussianBlur(1)) for i in range(3)]
    refuse(r"3 masks look smoothed, or like photographs \(0, 1 and 1 more\) of 3", masks_of(tmp_path / "blur", blurred))
    refuse("looks smoothed, or like photographs", masks_of(tmp_path / "photo", [noise(9, 96, 128)]))


def test_one_smoothed_mask_among_sharp_ones_and_under_a_map_is_said(tmp_path: Path) -> None:
    sharp = [scene(i, range(8)) for i in range(4)]
    blurred = Image.fromarray(sharp[3]).filter(ImageFilter.GaussianBlur(1))
    root = masks_of(tmp_path / "set", [*sharp[:3], blurred])
    (said,) = read(root).notes
    assert said.startswith("1 mask looks smoothed, or like photographs (3): numbers at edges that are of neither side")
    assert read(root, class_map=str(write(tmp_path / "names.txt", "\n".join("abcdefgh")))).notes == [said]


def test_sharp_masks_of_many_kinds_are_right(tmp_path: Path) -> None:
    """A class for the borders of things, thin lines, noise of few numbers, many classes, enlarged and shrunk."""
    borders = Image.new("L", (128, 96), 2)
    for i in range(6):
        ImageDraw.Draw(borders).ellipse((15 * i, 10 * i, 15 * i + 30, 10 * i + 25), fill=0, outline=1)
    lines = Image.fromarray(scene(0, range(20)))
    for i in range(30):
        ImageDraw.Draw(lines).line((4 * i, 0, 120 - 3 * i, 95), fill=i % 20)
    many = np.kron(np.arange(48, dtype=np.uint8).reshape(6, 8), np.ones((16, 16), np.uint8))
    shrunk = Image.fromarray(scene(3, range(9))).resize((70, 50), Image.Resampling.NEAREST)
    random = np.random.default_rng(1).integers(0, 3, (96, 128), dtype=np.uint8)
    for i, mask in enumerate((borders, lines, many, shrunk, random)):
        assert read(masks_of(tmp_path / str(i), [mask])).notes == []


def test_scores_of_rare_numbers_are_said(tmp_path: Path) -> None:
    mask = np.zeros((300, 400), np.uint8)
    for i in range(100):
        mask[3 * i : 3 * i + 2, :3] = i
    (note,) = read(masks_of(tmp_path, [mask])).notes
    assert note.startswith("masks hold 100 numbers, 99 of them in less than 0.1 % of the pixels: numbers of single")


def test_a_mask_of_two_pictures_is_said(tmp_path: Path) -> None:
    found = read(masks_of(tmp_path / "bytes", [scene(0), scene(0), scene(1)]))
    assert found.notes == ["masks that are those of another picture too: 1, as of 0 and 1"]
    root = tmp_path / "file"
    for i, folder in enumerate(("a", "b")):
        save(root / "images" / folder / "1.png", i)
    save_mask(root / "masks" / "1.png", (0, 0))
    assert read(root).notes == ["masks that are those of another picture too: 1, as of b/1 and a/1"]
    # One number, or stripes, may be the truth of many; a copy of a picture has the mask of the picture.
    stripes = np.repeat(np.array([[1], [2]], np.uint8), 32, 1).repeat(12, 0)
    assert read(masks_of(tmp_path / "alike", [0 * stripes, 0 * stripes, stripes, stripes])).notes == []
    copies = masks_of(tmp_path / "copies", [scene(0), scene(0)])
    (copies / "images" / "1.png").write_bytes((copies / "images" / "0.png").read_bytes())
    assert read(copies).notes == []


def test_only_drawn_pictures_are_counted_and_equal_shares_go_by_name(tmp_path: Path) -> None:
    root = masks_of(tmp_path / "set", [np.full((24, 32), i, np.uint8) for i in range(6)])
    names = str(write(tmp_path / "names.txt", "\n".join("fedcba")))
    assert read(root, selection=Selection(sample=1), class_map=names).contents[0].count("100.0 %") == 1
    shares = ", ".join(f"{name} 16.7 %" for name in "abcde")
    assert read(root, class_map=names).contents[0] == f"masks hold {shares} and 1 more classes; every pixel counts"


@given(arrays.arrays(np.uint8, st.tuples(st.integers(3, 9), st.integers(3, 9), st.just(3)), elements=st.integers(0, 3)))
def test_pixels_are_counted_by_colour(mask: NDArray[np.uint8]) -> None:
    """Against the slow way, pixel by pixel."""
    facts = examine_mask(mask, None)
    pixels = mask.reshape(-1, 3).tolist()
    if all(red == green == blue for red, green, blue in pixels):
        assert (facts.colours, facts.channels) == (False, 3)
        assert facts.counts == {n: [p[0] for p in pixels].count(n) for n in {p[0] for p in pixels}}
    else:
        packed = [red << 16 | green << 8 | blue for red, green, blue in pixels]
        assert facts.counts == {value: packed.count(value) for value in packed}


def test_a_mask_of_a_large_photograph_takes_no_more_memory_than_pixels(tmp_path: Path) -> None:
    mask = np.kron(scene(0, range(20)), np.ones((20, 20), np.uint8))
    tracemalloc.start()
    examine_mask(mask, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * mask.size
