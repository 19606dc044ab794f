"""What was wrong with arguments that the core did not take."""

from __future__ import annotations


def explained(
    error: TypeError, name: object, op: object, root: object, scale: tuple[object, object]
) -> TypeError:
    """What the core's submit() did not take, in the caller's terms."""
    if name is not None and not isinstance(name, str):
        return TypeError(f"name must be a str, not {name!r}")
    if not isinstance(op, int):
        return TypeError(
            f"op must be Average, Sum, Min, Max, Product, BitAnd, BitOr or BitXor, not {op!r}"
        )
    if not isinstance(root, int):
        return TypeError(f"root_rank must be an int, not {root!r}")
    for factor, value in zip(("prescale_factor", "postscale_factor"), scale):
        if not isinstance(value, (int, float)):
            return TypeError(f"{factor} must be a number, not {value!r}")
    return error
