"""Small fixtures that several tests share: street scenes as files, and a finished suite made of them without models."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from command_line import Command
from hypothesis import settings
from PIL import Image
from remembered import RememberedLlm, RememberedSession
from session_records import costs, session_facts
from stand_in_cuda import OPENED
from streets import write_streets

from counterfactory.engine.edit import Edit
from counterfactory.engine.estimate import estimate, formulas
from counterfactory.engine.language.llm_request import Llm
from counterfactory.engine.models import model_pool
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.network import Network
from counterfactory.engine.models.plan_facts import PlanFacts
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.profile.rewrite import LlmSettings
from counterfactory.engine.profile.runtime import ModelPaths, RuntimeSettings
from counterfactory.engine.runtime import quiet_openvino  # noqa: F401 - before any test imports OpenVINO
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.runtime.opening import plan_file
from counterfactory.engine.runtime.session import Session
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import (
    Crop,
    NewPicture,
    Origin,
    PaintedRow,
    Painting,
    PictureRow,
    RunRecord,
    Suite,
    mask_path,
)
from counterfactory.engine.suite.images import Top
from counterfactory.engine.suite.run_record import Standing
from counterfactory.engine.suite.session_record import SessionRecord
from counterfactory.export.pocket.packed import gather

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tiny_networks import TinyPainter
    from wiring import House


# Their assertions are told as those of tests are.
pytest.register_assert_rewrite("wiring", "wiring_cases")


def pytest_configure() -> None:
    """No example has a time limit: tests share cores, and the slow ones open networks."""
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
    # Tests compile what they open, fixtures and programs that they start included; those of the cache have their own.
    os.environ[SWITCH] = "off"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are there to stay: each look for garbage among them would take a third of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# The files that take longest, most of few tests: they go first, so that no worker is left with one at the end.
LONGEST = (
    *(
        "rehearsals",
        "assembled",
        "full_size",
        "a10g_memory",
        "setup",
        "hub_profiles",
        "journey",
        "generate_options",
        "features",
        "device_painting",
        "plan_options",
        "cli",
        "process",
    ),
    *("face", "openvino_llm", "outcome", "model_pool", "known_world", "invert", "maps", "sessions", "house"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they stand."""
    places = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@dataclass(frozen=True)
class Street:
    """Rendered scenes, `root`/images/<kind>/NNNN.png beside `root`/masks, and their names as the engine has them."""

    root: Path
    names: tuple[str, ...]


@dataclass(frozen=True)
class MadeSuite:
    """A finished suite of `street`, two variants per source; the last variant is rejected."""

    path: Path
    street: Street
    rows: list[PictureRow]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests measure of this machine under all their load is nobody's estimate."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports in this process, which has torch loaded."""
    monkeypatch.setattr("counterfactory.export.production.command.alone", lambda work, *arguments: work(*arguments))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands within this process."""
    return Command(capsys)


@pytest.fixture(autouse=True)
def no_fault_of_a_driver() -> Iterator[None]:
    """What a stand-in for a GPU's driver put on record and no test looked at, such as in a finaliser, is a failure."""
    yield
    faults = [fault for memory in OPENED for fault in memory.faults]
    for memory in OPENED:
        memory.faults.clear()
    assert not faults


