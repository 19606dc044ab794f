"""Lists names in the reference.

A line `{{ modules PACKAGE }}` of a page becomes a section for each public module of the package, so
that a new one is there by itself. A line `{{ names MODULE: NAME, ... }}` becomes a section for each
name, in this order.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "bindings" / "python"
MARK = re.compile(r"^\{\{ modules (\S+) \}\}$", re.MULTILINE)
NAMES = re.compile(r"^\{\{ names (\S+): (.+) \}\}$", re.MULTILINE)
NAME = """\
::: {0}
    options:
      heading_level: 3
      show_root_heading: true
      show_root_toc_entry: true
"""
SECTION = """\
## {0}

::: {0}
    options:
      heading_level: 3
"""


def sections(package: str) -> str:
    """Returns a section for each module whose name does not begin with an underscore."""
    files = sorted(SOURCES.joinpath(*package.split(".")).glob("[!_]*.py"))
    return "\n".join(SECTION.format(f"{package}.{file.stem}") for file in files)


def entries(module: str, names: str) -> str:
    """Returns a section for each name of the list."""
    return "\n".join(NAME.format(f"{module}.{name}") for name in names.split(", "))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    markdown = NAMES.sub(lambda found: entries(found[1], found[2]), markdown)
    return MARK.sub(lambda found: sections(found[1]), markdown)
