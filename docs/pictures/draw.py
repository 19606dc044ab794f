"""Draws the guides' pictures from the guides' own tables: python docs/pictures/draw.py."""

from __future__ import annotations

import math
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 340, 64, 24, 150, 48
LABEL_WIDTH = 56
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4fa3", "#8a6d00", "#606060", "#b0307a")
UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "Mbit/s": 1, "Gbit/s": 1000}

Rows = list[list[str]]


def table(page: str, first_cell: str) -> Rows:
    """Returns the cells of the page's table that has a row beginning with `first_cell`."""
    text = (HERE.parent / page).read_text()
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = block.splitlines()
        rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
        if any(row[0] == first_cell for row in rows):
            return [row for row in rows if not row[0].startswith("---")]
    raise ValueError(f"{page} has no table with a row {first_cell!r}")


def transposed(rows: Rows) -> Rows:
    """Exchanges rows and columns."""
    return [list(column) for column in zip(*rows)]


def quantity(label: str) -> float:
    """Returns the number of a label such as "4 KB" or "1 Gbit/s"."""
    number, unit = label.split()
    return float(number) * UNITS[unit]


def chart(rows: Rows, across: str, up: str) -> str:
    """Draws a line for each column over the first column, both axes logarithmic."""
    labels = [row[0] for row in rows[1:]]
    values = [[float(cell) if cell else math.nan for cell in row[1:]] for row in rows[1:]]
    xs = [math.log(quantity(label)) for label in labels]
    known = [math.log10(v) for row in values for v in row if not math.isnan(v)]
    low, high = math.floor(min(known)), math.ceil(max(known))

    def x_of(x: float) -> float:
        return LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="15">{up}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 10}">{across}</text>',
    ]
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    lower = False
    for index, (label, x) in enumerate(zip(labels, xs)):
        # A label that would touch the one before it stands a line lower.
        lower = index > 0 and not lower and x_of(x) - x_of(xs[index - 1]) < LABEL_WIDTH
        y = HEIGHT - (17 if lower else 30)
        parts.append(f'<text x="{x_of(x):.1f}" y="{y}" text-anchor="middle">{label}</text>')
    for index, name in enumerate(rows[0][1:]):
        colour = COLOURS[index % len(COLOURS)]
        points = [(x, row[index]) for x, row in zip(xs, values) if not math.isnan(row[index])]
        line = " ".join(f"{x_of(x):.1f},{y_of(v):.1f}" for x, v in points)
        key = TOP + 12 + 20 * index
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<path d="M{WIDTH - RIGHT + 12} {key}h18" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 36}" y="{key + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures() -> dict[str, str]:
    """Returns each picture's text by its file name."""
    codecs = transposed(table("compression.md", "dense"))
    return {
        "allreduce.svg": chart(table("performance.md", "4 KB"), "bytes", "us (logarithmic)"),
        "compression.svg": chart(codecs, "rate of the link", "ms (logarithmic)"),
    }


if __name__ == "__main__":
    for file_name, text in pictures().items():
        (HERE / file_name).write_text(text)
