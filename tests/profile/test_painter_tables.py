"""Which tables of a profile a painter needs, and which it does not read: one by one, for each kind of painter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfactory.engine.profile.maps import DepthSettings, HintSettings
from counterfactory.engine.profile.paint import ProtectSettings
from counterfactory.engine.profile.painter import PainterSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.rewrite import RandomWordSettings

POCKET, LANCE = load_profile("pocket"), load_profile("pocket-lance")
# Every table that may be left out, with something in it.
TABLES: dict[str, Any] = {name: getattr(POCKET, name) for name in ("runtime", "models", "llm", "caption", "rewrite")}
TABLES |= {name: getattr(POCKET, name) for name in ("edges", "paint", "text")}
TABLES |= {"invert": LANCE.invert, "random_words": RandomWordSettings(8, 4, 2)}
TABLES |= {"protect": ProtectSettings(("car",), 2.0, 0.5)}
TABLES |= {"hints": (HintSettings("depth", "hint", 1.0),), "depth": DepthSettings(8)}
OWN = {"light": {"rewrite", "protect"}, "server": {"rewrite"}, "given": set[str]()}
SERVER = load_profile("server").painter
KINDS = {"given": PainterSettings("given"), "server": SERVER}
UNREAD = {
    "given": {"protect", "hints", "depth", "random_words", "invert"},
    "server": {"protect", "hints", "depth", "invert", "edges", "paint"},
}
NEEDED = {
    "given": {"runtime", "caption", "text"},
    "server": {"runtime", "text", "llm", "rewrite"},
    "diffusion": {"runtime", "text", "llm", "rewrite", "edges", "paint"},
}


def fault(profile: Profile, **tables: Any) -> str:
    """What a profile with these tables is refused for; "" where nothing is wrong with them."""
    try:
        replace(profile, **tables)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", OWN)
def test_a_painter_without_networks_reads_a_table_or_two(kind: str) -> None:
    profile = load_profile(kind)
    for name, table in TABLES.items():
        said = f'[painter] kind = "{kind}" needs no network and reads no [{name}]: take it out'
        if name not in {"models", *OWN[kind]}:  # with models it has networks
            assert fault(profile, **{name: table}) == said, name
    assert all(fault(profile, **{name: TABLES[name]}) == "" for name in OWN[kind])


def bare(name: str) -> Any:
    """A table that is left out."""
    return getattr(load_profile("light"), name)


@pytest.mark.parametrize("kind", KINDS)
def test_with_networks_it_reads_what_does_not_paint(kind: str) -> None:
    leaves_out = {name: bare(name) for name in UNREAD[kind]}
    profile = replace(POCKET, painter=KINDS[kind], **leaves_out)
    for name in TABLES:
        said = f'[painter] kind = "{kind}" paints nothing itself and reads no [{name}]: take it out'
        unread = fault(profile, **{name: TABLES[name]})
        assert (unread == said) == (name in UNREAD[kind]), (name, unread)


@pytest.mark.parametrize("kind", NEEDED)
def test_what_a_painter_needs_is_named(kind: str) -> None:
    leaves_out = {name: bare(name) for name in UNREAD.get(kind, ())}
    profile = replace(POCKET, painter=KINDS.get(kind), **leaves_out)
    for name in ("runtime", "caption", "text", "llm", "rewrite", "edges", "paint"):
        said = f"the table [{name}] is missing: a painter of kind '{kind}' needs it"
        assert (fault(profile, **{name: bare(name)}) == said) == (name in NEEDED[kind]), name


def test_what_a_check_by_networks_reads_is_named() -> None:
    light = load_profile("light")
    said = "[check] key 'check.batch' is read by networks, which kind = 'light' has none of"
    assert fault(light, check=POCKET.check) == said
    assert fault(POCKET, check=light.check) == "[check] key 'check.batch' is missing"


def test_a_runtime_and_a_device_go_together() -> None:
    a10g = load_profile("a10g")
    assert fault(a10g, device=None) == '[runtime] "tensorrt" needs a table [device]'
    assert fault(POCKET, device=a10g.device) == '[runtime] "openvino" has no table [device]'
    on_cpu = replace(POCKET.runtime, backend="onnxruntime", precision="f32", provider="cpu")
    assert fault(POCKET, runtime=on_cpu, device=a10g.device) == '[runtime] "cpu" has no table [device]'


def test_a_painter_has_a_strength_but_for_one_that_paints_nothing() -> None:
    assert (load_profile("light").severity, load_profile("pocket").severity) == (3, None)
    assert PainterSettings("light", severity=5).severity == 5
    for kind, severity in (("light", 0), ("light", 6), ("given", 3)):
        with pytest.raises(ValueError, match="severity"):
            PainterSettings(kind, severity=severity)
