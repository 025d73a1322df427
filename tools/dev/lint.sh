#!/usr/bin/env bash
# clang-tidy over compile units: those that changed against the upstream branch (or, without one,
# in the last commit and since), or all of them; a changed header counts for the unit beside it.
# Needs a configured dev build. A unit takes some ten seconds.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/dev/lint.sh [--all] [-p BUILD_FOLDER] [FILE...]
  --all            every compile unit
  -p BUILD_FOLDER  where compile_commands.json lies (default: build/dev)
  FILE...          just these
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/dev
is_all=0
files=()
while (($# > 0)); do
  case "$1" in
    --all) is_all=1 ;;
    -p) build=${2:?"-p needs a folder"}; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "lint.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
    *) files+=("$1") ;;
  esac
  shift
done

if [[ ! -f $build/compile_commands.json ]]; then
  echo "lint.sh: no $build/compile_commands.json; run: cmake --preset dev" >&2
  exit 1
fi

all_units() { find src tools tests bench -name '*.cc' -print | sort; }

if ((is_all)); then
  mapfile -t files < <(all_units)
elif ((${#files[@]} == 0)); then
  base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)
  if [[ -z $base || $base == $(git rev-parse HEAD) ]]; then
    base=$(git rev-parse --verify -q 'HEAD~1' || true)
  fi
  if [[ -z $base ]]; then
    echo "lint: no earlier commit to compare with; --all lints everything"
    exit 0
  fi
  mapfile -t changed < <({ git diff --name-only --diff-filter=d "$base"; \
    git ls-files --others --exclude-standard; } | sort -u)
  for file in "${changed[@]}"; do
    case "$file" in
      tests/install/*) ;;
      *.cc) files+=("$file") ;;
      *.h) files+=("${file%.h}.cc") ;;
    esac
  done
  mapfile -t files < <(printf '%s\n' "${files[@]}" | sort -u)
fi

# Only what the build compiles can be linted: a unit without a command would be parsed by guesswork.
units=()
for file in "${files[@]}"; do
  if [[ -n $file ]] && grep -qF "/$file\"" "$build/compile_commands.json"; then
    units+=("$file")
  fi
done
if ((${#units[@]} == 0)); then
  echo "lint: nothing to do"
  exit 0
fi
echo "lint: ${#units[@]} compile units"
printf '%s\n' "${units[@]}" |
  xargs -P "$(nproc)" -n 1 clang-tidy-14 --quiet -p "$build" 2> >(grep -v 'warnings generated' >&2)
