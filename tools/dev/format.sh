#!/usr/bin/env bash
# Formats our C++ files with the one clang-format version all use; --check only tells which differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mode=(-i)
case "${1:-}" in
  "") ;;
  --check) mode=(--dry-run --Werror) ;;
  *) echo "usage: tools/dev/format.sh [--check]" >&2; exit 2 ;;
esac
mapfile -t files < <(find include src tools tests bench \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print | sort)
clang-format-14 "${mode[@]}" "${files[@]}"
