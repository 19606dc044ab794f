"""A card with boxes, arrows and labels, as SVG that reads well in light and dark.

The card has a background of its own, and follows the reader's colour scheme.
"""

from __future__ import annotations

import sys
from pathlib import Path

import drawsvg

sys.path.insert(0, str(Path(__file__).resolve().parent))
from style import STYLE


class Figure:
    """A drawing in units of pixels; methods add parts to it."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """`title` is what screen readers say."""
        self._drawing = drawsvg.Drawing(width, height, id_prefix="p")
        self._drawing.append_title(title)
        self._drawing.append_css(STYLE)
        self._head = drawsvg.Marker(-0.1, -0.5, 0.9, 0.5, scale=7, orient="auto")
        self._head.append(drawsvg.Lines(-0.1, 0.5, -0.1, -0.5, 0.9, 0, close=True, class_="head"))
        self._add(drawsvg.Rectangle(1, 1, width - 2, height - 2, rx=10, class_="card"))

    def _add(self, part: drawsvg.DrawingElement) -> None:
        self._drawing.append(part)

    def box(
        self, x: float, y: float, width: float, height: float, text: str = "", kind: str = ""
    ) -> None:
        """A box with text in its middle; `kind`: a, b, c or d for a colour, group for a frame."""
        kind = kind if kind == "group" else f"box {kind}".strip()
        self._add(drawsvg.Rectangle(x, y, width, height, rx=5, class_=kind))
        if text:
            self.text(x + width / 2, y + height / 2 + 5, text)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Text with its baseline at y; `kind`: small, strong or code."""
        self._add(drawsvg.Text(text, None, x, y, text_anchor=anchor, class_=kind or None))

    def arrow(self, *points: float, kind: str = "line") -> None:
        """An arrow through points x, y, x, y, ...; `kind`: line or accent."""
        self._add(drawsvg.Lines(*points, marker_end=self._head, class_=kind))

    def curve(self, x1: float, y1: float, x2: float, y2: float, up: float) -> None:
        """A curved arrow that leaves and arrives vertically, `up` pixels beyond its ends."""
        path = drawsvg.Path(marker_end=self._head, class_="line")
        self._add(path.M(x1, y1).C(x1, y1 - up, x2, y2 - up, x2, y2))

    def svg(self) -> str:
        """Returns the drawing as text."""
        text: str = self._drawing.as_svg()
        return text.rstrip() + "\n"
