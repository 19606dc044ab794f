"""A card with boxes, arrows and labels, as SVG that reads well in light and dark.

The card has a background of its own, and follows the reader's colour scheme.
"""

from __future__ import annotations

import drawsvg

STYLE = """
text { font-family: system-ui, sans-serif; font-size: 14px; fill: #1d2433; }
.card { fill: #f6f8fc; stroke: #d5dbe8; }
.small { font-size: 12px; fill: #4d5770; }
.strong { font-weight: 600; }
.code { font-family: ui-monospace, monospace; font-size: 13px; }
.box { fill: #ffffff; stroke: #7c88a6; stroke-width: 1.5; }
.group { fill: none; stroke: #9aa5bf; stroke-dasharray: 5 4; }
.a { fill: #cfe3ff; stroke: #2f6fd0; }
.b { fill: #ffdfcc; stroke: #c8622a; }
.c { fill: #d2f0d8; stroke: #2f8f4e; }
.d { fill: #eadcfb; stroke: #7b4fa3; }
.line { stroke: #4d5770; stroke-width: 1.6; fill: none; }
.accent { stroke: #2f6fd0; stroke-width: 2; fill: none; }
.head { fill: #4d5770; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8ecf6; }
  .card { fill: #1b2130; stroke: #3a4358; }
  .small { fill: #b4bdd3; }
  .box { fill: #283042; stroke: #8b97b5; }
  .group { stroke: #6d7894; }
  .a { fill: #1f3f70; stroke: #79aef8; }
  .b { fill: #6a3619; stroke: #f0a070; }
  .c { fill: #1f5230; stroke: #7fd498; }
  .d { fill: #4a3068; stroke: #c29cf0; }
  .line { stroke: #b4bdd3; }
  .accent { stroke: #79aef8; }
  .head { fill: #b4bdd3; }
}
"""


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
