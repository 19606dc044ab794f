"""Lists the modules of a package in the reference, so that a new one is there by itself.

A line `{{ modules PACKAGE }}` of a page becomes a section for each public module of the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "bindings" / "python"
MARK = re.compile(r"^\{\{ modules (\S+) \}\}$", re.MULTILINE)
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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return MARK.sub(lambda found: sections(found[1]), markdown)
