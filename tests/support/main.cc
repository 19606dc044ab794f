// main() of every doctest program. Each test case may take 60 s unless it says otherwise: the
// program's own limit is ctest's.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
