#!/bin/sh
# Runs every fuzz target for an equal share of SECONDS_TOTAL, from the committed corpus.
#   tests/fuzz/run.sh SECONDS_TOTAL [BUILD_FOLDER]
# What is found lies in BUILD_FOLDER/fuzz/artifacts, new corpus in BUILD_FOLDER/fuzz/corpus.
set -eu
total=${1:?usage: tests/fuzz/run.sh SECONDS_TOTAL [BUILD_FOLDER]}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build/fuzz}
if [ ! -d "$build/tests/fuzz" ]; then
  echo "no fuzz targets in $build: cmake --preset fuzz && cmake --build --preset fuzz" >&2
  exit 2
fi
targets=$(cd "$build/tests/fuzz" && ls ./*_fuzz)
count=$(echo "$targets" | wc -l)
each=$((total / count))
[ "$each" -gt 0 ] || each=1
mkdir -p "$build/fuzz/artifacts"
failed=0
for target in $targets; do
  name=$(basename "$target")
  corpus="$build/fuzz/corpus/$name"
  mkdir -p "$corpus"
  seeds="$root/tests/fuzz/corpus/${name%_fuzz}"
  [ -d "$seeds" ] || seeds=
  echo "== $name: $each s"
  if ! "$build/tests/fuzz/$name" -max_total_time="$each" -timeout=20 -rss_limit_mb=2048 \
      -max_len=65536 -print_final_stats=1 -verbosity=0 \
      -artifact_prefix="$build/fuzz/artifacts/$name-" "$corpus" ${seeds:+"$seeds"} \
      > "$build/fuzz/$name.log" 2>&1; then
    failed=$((failed + 1))
    tail -n 40 "$build/fuzz/$name.log"
    echo "FAILED: $name, its input is in $build/fuzz/artifacts" >&2
  fi
  grep -E 'number_of_executed_units|new_units_added' "$build/fuzz/$name.log" || true
done
echo "fuzz: $((count - failed)) targets without a finding, $failed with one"
[ "$failed" -eq 0 ]
