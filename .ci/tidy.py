"""Runs clang-tidy over sources in batches: most of its time goes into headers that they share.

usage: tidy.py BUILD UNITY_BUILD < names    (one source a line, relative to the repository root)

BUILD has the compile commands of single sources. Sources of UNITY_BUILD that are compiled together
become one file, source after source, as the analyzer follows paths of the main file alone. Findings
are reported at their own file and line. Exit status 1 when there are any.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
AT_MOST = 8  # sources of one batch, so that two processors end at about the same time


def together(unity_build: Path) -> dict[str, str]:
    """The batch of each source that is compiled with others."""
    return {
        source: batch["file"]
        for batch in json.loads((unity_build / "compile_commands.json").read_text())
        if "/Unity/" in batch["file"]
        for source in INCLUDED.findall(Path(batch["file"]).read_text())
    }


def batches(sources: list[str], homes: dict[str, str]) -> list[list[str]]:
    """Sources that can be one file, in groups of AT_MOST."""
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(homes.get(source, source), []).append(source)
    return [
        group[i : i + AT_MOST] for group in groups.values() for i in range(0, len(group), AT_MOST)
    ]


def joined(batch: list[str]) -> tuple[str, list[tuple[str, int]]]:
    """The text of all sources, and the source and line of each of its lines."""
    lines, origins = [], []
    for source in batch:
        for number, line in enumerate(Path(source).read_text().splitlines(), 1):
            lines.append(line)
            origins.append((source, number))
    return "\n".join(lines) + "\n", origins


def at_origin(output: str, path: Path, origins: list[tuple[str, int]]) -> str:
    """`output` with places in the batch's file replaced by those in its sources."""

    def place(found: re.Match[str]) -> str:
        source, number = origins[int(found[1]) - 1]
        return f"{source}:{number}"

    return re.sub(re.escape(str(path)) + r":(\d+)", place, output)


def check(number: int, batch: list[str], build: Path, commands: dict[str, dict]) -> str:
    """The findings of one batch, or ""."""
    folder = build / "batches" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(batch[0]).name
    text, origins = joined(batch)
    path.write_text(text)
    entry = commands[batch[0]]
    command = entry["command"].replace(batch[0], str(path))
    if len(batch) > 1:
        # A local name is no shadow of one in another source. gcc reports the real ones.
        command = command.replace("-Wshadow", "-Wno-shadow")
    (folder / "compile_commands.json").write_text(
        json.dumps([{**entry, "file": str(path), "command": command}])
    )
    run = subprocess.run(
        ["clang-tidy", "--quiet", f"--config-file={ROOT}/.clang-tidy", "-p", folder, path],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 0:
        return ""
    return at_origin(run.stdout + run.stderr, path, origins)


def main(build: Path, unity_build: Path) -> int:
    """Checks the sources named on standard input."""
    entries = json.loads((build / "compile_commands.json").read_text())
    commands = {entry["file"]: entry for entry in entries}
    named = [str(ROOT / line.strip()) for line in sys.stdin if line.strip()]
    sources = [source for source in named if source in commands]
    work = batches(sources, together(unity_build))
    print(f"{len(sources)} of {len(named)} named sources, in {len(work)} batches", flush=True)
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for findings in pool.map(lambda n: check(n, work[n], build, commands), range(len(work))):
            failed += findings != ""
            print(findings.replace(f"{ROOT}/", ""), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
