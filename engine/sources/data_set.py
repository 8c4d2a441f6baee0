"""A data set as it lies on the disk, read to its usable sources and the problems of the others, with notes in sentences
on what is left out or looks wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError, list_some
from ..files.disk_list import DiskList, repeated
from .boxes import BoxCensus
from .class_folders import SPLIT
from .class_map import BACKGROUND, SYNSET, label_names, load_class_map
from .depth import with_depth
from .labels import whole_number
from .layouts import ACCEPTED, SetOptions, list_set
from .listing import Entry, Listing, Problem
from .mask_contents import UNNAMED, MaskTally, white_as_object
from .sampling import Selection, draw, groups, require_known
from .shapes import DrawnMask
from .source import Examine, Progress, Reader, Source
from .source_groups import SourceGroups
from .truths import lacks, without_truths

__all__ = ["DataSet", "Selection", "SetOptions", "find_sources", "read_set", "refuse_suite_among_sources"]


@dataclass(frozen=True)
class DataSet:
    """A data set as it was read: its usable sources and the problems of the others, each sorted by name, the names of
    its masks' class numbers, `notes` on what was left out or looks wrong, the labels of all its images, drawn or not,
    in the order of their folders, and `contents`: what its masks hold, and which file names classes. `groups` are of
    sources that depend on each other.
    """

    layout: str
    sources: Sequence[Source]
    problems: list[Problem]
    notes: list[str]
    class_names: Mapping[int, str]
    selection: Selection
    labels: tuple[str, ...] = ()
    contents: Sequence[str] = ()
    groups: SourceGroups = field(default_factory=SourceGroups)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What the masks hold, and then the notes."""
        return (*self.contents, *self.notes)

    @property
    def classes(self) -> list[str]:
        """The names, sorted, of what the set's masks and boxes may show, but for the background."""
        shown = {name for source in self.sources for name in source.classes}
        named = () if self.class_names == UNNAMED else self.class_names.values()
        return sorted(shown.union(named) - {BACKGROUND})

    def record(self) -> dict[str, Any]:
        """The data set as a suite's record has it."""
        names = {str(number): name for number, name in sorted(self.class_names.items())}
        labels = list(self.labels)
        return {"layout": self.layout, "selection": asdict(self.selection), "classes": names, "labels": labels}


def find_sources(root: Path, labels: Path | None = None) -> tuple[list[Source], list[Problem]]:
    """The sources and the problems of a data set; see `read_set`."""
    data_set = read_set(str(root), SetOptions(labels=labels))
    return list(data_set.sources), data_set.problems


def read_set(
    root: str,
    options: SetOptions,
    on_progress: Progress = None,
    examine: Examine | None = None,
    whole: int | None = None,
) -> DataSet:
    """The data set at `root`: a folder or a file in one of the layouts (docs/data.md), or "hf:ID[:SPLIT]".

    `on_progress` is called with (images verified, images) now and then; `examine` sees each picture while it is read.
    Where it is enough to know about how much there is, `whole` says how many pictures are read (see `Reader`).
    Raises CounterfactoryError if `root` has no image at all, is no such layout, an option contradicts it, or nothing
    is there that a model of the options' task is judged by.
    """
    return read_listing(list_set(root, options), root, options, on_progress, examine, whole)


def read_listing(
    listing: Listing,
    root: str,
    options: SetOptions,
    on_progress: Progress = None,
    examine: Examine | None = None,
    whole: int | None = None,
) -> DataSet:
    """The data set that a listing of `root` names, as `read_set` has it."""
    if not listing.entries and not listing.problems:
        raise CounterfactoryError(f"no images found in {root}; {ACCEPTED}")
    if listing.entries and options.task is not None and all(lacks(options.task, one) for one in listing.entries):
        as_layout = f"the layout is {listing.layout}, and --layout folders takes what the folders say"
        layout = [as_layout] if options.task == "classification" and listing.layout != "folders" else []
        raise without_truths(options.task, [*listing.notes, *layout])  # before a file is decoded
    listing.note_unused(options.group_by)
    if options.depth is not None:
        listing.entries = with_depth(listing.entries, options.depth)
    named, names = options.class_map, dict[int, str]()
    if named is not None and any(isinstance(entry.mask, DrawnMask) for entry in listing.entries):
        raise CounterfactoryError(f"{listing.layout} names its own classes; leave --class-map {named} out")
    if named is not None and all(entry.mask is None for entry in listing.entries):
        names = _name_labels(listing, named)
    elif named is not None:
        listing.class_map = load_class_map(named)
    if listing.class_map is not None:
        names = dict(listing.class_map.names)
    chosen, problems = options.selection, listing.problems
    of_group = groups(listing.entries, chosen)
    # In a set without labels an image is of the classes that it shows.
    shown = chosen.classes if all(entry.label is None for entry in listing.entries) else None
    require_known(shown or (), listing.class_names or tuple(names.values()))
    # What layouts without --boxes hold is in their form.
    boxes = listing.boxes or BoxCensus(root, "corners", of_user=True)
    reader = Reader(listing.class_map, names or None, options.depth_values, on_progress, examine, boxes, whole)
    tally = MaskTally(listing.class_map, drawn=any(isinstance(entry.mask, DrawnMask) for entry in listing.entries))

    def check(entries: Sequence[Entry]) -> Iterator[Source | None]:
        for result in reader.verify(entries):
            facts = reader.facts.pop(result.name, None)
            if isinstance(result, Problem):
                problems.append(result)
                yield None
            elif shown is not None and set(shown).isdisjoint(result.classes):
                yield None
            else:
                if facts is not None and result.mask is not None:
                    file = result.mask.of if isinstance(result.mask.of, str) else None
                    tally.add(result.name, result.digest, file, facts)
                yield result

    sources = DiskList.ordered(draw(of_group, check), lambda source: source.name)
    tally.refuse()
    if tally.black_and_white and (by_white := white_as_object(listing.class_map)) is not None:
        tally.class_map, names = by_white, dict(by_white.names)
        sources = DiskList(reader.read_as(sources, by_white))
    problems = sorted([*problems, *reader.lost], key=lambda p: (p.name, p.reason))
    boxes.refuse()
    listing.notes += boxes.notes()
    listing.note_first(sorted(reader.grey), "pictures end in plain grey, as broken files do that were saved again")
    if reader.skimmed:
        listing.notes.append(
            f"{reader.total - reader.skimmed:,} of {reader.total:,} pictures were read, and of the others the headers: "
            "what is wrong with these shows when the suite is made"
        )
    notes = [*listing.notes, *_notes(listing, sources, chosen), *tally.notes()]
    named_by = [] if listing.class_map is None else [f"names of classes: {listing.class_map.where}"]
    contents = [*tally.contents(), *named_by]
    return DataSet(listing.layout, sources, problems, notes, names, chosen, listing.labels, contents)


