"""The table of nouns: WordNet's own lines, read and written again, and the file that comes with the package."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from counterfactory.engine.english.nouns import FILE, load_nouns
from counterfactory.export.language.nouns import write_nouns

# Lines of WordNet 3.0: an abstraction, a thing, an animal, a dog, a named dog, and a dog that is a person.
DATA = """  1 This software and database is being provided to you
00001740 03 n 01 entity 0 000 | that which is perceived
00002137 03 n 01 abstraction 0 001 @ 00001740 n 0000 | a general concept
00015388 05 n 02 animal 0 animate_being 0 001 @ 00001740 n 0000 | a living organism
02084071 05 n 02 dog 0 domestic_dog 0 002 @ 00015388 n 0000 ~ 02099601 n 0000 | a canid; "the dog barked"
02099601 05 n 01 golden_retriever 0 001 @ 02084071 n 0000 | an English breed having a long silky golden coat
02099999 05 n 01 Lassie 0 001 @i 02084071 n 0000 | a collie in films
10114209 18 n 02 frump 0 dog 0 001 @ 00001740 n 0000 | a dull unattractive person
"""
INDEX = """  1 This software and database is being provided to you
animal n 1 1 @ 1 1 00015388
animate_being n 1 1 @ 1 0 00015388
dog n 2 2 @ ~ 2 1 02084071 10114209
domestic_dog n 1 1 @ 1 0 02084071
entity n 1 0 1 1 00001740
frump n 1 1 @ 1 0 10114209
golden_retriever n 1 1 @ 1 0 02099601
"""
TABLE = """n00001740\tentity*\t\t
n00015388\tanimal*,animate being*\tn00001740\t
n02084071\tdog*,domestic dog*\tn00015388\t
n02099601\tgolden retriever*\tn02084071\tan English breed having a long silky golden coat
n10114209\tfrump*,dog\tn00001740\t
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    words, info = tmp_path / "dict", tmp_path / "info"
    words.mkdir()
    info.mkdir()
    (words / "data.noun").write_text(DATA)
    (words / "index.noun").write_text(INDEX)
    (info / "imagenet_synsets.txt").write_text("n02099601\n")
    (info / "imagenet_synset_to_lemma.txt").write_text("n02099601\tgolden retriever\n")
    breed = '"an English breed having a long silky golden coat"'
    (info / "imagenet_synset_to_definition.txt").write_text(f"n02099601\t{breed}\n")
    return words, info


def test_the_table_has_what_can_be_seen_and_all_that_it_is_a_kind_of(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        write_nouns(*folders, tmp_path / name)
    assert gzip.decompress((tmp_path / "a").read_bytes()).decode() == TABLE
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(("file", "text"), [("lemma", "retriever"), ("definition", "another breed")])
def test_another_reading_of_wordnet_is_refused(
    folders: tuple[Path, Path], tmp_path: Path, file: str, text: str
) -> None:
    (folders[1] / f"imagenet_synset_to_{file}.txt").write_text(f"n02099601\t{text}\n")
    with pytest.raises(ValueError, match=r"n02099601 is .* and not"):
        write_nouns(*folders, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_file_that_comes_along_is_such_a_table() -> None:
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    assert len(lines) == len(load_nouns().lines) == 38895
    assert lines == sorted(lines)
    assert all(line.count("\t") == 3 for line in lines)
    assert all(parent in load_nouns() for key in load_nouns().lines for parent in load_nouns()[key].parents)
