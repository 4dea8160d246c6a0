#!/usr/bin/env bash
#
# Measures sluice beside its peers, writes the figures to benchmarks/results/ and
# renders benchmarks/README.md from them.
#
#   scripts/bench.sh [AREA...]            step, memory, redis, postgres, sqlite, replay; all by default
#   scripts/bench.sh --goals [AREA...]    also fail, after all, if a goal is missed
#
# It starts the servers that it needs (redis-server and postgres of Debian) and
# ends them. For figures worth keeping, leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../benchmarks"

goals=false
areas=()
for word in "$@"; do
  case $word in
    --goals) goals=true ;;
    step | memory | redis | postgres | sqlite | replay) areas+=("$word") ;;
    *)
      echo "bench.sh: $word is no area; they are step, memory, redis, postgres, sqlite and replay" >&2
      exit 2
      ;;
  esac
done
((${#areas[@]})) || areas=(step memory redis postgres sqlite replay)

missed=()
for area in "${areas[@]}"; do
  echo "== $area"
  SLUICE_REQUIRE_SERVERS=1 go test -tags figures -run '^TestFigures$' -count=1 -timeout 30m -v . \
    -args -area "$area" -results results "-goals=$goals" || missed+=("$area")
done
go run ./render
go run ./compare
((${#missed[@]} == 0)) || {
  echo "bench.sh: a goal was missed, or measuring failed: ${missed[*]}" >&2
  exit 1
}
