#!/usr/bin/env bash
# From a fresh clone to a page with miss-ratio curves: sets the machine up, builds the kvferry
# command and replays a generated workload through a few policies. Arguments go to `kvferry replay`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools/dev/setup.sh --for demo --preset bench
echo "building the kvferry command (optimised; the first time takes minutes)"
cmake --build --preset bench --target kvferry

page=$PWD/build/kvferry-demo.html
arguments=("$@")
if ((${#arguments[@]} == 0)); then
  arguments=(--policy "leaf-lru,s3-fifo,arc,auto,min")
fi
echo "running: kvferry replay ${arguments[*]} --html $page"
build/bench/tools/kvferry/kvferry replay "${arguments[@]}" --html "$page"

echo
echo "the page with the curves: file://$page"
echo "your own traffic:         build/bench/tools/kvferry/kvferry replay --trace FILE --html PAGE"
