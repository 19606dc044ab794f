"""Draws the plots: python docs/pictures/draw.py.

The numbers are those of the guides' tables and of docs/measurements/data.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from style import STYLE  # noqa: E402

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 340, 64, 24, 150, 48
LABEL_WIDTH = 56
BAR, NAMES = 16, 190  # height of a bar, width of the names beside bars
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


def data(name: str) -> Rows:
    """Returns the rows of a file of docs/measurements/data."""
    with (HERE.parent / "measurements" / "data" / name).open(newline="") as file:
        return list(csv.reader(file))


def card(width: int, height: int, title: str) -> list[str]:
    """Returns a picture's beginning; `title` is read by screen readers."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{title}</title><style>{STYLE}</style>',
        f'<rect class="card" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>',
    ]


def bars(rows: Rows, title: str, unit: str) -> str:
    """Draws a group of bars for each row, one for each column; cells are numbers or LOW-HIGH."""
    series = rows[0][1:]
    most = max(float(cell.split("-")[-1]) for row in rows[1:] for cell in row[1:])
    room = WIDTH - NAMES - 90
    each = BAR * len(series) + 14
    parts = card(WIDTH, 64 + each * (len(rows) - 1) + 10, title)
    parts.append(f'<text class="strong" x="16" y="26">{title}</text>')
    for index, name in enumerate(series):
        x = 16 + (WIDTH - 32) // max(len(series), 2) * index
        parts.append(f'<rect class="f{index}" x="{x}" y="36" width="12" height="12" rx="2"/>')
        parts.append(f'<text class="small" x="{x + 18}" y="47">{name}</text>')
    for place, row in enumerate(rows[1:]):
        top = 62 + each * place
        middle = top + BAR * len(series) / 2 + 5
        parts.append(
            f'<text class="small" x="{NAMES - 8}" y="{middle}" text-anchor="end">{row[0]}</text>'
        )
        for index, cell in enumerate(row[1:]):
            length = float(cell.split("-")[-1]) / most * room
            y = top + BAR * index
            parts.append(
                f'<rect class="f{index}" x="{NAMES}" y="{y}" width="{max(length, 1):.1f}" '
                f'height="{BAR - 3}" rx="2"/>'
            )
            parts.append(
                f'<text class="small" x="{NAMES + length + 6:.1f}" y="{y + 11}">'
                f"{cell} {unit}</text>"
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def ratios(rows: Rows) -> Rows:
    """Returns how many times as fast as the last column the one before it is, by size."""
    sizes = list(dict.fromkeys(row[1] for row in rows[1:]))
    found = {(row[0], row[1]): float(row[3]) / float(row[2]) for row in rows[1:]}
    kinds = list(dict.fromkeys(row[0] for row in rows[1:]))
    table = [["", *sizes]]
    return table + [[kind, *(f"{found[kind, size]:.1f}" for size in sizes)] for kind in kinds]


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
        *card(WIDTH, HEIGHT, f"{up} by {across}"),
        f'<text class="small" x="{LEFT}" y="18">{up}</text>',
        f'<text class="small" x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 10}">{across}</text>',
    ]
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{10.0**power:g}</text>"
        )
    lower = False
    for index, (label, x) in enumerate(zip(labels, xs)):
        # A label that would touch the one before it stands a line lower.
        lower = index > 0 and not lower and x_of(x) - x_of(xs[index - 1]) < LABEL_WIDTH
        y = HEIGHT - (17 if lower else 30)
        parts.append(
            f'<text class="small" x="{x_of(x):.1f}" y="{y}" text-anchor="middle">{label}</text>'
        )
    for index, name in enumerate(rows[0][1:]):
        points = [(x, row[index]) for x, row in zip(xs, values) if not math.isnan(row[index])]
        line = " ".join(f"{x_of(x):.1f},{y_of(v):.1f}" for x, v in points)
        key = TOP + 12 + 20 * index
        parts.append(f'<polyline class="series s{index}" points="{line}"/>')
        parts.append(f'<path class="series s{index}" d="M{WIDTH - RIGHT + 12} {key}h18"/>')
        parts.append(f'<text class="small" x="{WIDTH - RIGHT + 36}" y="{key + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures() -> dict[str, str]:
    """Returns each picture's text by its file name."""
    codecs = transposed(table("compression.md", "dense"))
    return {
        "allreduce.svg": chart(table("performance.md", "4 KB"), "bytes", "us (logarithmic)"),
        "compression.svg": chart(codecs, "rate of the link", "ms (logarithmic)"),
        "collectives.svg": bars(
            ratios(data("collectives.csv")),
            "Open MPI's time divided by Ronde's, 2 ranks, by size",
            "x",
        ),
        "training-step.svg": bars(
            data("training-step.csv"), "Milliseconds that communication adds to a step", "ms"
        ),
        "tensorflow-step.svg": bars(
            data("tensorflow-step.csv"), "Milliseconds that communication adds to a step", "ms"
        ),
    }


if __name__ == "__main__":
    for file_name, text in pictures().items():
        (HERE / file_name).write_text(text)
