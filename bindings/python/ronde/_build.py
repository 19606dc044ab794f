"""`ronde build FRAMEWORK`: compiles a framework's operations ahead, with the Python that has it."""

from __future__ import annotations

import sys

from ronde._errors import UnavailableError


def main() -> None:
    """Compiles and prints the path. Exits with 1 and the reason if it cannot."""
    try:
        from ronde._tensorflow import build

        print(build.build())
    except (ImportError, UnavailableError, OSError) as error:
        sys.exit(f"ronde build {sys.argv[1]}: {error}")


if __name__ == "__main__":
    main()
