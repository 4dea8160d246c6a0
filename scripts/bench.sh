#!/usr/bin/env bash
#
# Measures sluice and other limiters, writes the figures to benchmarks/results/ and renders
# benchmarks/README.md from them.
#
#   scripts/bench.sh [AREA...]            step, memory, redis, postgres, sqlite, replay; all by default
#   scripts/bench.sh --goals [AREA...]    also fail at the end if a goal is missed
#   scripts/bench.sh --only 'redis 4x16'  only the rows whose name contains this text, and only the
#                                         limiters of their goals; takes a few seconds for each row,
#                                         and writes nothing
#   scripts/bench.sh --rounds N ...       the number of rounds; more rounds give less noise
#
# The name of a row begins with the area, and so must the text after --only. In redis, postgres and
# sqlite the number of processes x callers follows: 'redis 4x16, one key'. 'redis 4x1' also selects
# 'redis 4x16'; 'redis 4x1,' does not. 'redis time' selects the time of Redis itself.
#
# The script starts and stops the servers that it needs (redis-server and postgres of Debian).
# For results that you commit, run nothing else on the machine.
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
    *) fail "unknown area \"$1\"; the areas are step, memory, redis, postgres, sqlite and replay" ;;
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
  ((${#areas[@]} == 0)) || fail "the text of --only begins with the area; remove ${areas[*]}"
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
  (cd .. && go test -count=1 -run TestCommittedPageIsCurrent ./cmd/sluice/internal/simulate -update)
fi
((${#missed[@]} == 0)) || {
  echo "bench.sh: a goal was missed or a measurement failed in: ${missed[*]}" >&2
  exit 1
}
