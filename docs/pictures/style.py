"""Colours and fonts of all pictures: a card that follows the reader's colour scheme."""

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
.grid { stroke: #d5dbe8; fill: none; }
.series { fill: none; stroke-width: 2.2; }
.s0 { stroke: #1b6ca8; } .f0 { fill: #1b6ca8; }
.s1 { stroke: #c8553d; } .f1 { fill: #c8553d; }
.s2 { stroke: #2f8f4e; } .f2 { fill: #2f8f4e; }
.s3 { stroke: #7b4fa3; } .f3 { fill: #7b4fa3; }
.s4 { stroke: #8a6d00; } .f4 { fill: #8a6d00; }
.s5 { stroke: #5b6270; } .f5 { fill: #5b6270; }
.s6 { stroke: #b0307a; } .f6 { fill: #b0307a; }
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
  .grid { stroke: #3a4358; }
  .s0 { stroke: #6db3ee; } .f0 { fill: #6db3ee; }
  .s1 { stroke: #f08a70; } .f1 { fill: #f08a70; }
  .s2 { stroke: #7fd498; } .f2 { fill: #7fd498; }
  .s3 { stroke: #c29cf0; } .f3 { fill: #c29cf0; }
  .s4 { stroke: #e0c04a; } .f4 { fill: #e0c04a; }
  .s5 { stroke: #b4bdd3; } .f5 { fill: #b4bdd3; }
  .s6 { stroke: #f08ac4; } .f6 { fill: #f08ac4; }
}
"""
