"""The driver of the chaos suite: standard library only."""
