#!/usr/bin/env bash
# Sets this machine up where needed, then runs the tests: the C++ suite by ctest, the Python suite by
# pytest. --all adds the volumes: the same faults, lives and inputs, drawn many times more. Closes with "N passed, N failed[, N skipped]"; fails when a test did or none ran.
set -uo pipefail
usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [--quick | --all] [--cpp | --python | --gpu] [--without=PATH]...
  --quick   leave out the slow tests (packaging, training)
  --all     add the volumes, for an hour or more: drawn faults, simulated jobs and connections by the
            thousand, large counts in every test, and the fuzzers (clang)
  --cpp     only the C++ tests
  --python  only the Python tests
  --without=PATH  leave out the Python tests of this file or folder
  --gpu     only what needs a GPU; writes docs/measurements/gpu.md; exits with 2 where there is none
Reports: build/test-results/*.xml, screenshots *.png; C++ output: build/release/Testing/Temporary/LastTest.log
TEXT
}
quick='' all='' cpp=1 pytest=1 gpu='' without=()
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    --all) all=1 ;;
    --cpp) pytest='' ;;
    --python) cpp='' ;;
    --gpu) gpu=1 ;;
    --without=?*) without+=("${argument#*=}") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
for path in "${without[@]}"; do
  [ -e "$root/$path" ] || { echo "--without: '$path' is not there; a path is like tests/clusters" >&2; exit 2; }
done
if [ -n "$gpu" ] && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "no GPU here: nvidia-smi lists none, so nothing was run" >&2
  exit 2
fi
# Warnings are errors, and there are no line tables, in both builds: they then share every object.
export SKBUILD_CMAKE_DEFINE=RONDE_WERROR=ON
( set -e; set_up tests )
case $? in 0) ;; 2) exit 2 ;; *) die "the set-up failed" ;; esac
use_cmake
cd "$root" || exit 1
results=$root/build/test-results
rm -rf "$results" && mkdir -p "$results"

# run_ctest PRESET REPORT [OPTION...]: runs the C++ tests that the preset selects.
run_ctest() {
  ctest --preset "$1" "${@:3}" --output-junit "$results/$2.xml" --test-output-size-passed 1000000 \
    --test-output-size-failed 1000000
}

run_cpp() {
  say "Building the C++ tests (build/release)"
  cmake --preset release -DRONDE_BUILD_PYTHON=OFF -DRONDE_KEEP_DEBUG=OFF >"$results/configure.log" 2>&1 ||
    { cat "$results/configure.log" >&2; return 1; }
  cmake --build --preset release || return 1
  say "Running the C++ tests"
  run_ctest release cpp -j2
}

# run_volumes: what --all adds to the C++ tests.
run_volumes() {
  say "Running the volumes"
  run_ctest volume volume
}

# run_fuzzers: each of them for a minute.
run_fuzzers() {
  say "Running the fuzzers (build/fuzz)"
  install_packages clang-14 libclang-rt-14-dev || return 1
  cmake --preset fuzz >"$results/configure-fuzz.log" 2>&1 ||
    { cat "$results/configure-fuzz.log" >&2; return 1; }
  cmake --build --preset fuzz && tests/fuzz/run build/fuzz 60
}

# name_untried: of what pip offers, the newest releases that docs/versions.md does not have.
name_untried() {
  say "Newest releases that nobody has tried"
  "$venv/bin/python" tests/versions/matrix.py --newest
}

run_python() {
  if [ -n "$all" ]; then install_requirements "$root/tests/requirements-ray.txt" || return 1; fi
  say "Running the Python tests"
  RONDE_TEST_RESULTS=$results "$venv/bin/python" -m pytest -q --durations=5 --junitxml="$results/python.xml" \
    ${quick:+-m 'not slow'} "${without[@]/#/--ignore=}" tests
}

if [ -n "$gpu" ]; then
  cmake --preset release -DRONDE_BUILD_PYTHON=OFF -DRONDE_KEEP_DEBUG=OFF -DRONDE_WITH_CUDA=ON &&
    cmake --build --preset release --target gpu_suite || exit 1
  "$venv/bin/python" tests/gpu/run.py
  exit
fi

status=0
[ -z "$all" ] || export RONDE_TEST_VOLUME=all
if [ -n "$cpp" ]; then run_cpp || status=1; fi
if [ -n "$cpp" ] && [ -n "$all" ]; then
  run_volumes || status=1
  run_fuzzers || status=1
fi
[ -z "$all" ] || name_untried
if [ -n "$pytest" ]; then run_python || status=1; fi
"$venv/bin/python" tests/summary.py ${cpp:+"$results/cpp.xml"} ${cpp:+${all:+"$results/volume.xml"}} ${pytest:+"$results/python.xml"} ||
  status=1
exit $status
