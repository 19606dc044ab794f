"""Checks that the guides' links and paths exist, and that their pictures fit their tables."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDES = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDES, *sorted((ROOT / "docs" / "measurements").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PATH = re.compile(
    r"`((?:backends|bindings|core|docs|examples|ops|tests|timeline)/[\w./-]+\.\w+)[:\d]*`"
)
OLD_WORDS = re.compile(
    r"\b(Fates?|FateFile|[Dd]oors?|DeviceRoad|Standstill|GatherHabit|HelpHabit|\w+_double|"
    r"[Ss]trangers?|[Ww]hoever|lanes?|last words)\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_of_a_page_exist(page):
    text = page.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=lambda page: page.name)
def test_a_guide_has_no_word_that_the_code_has_given_up(page):
    assert OLD_WORDS.findall(page.read_text()) == []


def test_pictures_are_drawn_from_the_tables_beside_them():
    folder = ROOT / "docs" / "pictures"
    spec = importlib.util.spec_from_file_location("draw", folder / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    for name, text in draw.pictures().items():
        assert (folder / name).read_text() == text, "run docs/pictures/draw.py again"
