"""Writes the reference of the command and of the settings: what the installed ronde prints.

A line `{{ help COMMAND }}` of a page becomes that command's help, `{{ settings }}` a table of all
settings. If Ronde is not installed beside MkDocs, the page says which command prints them.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
from typing import Any

HELP = re.compile(r"^\{\{ help (.+) \}\}$", re.MULTILINE)
SETTINGS = re.compile(r"^\{\{ settings \}\}$", re.MULTILINE)
RECORD = re.compile(
    r'^(\w+) \((.*)\)\n +(.*)\n +default "(.*?)", now ".*?"(?:; (\w+) is .*)?$', re.MULTILINE
)


@functools.cache
def output_of(command: str) -> str:
    """Returns what `ronde ...` prints; nothing where Ronde is not installed."""
    if importlib.util.find_spec("ronde") is None:
        return ""
    words = [sys.executable, "-m", *command.split()]
    environment = {name: text for name, text in os.environ.items() if "RONDE_" not in name}
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    return done.stdout


def help_of(command: str) -> str:
    """Returns a command's help as a block of text."""
    text = output_of(f"{command} --help") or f"{command} --help prints it.\n"
    return f"```text\n{text.rstrip()}\n```"


def settings() -> str:
    """Returns the table of all settings."""
    text = output_of("ronde doctor --settings")
    rows = ["| setting | unit | default | meaning | Horovod's name |", "|---|---|---|---|---|"]
    for name, unit, meaning, default, other in RECORD.findall(text):
        cells = [f"`{name}`", unit, default and f"`{default}`", meaning, other and f"`{other}`"]
        rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(rows) if text else "`ronde doctor --settings` prints them."


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    markdown = SETTINGS.sub(lambda _: settings(), markdown)
    return HELP.sub(lambda found: help_of(found[1]), markdown)
