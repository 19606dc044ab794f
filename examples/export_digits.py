"""Write scikit-learn's handwritten digits as CSV, for the C++ example digits_mlp.

usage: python export_digits.py OUT.csv

Each of the 1,797 lines holds the 8 x 8 pixels of one image, from 0 to 16, and then its digit.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    digits = load_digits()
    rows = np.column_stack([digits.data, digits.target])
    np.savetxt(sys.argv[1], rows, fmt="%d", delimiter=",")
    print(f"{sys.argv[1]}: {len(rows)} digits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
