#!/usr/bin/env bash
#
# The test command: vet, formatting, every test and example under the race
# detector with no test skipped, the laws of algo/algotest at full length without
# it, then a short fuzz of every fuzz target.
#
#   scripts/test.sh                   everything
#   FUZZTIME=1m scripts/test.sh       a longer look at each fuzz target
#   FUZZTIME=0 scripts/test.sh        no fuzzing
#
# Tests start their own servers in temporary directories, so this installs the
# servers (and a C compiler) that are missing when it runs as root on a Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

FUZZBUDGET=${FUZZBUDGET:-180} # seconds for all fuzz targets together, unless FUZZTIME is set

export SLUICE_REQUIRE_SERVERS=1 # a missing server is a failure, not a skip
export CGO_ENABLED=1            # for the race detector and SQLite
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" # a clone owned by another user has no version to stamp

say() { printf '== %s\n' "$*"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

have() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" >/dev/null; }
compiles() { echo '#include <stdlib.h>' | "${CC:-gcc}" -fsyntax-only -x c - 2>/dev/null; }
have_initdb() { have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }

# missing prints the Debian packages that the tests need and the machine lacks.
missing() {
  compiles || echo gcc libc6-dev
  have redis-server || echo redis-server
  have redis-sentinel || echo redis-sentinel
  have redis-cli || echo redis-tools
  have_initdb || echo postgresql
  have pgbouncer || echo pgbouncer
  have hey || echo hey
  have curl || echo curl
}

install_missing() {
  local packages
  mapfile -t packages < <(missing | tr ' ' '\n')
  ((${#packages[@]})) || return 0

  local remedy="apt-get update && apt-get install ${packages[*]}"
  have apt-get || die "missing ${packages[*]} (Debian's names); install them and run this again"
  ((EUID == 0)) || die "missing ${packages[*]}; as root: $remedy"

  say "installing ${packages[*]}"
  local log=$scratch/apt.log
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    die "could not install ${packages[*]}; by hand: $remedy"
  fi
  [[ -z $(missing) ]] || die "still missing after installing: $(missing | xargs)"
}

formatted() {
  local unformatted
  unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
  [[ -z $unformatted ]] || die "not formatted, run gofmt -w on: $(xargs <<<"$unformatted")"
}

# check vets and tests the module in a directory, which must run that many tests.
check() {
  say "go vet ($1)"
  (cd "$1" && go vet ./...)
  say "go test -race ($1)"
  (cd "$1" && go test -race -vet=off -count=1 -timeout=10m -v ./... 2>&1) | awk -v least="$2" -f scripts/verdict.awk
}

# at_length tests algorithms as long as they ask for: under the race detector, which
# has nothing to find in pure functions, their searches are brief and they do not
# count allocations.
at_length() {
  say "go test, the laws at full length"
  local packages
  mapfile -t packages < <(algorithms)
  {
    go test -vet=off -count=1 -timeout=10m -v ./algo/... "${packages[@]}"
    go test -vet=off -count=1 -timeout=10m -v -run='^TestLaws' ./compose
  } 2>&1 | awk -v least=300 -f scripts/verdict.awk
}

# algorithms prints the packages at the top that are held to the laws.
algorithms() { grep -l 'algotest\.Run(' ./*/laws_test.go | xargs -n1 dirname | grep -vx ./compose; }

# fuzz_targets prints "package directory target" for every fuzz target of this module.
fuzz_targets() {
  go list -f '{{.ImportPath}} {{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' ./... |
    while read -r package dir files; do
      # shellcheck disable=SC2086 # one word per file
      [[ -z $files ]] || (cd "$dir" && sed -nE "s|^func (Fuzz[A-Za-z0-9_]*)\(.*|$package $dir \1|p" $files)
    done
}

fuzz() {
  local targets
  mapfile -t targets < <(fuzz_targets)
  ((${#targets[@]})) || return 0

  local each=$((FUZZBUDGET / ${#targets[@]}))
  ((each = each > 10 ? 10 : each < 1 ? 1 : each))
  local time=${FUZZTIME:-${each}s}
  [[ ! $time =~ ^0[a-z]*$ ]] || return 0

  say "fuzzing ${#targets[@]} targets, $time each"
  local target
  for target in "${targets[@]}"; do
    # shellcheck disable=SC2086 # three words
    fuzz_one "$time" $target
  done
}

# fuzz_one TIME PACKAGE DIRECTORY TARGET
fuzz_one() {
  local log=$scratch/fuzz.log
  if go test -vet=off -run='^$' -fuzz="^$4\$" -fuzztime="$1" -fuzzminimizetime=1s "$2" >"$log" 2>&1 </dev/null; then
    printf 'ok  \t%s\t%s\n' "$2" "$4"
  elif grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; then
    printf 'ok  \t%s\t%s\n' "$2" "$4" # the go command's time ran out between two inputs; nothing failed
  else
    cat "$log"
    # A clone may be gone before anyone looks: show the input, not only its name.
    local input
    input=$(sed -nE 's|.*Failing input written to (.*)|\1|p' "$log")
    [[ -z $input ]] || { echo "$input:"; cat "$3/$input"; }
    die "$4 failed in $2"
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

have go || die "go is missing: https://go.dev/doc/install, or on Debian: apt-get install golang"
install_missing
formatted
check . 1
at_length
while read -r module; do
  check "$(dirname "$module")" 0 # it may hold benchmarks alone
done < <(find . -mindepth 2 -name go.mod -not -path '*/testdata/*' | sort)
fuzz
say "all passed"