@pytest.fixture(scope="session")
def packed_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All embedded models in one folder, the masters that the wheel leaves out among them; not to be written to."""
    return gather(tmp_path_factory.mktemp("packed"))


def quick_profile(models: Path, steps: int = 2, batch: int = 4) -> Profile:
    """The pocket profile over the networks in `models`, guided, in few steps and small batches; its denoiser multiplies
    no integers, and opens fast.
    """
    pocket = painting_as_teacher(load_profile("pocket"))
    sampler = replace(pocket.paint.sampler, steps=steps)
    paint = replace(pocket.paint, sampler=sampler, batch=batch, decode_batch=2)
    return replace(pocket, models=ModelPaths(str(models)), paint=paint)


@pytest.fixture(scope="session")
def opened_plans() -> dict[object, Any]:
    """Networks that tests have opened so far."""
    return {}


@pytest.fixture(scope="module")
def shared_plans(opened_plans: dict[object, Any]) -> Iterator[None]:
    """Networks are compiled once for all runs of the module, and of other modules that ask for this.

    What a run counts as loading stays in place, and takes no time. Not for tests of opening and closing networks.
    """
    really, really_llm = model_pool.open_plan, model_pool.open_llm

    def open_once(
        folder: Path,
        plan: str,
        runtime: RuntimeSettings,
        batch: int,
        sizes: Mapping[str, tuple[int, int]] | None = None,
        streams: int = 1,
        *rest: Any,
    ) -> Session:
        file = plan_file(folder, plan, runtime.backend)
        here = replace(runtime, memory_gb=0.0)  # which no network goes by
        key = (file.resolve(), here, batch, tuple(sorted((sizes or {}).items())), streams)
        if key not in opened_plans or not file.is_file():
            opened_plans[key] = really(folder, plan, runtime, batch, sizes, streams, *rest)
        return cast(Session, opened_plans[key])

    def open_llm_once(model: Path, settings: LlmSettings, runtime: RuntimeSettings, *rest: Any) -> Llm:
        key = (model.resolve(), settings, replace(runtime, memory_gb=0.0))
        if key not in opened_plans:
            opened_plans[key] = really_llm(model, settings, runtime, *rest)
        return cast(Llm, opened_plans[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_pool, "open_plan", open_once)
        patch.setattr(model_pool, "open_llm", open_llm_once)
        yield


@pytest.fixture(scope="session")
def remembered_plans() -> dict[int, Any]:
    """What remembers the answers of networks in `opened_plans`, by their identities."""
    return {}


@pytest.fixture(scope="module")
def shared_answers(shared_plans: None, remembered_plans: dict[int, Any]) -> Iterator[None]:
    """Networks are also asked the same question once. Not for tests of their answers, or of how often they run."""

    def remembered(opener: Callable[..., Any], kind: Callable[[Any], Any]) -> Callable[..., Any]:
        def opened(*args: Any) -> Any:
            network = opener(*args)
            return remembered_plans.setdefault(id(network), kind(network))

        return opened

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_pool, "open_plan", remembered(model_pool.open_plan, RememberedSession))
        patch.setattr(model_pool, "open_llm", remembered(model_pool.open_llm, RememberedLlm))
        yield


@pytest.fixture(scope="module")
def counted_once() -> Iterator[None]:
    """Estimates count a network once, and this machine's peak is a given number: each takes a second and more."""
    really, counted = formulas._count_facts, dict[object, PlanFacts]()

    def count(library: Library, network: Network, size: tuple[int, int] | None) -> PlanFacts:
        key = library.graph(network), size
        if key not in counted:
            counted[key] = really(library, network, size)
        return counted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "_count_facts", count)
        patch.setattr(estimate, "measure_peak", lambda *_: 1e11)
        yield


@pytest.fixture(scope="session")
def furnished_house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Data sets that options of commands are tried on, and what was run on them."""
    from wiring import furnished

    return furnished(tmp_path_factory.mktemp("wiring"))


@pytest.fixture(scope="module")
def house(furnished_house: House, shared_answers: None, counted_once: None) -> House:
    """The same, with commands that open networks once; estimates have the measurements of a run."""
    furnished_house.ask("generate")
    return furnished_house


@pytest.fixture
def street(tmp_path: Path) -> Street:
    """Three scenes as image and mask pairs."""
    return Street(tmp_path / "street", tuple(sorted(write_streets(tmp_path / "street"))))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The machine's browser; tests open contexts of their own in it."""
    from playwright.sync_api import sync_playwright
    from report_pages import CHROMIUM

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Seven of noise, of three sizes."""
    from tiny_desk import tiny_sources

    return tiny_sources(tmp_path / "sources", 7)


@pytest.fixture(scope="session")
def painter() -> TinyPainter:
    """Small networks that paint; not to be changed."""
    from tiny_networks import tiny_painter

    return tiny_painter()


def made_profile() -> Profile:
    """What `made_suite` is said to be made with: no profile that comes with the package."""
    pocket = load_profile("pocket")
    image = replace(pocket.image, short_side=64)
    return replace(pocket, name="mine", image=image, check=pocket.check.having(min_image_text=0.45))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A green picture whose name needs care in an address."""
    path = tmp_path / "a b#?(1)'\".png"
    Image.new("RGB", (128, 128), (10, 200, 30)).save(path)
    return path


