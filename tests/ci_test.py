"""CI compiles with clang's thread-safety analysis: a change that switches it off fails here."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settings_of(preset: str) -> dict[str, str]:
    """The cache variables of a configure preset, inherited ones included."""
    presets = {
        entry["name"]: entry
        for entry in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    }
    entry = presets[preset]
    inherited = settings_of(entry["inherits"]) if "inherits" in entry else {}
    return {**inherited, **entry.get("cacheVariables", {})}


def test_the_preset_asan_checks_the_annotations_of_locks():
    settings = settings_of("asan")
    assert settings["RONDE_THREAD_SAFETY"] == "ON"
    assert settings["RONDE_WERROR"] == "ON"
    assert settings["CMAKE_CXX_COMPILER"].startswith("clang++")


def test_ci_builds_everything_with_the_preset_asan_and_runs_it():
    text = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"\bbuild_sanitized asan$", text, re.MULTILINE)
    assert re.search(r"\brun_sanitized asan$", text, re.MULTILINE)
    assert "RONDE_THREAD_SAFETY" not in text
    assert "CMAKE_CXX_COMPILER" not in text


def test_findings_in_a_batch_are_told_at_their_sources(tmp_path):
    spec = importlib.util.spec_from_file_location("tidy", ROOT / ".ci" / "tidy.py")
    tidy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tidy)
    first, second = tmp_path / "first.cc", tmp_path / "second.cc"
    first.write_text("int a;\nint b;\n")
    second.write_text("int c;\nint d;\n")
    text, origins = tidy.joined([str(first), str(second)])
    assert text == "int a;\nint b;\nint c;\nint d;\n"
    found = tidy.at_origin("/b/x.cc:4:5: error: bad", Path("/b/x.cc"), origins)
    assert found == f"{second}:2:5: error: bad"
