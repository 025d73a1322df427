#!/usr/bin/env bash
# Makes a Debian 12 machine ready for kvferry: packages, git hooks, first configure. Run it as often
# as you like; it changes only what is missing.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/dev/setup.sh [--check] [--for demo|all] [--preset NAME]
  --check        only report what is missing; exit 1 if anything is
  --for WHAT     demo: what building and running the kvferry command needs; all (default): also what
                 its tests, sanitizers, fuzzing and lint need
  --preset NAME  the preset to configure at the end (default: dev; "none": do not configure)
TEXT
}

# Compilers and libraries of the kvferry command and its benchmarks, and what draws its HTML pages.
readonly demo_packages=(
  g++ cmake ninja-build ccache pkg-config git
  libssl-dev libxxhash-dev libspdlog-dev libtbb-dev libzstd-dev zlib1g-dev libarchive-dev
  liburing-dev librocksdb-dev libsimdjson-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libbenchmark-dev
  python3 python3-matplotlib
)
# What only tests, fuzzing, formatting and lint use.
readonly test_packages=(
  libgtest-dev libgmock-dev librapidcheck-dev zstd
  clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev
)

check_only=0
wanted=all
preset=dev
while (($# > 0)); do
  case "$1" in
    --check) check_only=1 ;;
    --for) wanted=${2:?"--for needs demo or all"}; shift ;;
    --preset) preset=${2:?"--preset needs a name"}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
case "$wanted" in
  demo) packages=("${demo_packages[@]}") ;;
  all) packages=("${demo_packages[@]}" "${test_packages[@]}") ;;
  *) echo "setup.sh: --for takes demo or all, not '$wanted'" >&2; exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this is no Debian (no dpkg-query). Install by hand what corresponds to:" >&2
  echo "  ${packages[*]}" >&2
  echo "then run: cmake --preset $preset" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done

if ((check_only)); then
  if ((${#missing[@]} > 0)); then
    echo "missing packages: ${missing[*]}"
    exit 1
  fi
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi

if ((${#missing[@]} > 0)); then
  as_root=()
  if [[ $(id -u) != 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "setup.sh: installing needs root or sudo, and neither is here. As root, run:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  # A lock held by unattended upgrades is waited for, up to a limit.
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  "${apt[@]}" update </dev/null
  "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
else
  echo "packages: all ${#packages[@]} are installed"
fi

# A source archive has no .git, and a foreign owner makes git refuse: neither stops a build.
if git rev-parse --git-dir >/dev/null 2>&1; then
  if [[ $(git config --get core.hooksPath || true) != tools/dev/githooks ]]; then
    git config core.hooksPath tools/dev/githooks && echo "git hooks: tools/dev/githooks"
  fi
fi

if [[ $preset != none ]]; then
  echo "configuring preset $preset"
  cmake --preset "$preset" --log-level=WARNING
fi