@pytest.fixture
def made_suite(street: Street, tmp_path: Path) -> MadeSuite:
    """The street's suite: originals, and variants rendered instead of painted, whose scores fall from 0.9 by 0.1."""
    rows: list[PictureRow] = []
    with Suite.open(tmp_path / "suite") as suite:
        for number, name in enumerate(street.names):
            scene = EMBEDDED.sample(np.random.default_rng((1, int(name[-4:]))))

            def keep(key: str, pictures: tuple[Any, Any], top: Top, name: str = name) -> PaintedRow:
                return suite.write_images(top, [NewPicture(key, name, *pictures, top)])[key]

            original = keep(f"{number:016x}" + "f" * 48, EMBEDDED.draw(scene).pair, "originals")
            common: dict[str, Any] = {
                "source": name,
                "label": scene.label,
                "original": original.image.path,
                "control": None,
                "caption": "a clear street.",
                "origin": Origin(f"{name}.png", "0" * 64, 128, 128),
                "crop": Crop(0.0, 0.0, 128.0, 128.0),
                "source_key": "0" * 64,
            }

            def row(painted: PaintedRow, common: dict[str, Any] = common, **more: Any) -> PictureRow:
                image = painted.image
                about = {"file_name": image.path, "sha256": image.sha256, "mask": mask_path(image.path)}
                return PictureRow(**about | common | more)

            unedited: dict[str, Any] = {"edits": (), "number": 0, "painting": None, "scores": {}, "reason": None}
            unedited |= {"edited_caption": "a clear street.", "key": f"{number:016x}" + "f" * 48}
            rows.append(row(original, kind="original", **unedited))
            for variant in range(2):
                made = 2 * number + variant
                key = f"{made:016x}" + "0" * 48
                restyled = EMBEDDED.restyle(scene, np.random.default_rng((variant, made)))
                rows.append(
                    row(
                        keep(key, EMBEDDED.draw(restyled).pair, "images"),
                        kind="variant",
                        edited_caption="a foggy street.",
                        edits=(Edit("weather", "clear", "foggy"),),
                        number=variant,
                        painting=Painting(0, 20, 5.0, 0.0, 1.0),
                        scores={
                            "image_text": 0.9 - 0.1 * made,
                            "directional": 0.5,
                            "image_image": 0.5,
                            "edit": 0.75,
                            "intact": 1.0,
                        },
                        edit_scores=(0.75,),
                        reason="unlike its caption: image_text 0.400 is below 0.450" if made == 5 else None,
                        key=key,
                    )
                )
        profile = asdict(made_profile())
        labels = ["bus", "car", "tram", "truck"]  # of the set, whose trams are not among the sources
        facts, spent = session_facts(profile=profile, data={"layout": "folders", "labels": labels}), costs(wall_s=36.0)
        session = SessionRecord("a", "2026-01-01T00:00:00+00:00", True, facts, (), spent)
        record = RunRecord((session,), Standing(3, 5, 1, 0, 0, (), (), profile["check"]))
        suite.write_metadata(rows, lambda contents: suite.write_run(record.with_contents(contents)))
    return MadeSuite(tmp_path / "suite", street, rows)