def _name_labels(listing: Listing, named: str) -> dict[int, str]:
    """Gives a set whose labels are numbers the names in a file, and returns those. Raises CounterfactoryError."""
    names, where = label_names(named)
    listing.class_map = None
    numbers, name_of = dict[str, list[str]](), dict[str | None, str]()
    for number, name in names.items():
        numbers.setdefault(name, []).append(str(number))
    entries = DiskList[Entry]()
    for entry in listing.entries:
        text = "" if entry.label is None else whole_number(entry.label.strip())
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
        if entry.label is not None and number not in names:
            label = f"the label {entry.label!r} of {entry.file}"
            raise CounterfactoryError(f"{where} does not name {label}; add it, or leave --class-map out")
        entries.append(replace(entry, label=names.get(number)))
        name_of[entry.label] = names.get(number, "")
    listing.entries, listing.labels = entries, tuple(name_of.get(label) or label for label in listing.labels)
    if shared := [f"{name} ({', '.join(several)})" for name, several in numbers.items() if len(several) > 1]:
        what = "names that stand for several numbers, whose images have one label"
        listing.notes.append(f"{what}: {list_some(shared, 3)}")
    return dict(names)


def _notes(listing: Listing, sources: Sequence[Source], selection: Selection) -> Iterator[str]:
    """Sentences about labels that look wrong and a selection that the usable sources do not fill."""
    labels = {entry.label for entry in listing.entries if entry.label is not None}
    odd = sorted(label for label in labels if not SYNSET.fullmatch(label))
    if odd and len(odd) * 10 <= len(labels):
        yield f"labels that are no synsets, as the {len(labels) - len(odd)} others are: {', '.join(odd[:5])}"
    splits = Counter(next(filter(SPLIT.fullmatch, entry.file.split("/")[:-1]), None) for entry in listing.entries)
    if None not in splits and len(splits) > 1:
        shares = ", ".join(f"{splits[part]} in {part}" for part in sorted(splits, key=str))
        yield f"pictures of several splits are taken, {shares}: training pictures tell little of a model"
    if selection.sample is not None and len(sources) < selection.sample:
        yield f"{selection.sample} sources were asked for, and {len(sources)} can be used"
    elif selection.per_class is not None:
        counts = Counter(source.label for source in sources)
        drawn = sorted(label for label in labels if label and (not selection.classes or label in selection.classes))
        if short := [f"{label} ({counts[label]})" for label in drawn if counts[label] < selection.per_class]:
            yield f"classes with fewer than {selection.per_class} usable images: {list_some(short, 5)}"
    first, twice, example = dict[str, Source](), 0, ""
    hashes = repeated(source.digest for source in sources)
    for later in sources if hashes else ():
        if hash(later.digest) in hashes:
            earlier = first.setdefault(later.digest, later)
            if earlier.label != later.label:
                twice += 1
                example = example or f"{earlier.name} ({earlier.label}) and {later.name} ({later.label})"
    if twice:
        are = "s are" if twice > 1 else " is"
        yield f"{twice} image{are} there under two labels, the first as {example}: remove the wrong ones"


def refuse_suite_among_sources(root: Path, suite: Path) -> None:
    """Raises CounterfactoryError where a suite would lie in the folder of its sources, and be read as such."""
    if root.is_dir() and suite.resolve().is_relative_to(root.resolve()):
        raise CounterfactoryError(f"the suite {suite} would lie among its sources in {root}; name a folder outside")
