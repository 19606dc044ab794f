"""Writes the reference of the command and of the settings: what the installed ronde prints.

A line `{{ help COMMAND }}` of a page becomes that command's help, `{{ settings }}` a table of all
settings. The build ends with an error if Ronde is not installed beside MkDocs.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
from typing import Any

from mkdocs.exceptions import PluginError

HELP = re.compile(r"^\{\{ help (.+) \}\}$", re.MULTILINE)
SETTINGS = re.compile(r"^\{\{ settings \}\}$", re.MULTILINE)
RECORD = re.compile(
    r'^(\w+) \((.*)\)\n +(.*)\n +default "(.*?)", now ".*?"(?:; (\w+) is .*)?$', re.MULTILINE
)


@functools.cache
def output_of(command: str) -> str:
    """Returns what `ronde ...` prints."""
    if importlib.util.find_spec("ronde") is None:
        raise PluginError(f"`{command}` is not installed here; run: pip install .")
    words = [sys.executable, "-m", *command.split()]
    environment = {name: text for name, text in os.environ.items() if "RONDE_" not in name}
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    return done.stdout


def help_of(command: str) -> str:
    """Returns a command's help as a block of text."""
    return f"```text\n{output_of(f'{command} --help').rstrip()}\n```"


def settings() -> str:
    """Returns the table of all settings."""
    text = output_of("ronde doctor --settings")
    rows = ["| setting | unit | default | meaning | Horovod's name |", "|---|---|---|---|---|"]
    for name, unit, meaning, default, other in RECORD.findall(text):
        cells = [f"`{name}`", unit, default and f"`{default}`", meaning, other and f"`{other}`"]
        rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(rows)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    markdown = SETTINGS.sub(lambda _: settings(), markdown)
    return HELP.sub(lambda found: help_of(found[1]), markdown)
