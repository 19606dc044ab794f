"""Checks that the guides' links and paths exist, and that their pictures fit their tables."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GUIDES = sorted(
    page
    for pattern in ("*.md", "clusters/*.md", "concepts/*.md", "releases/*.md")
    for page in DOCS.glob(pattern)
)
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *GUIDES,
    *sorted(DOCS.glob("measurements/*.md")),
]
LONGEST_SENTENCE = 25  # words, on average over a page
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PATH = re.compile(
    r"`((?:backends|bindings|core|docker|docs|examples|ops|packaging|tests|timeline)/[\w./-]+\.\w+)"
    r"[:\d]*`"
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


def words_per_sentence(text):
    """The average over a page's running text, without code, tables and headings."""
    text = re.sub(r"^```.*?^```|^ {4}.*?$|^[|#<].*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    sentences = re.split(r"[.:!?;](?:\s|$)|\n\s*\n|\n- ", text)
    counts = [len(sentence.split()) for sentence in sentences if len(sentence.split()) > 2]
    return sum(counts) / max(len(counts), 1)


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=lambda page: page.name)
def test_a_guide_has_short_sentences(page):
    assert words_per_sentence(page.read_text()) <= LONGEST_SENTENCE


def drawn_by(script):
    """The drawings of a script of docs/pictures, by file name."""
    spec = importlib.util.spec_from_file_location(script, DOCS / "pictures" / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pictures()


@pytest.mark.parametrize("script", ["draw", "concepts"])
def test_pictures_are_what_their_scripts_draw(script):
    if script == "concepts":
        pytest.importorskip("drawsvg", reason="docs/requirements.txt is not installed")
    for name, text in drawn_by(script).items():
        assert (DOCS / "pictures" / name).read_text() == text, f"run docs/pictures/{script}.py"


# Values inside an error's text.
VALUE = re.compile(
    r"""\.\.\. | "[^"]*" | '[^']*' | \(\w+\.py:\d+\) | \[\d+\] | [\d.]+ | \bnode\d | \bshape\b |
    \bweight\b | train\.py:? | RONDE_\w+ | \bVAR=1""",
    re.VERBOSE,
)


def test_each_error_text_in_the_troubleshooting_page_is_one_that_ronde_gives():
    page = (DOCS / "troubleshooting.md").read_text()
    files = [
        file
        for folder in ("core", "bindings", "backends", "ops")
        for suffix in ("cc", "py")
        for file in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    source = " ".join(re.sub(r'"\s*f?"', "", file.read_text()) for file in files)
    headings = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(headings) > 12
    for heading in headings:
        constant = max((piece.strip(" ,;:()=") for piece in VALUE.split(heading)), key=len)
        assert constant in source, heading


def test_the_version_is_the_same_wherever_it_is_written():
    version = (ROOT / "VERSION").read_text().strip()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    assert (DOCS / "releases" / f"{version}.md").exists()


def test_the_page_of_examples_names_each_script():
    page = (DOCS / "examples.md").read_text()
    scripts = [path.name for path in (ROOT / "examples").glob("*_*.py")]
    helpers = {"character_model.py", "export_digits.py"}
    assert [name for name in sorted(scripts) if name not in helpers and name not in page] == []
