#!/usr/bin/env bash
# Every check there is: sets the machine up, builds, runs all tests, then the sanitizer builds, the
# fuzz targets, format and lint. The last line is "N passed, N failed, N skipped" over everything.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: tools/dev/test.sh [--quick] [--minutes N]
  --quick      only the dev build and its tests (which include the tidy check)
  --minutes N  stop what runs, and count it as failed, after N minutes in all (default: 120)
Logs and results: build/test/. Exit status 0 only if nothing failed.
TEXT
}

is_quick=0
minutes=120
while (($# > 0)); do
  case "$1" in
    --quick) is_quick=1 ;;
    --minutes) minutes=${2:?"--minutes needs a number"}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec </dev/null

jobs=$(nproc)
# Two is the least: one slow test does not hold up the rest.
test_jobs=$((jobs < 2 ? 2 : jobs))
results=$PWD/build/test
rm -rf "$results"
mkdir -p "$results"

passed=0
failed=0
skipped=0
failures=()

# limited SECONDS COMMAND...: under a time limit, or the time left for everything if that is less.
limited() {
  local limit=$(($1 < minutes * 60 - SECONDS ? $1 : minutes * 60 - SECONDS))
  shift
  if ((limit <= 0)); then
    echo "no time left of $minutes minutes for: $*"
    return 124
  fi
  timeout --kill-after=20 "$limit" "$@"
}

note() { printf '\n=== %s  [%s]\n' "$1" "$(date -u +%H:%M:%S)"; }

# Counts a check that is one pass or fail: count_check NAME STATUS.
count_check() {
  if (($2 == 0)); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("$1 (status $2)")
  fi
}

# check NAME SECONDS COMMAND...: runs one check under a time limit.
check() {
  local name=$1 limit=$2
  shift 2
  note "$name"
  limited "$limit" "$@"
  count_check "$name" $?
}

# suite PRESET SECONDS [CTEST OPTION...]: builds a preset and runs its tests. The build counts only
# when it fails; the tests count one by one.
suite() {
  local preset=$1 limit=$2
  shift 2
  note "build $preset"
  cmake --preset "$preset" --log-level=WARNING >"$results/configure-$preset.log" 2>&1 || {
    cat "$results/configure-$preset.log"
    count_check "configure $preset" 1
    return
  }
  limited "$limit" cmake --build --preset "$preset" -j "$jobs"
  local status=$?
  if ((status != 0)); then
    count_check "build $preset" "$status"
    return
  fi
  note "test $preset"
  local junit=$results/$preset.xml counts
  limited "$limit" \
    ctest --preset "$preset" -j "$test_jobs" --output-junit "$junit" "$@"
  status=$?
  local suite_passed=0 suite_failed=0 suite_skipped=0
  if counts=$(python3 tools/dev/sum_junit.py "$junit"); then
    read -r suite_passed suite_failed suite_skipped <<<"$counts"
  fi
  # A run that ended badly without a failed test (time limit, no tests found) is a failure itself.
  if ((status != 0 && suite_failed == 0)); then
    suite_failed=1
  fi
  passed=$((passed + suite_passed))
  failed=$((failed + suite_failed))
  skipped=$((skipped + suite_skipped))
  if ((suite_failed > 0)); then
    failures+=("$preset: $suite_failed failed"$'\n'"$(
      python3 tools/dev/sum_junit.py --failed "$junit" 2>&1 | sed 's/^/  /')")
  fi
}

# fuzz SECONDS: builds the fuzz targets and shares the seconds out between them.
fuzz() {
  note "build fuzz"
  limited 1200 cmake --preset fuzz --log-level=WARNING &&
    limited 1200 cmake --build --preset fuzz -j "$jobs"
  local status=$?
  if ((status != 0)); then
    count_check "build fuzz" "$status"
    return
  fi
  check "fuzz, $1 s in all" $(($1 + 300)) tests/fuzz/run.sh "$1"
}

note "set up"
tools/dev/setup.sh --preset none
setup_status=$?
if ((setup_status != 0)); then
  count_check "setup" "$setup_status"
else
  suite dev 1800
  if ((!is_quick)); then
    check "format" 120 tools/dev/format.sh --check
    suite asan 1800
    suite tsan 1200
    fuzz 60
    check "lint of changed files" 1200 tools/dev/lint.sh
  fi
fi

echo
for failure in "${failures[@]}"; do
  echo "FAILED: $failure"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
