"""What CI checks, and what editors and hooks read, stays switched on."""

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


def test_clangd_reads_the_commands_of_a_preset_without_batches():
    database = re.search(r"CompilationDatabase: build/(\w+)", (ROOT / ".clangd").read_text())
    assert settings_of(database[1])["RONDE_UNITY"] == "OFF"


def test_the_workflow_runs_all_that_ci_runs():
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.search(r"^ +- run: \.ci/run$", text, re.MULTILINE)


def test_the_hooks_are_programs_that_ci_runs_too():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    ci = (ROOT / ".ci" / "run").read_text()
    named = re.findall(r"entry: (?:\.venv/bin/)?(ruff \w+|clang-format)", hooks)
    assert named == ["ruff check", "ruff format", "clang-format"]
    assert all(name.split()[0] in ci and name.split()[-1] in ci for name in named)


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
