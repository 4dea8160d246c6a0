#!/usr/bin/env bash
#
# Measures sluice beside its peers, writes the figures to benchmarks/results/ and
# renders benchmarks/README.md from them.
#
#   scripts/bench.sh [AREA...]            step, memory, redis, postgres, sqlite, replay; all by default
#   scripts/bench.sh --goals [AREA...]    also fail, after all, if a goal is missed
#   scripts/bench.sh --only 'redis 4x16'  only the rows whose name contains this, beside the peers of
#                                         their goals; a few seconds a row, and nothing is written
#   scripts/bench.sh --rounds N ...       rounds of turns; more of them for less noise
#
# A name is the area, then processes x callers, then the rest: 'redis 4x16, one key'. The text
# after --only begins with the area. 'redis 4x1,' is not 'redis 4x16'.
#
# It starts the servers that it needs (redis-server and postgres of Debian) and
# ends them. For figures worth keeping, leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../benchmarks"

goals=false
only=
areas=()
options=()

fail() {
  echo "bench.sh: $*" >&2
  exit 2
}

area() {
  case $1 in
    step | memory | redis | postgres | sqlite | replay) areas+=("$1") ;;
    *) fail "$1 is no area; they are step, memory, redis, postgres, sqlite and replay" ;;
  esac
}

while (($#)); do
  case $1 in
    --goals) goals=true ;;
    --only)
      only=${2:?bench.sh: --only needs a part of a name}
      shift
      ;;
    --rounds)
      options+=(-rounds "${2:?bench.sh: --rounds needs a number}")
      shift
      ;;
    *) area "$1" ;;
  esac
  shift
done
if [[ -n $only ]]; then
  ((${#areas[@]} == 0)) || fail "--only names the area itself; leave ${areas[*]} out"
  area "${only%% *}"
  options+=(-only "$only")
else
  options+=(-results results)
fi
((${#areas[@]})) || areas=(step memory redis postgres sqlite replay)

missed=()
for area in "${areas[@]}"; do
  echo "== $area"
  SLUICE_REQUIRE_SERVERS=1 go test -tags figures -run '^TestFigures$' -count=1 -timeout 60m -v . \
    -args -area "$area" "-goals=$goals" "${options[@]}" || missed+=("$area")
done
if [[ -z $only ]]; then
  go run ./render
  (cd .. && go run ./cmd/sluice/internal/compare)
fi
((${#missed[@]} == 0)) || {
  echo "bench.sh: a goal was missed, or measuring failed: ${missed[*]}" >&2
  exit 1
}
