#!/usr/bin/env bash
#
# The test command. It runs gofmt, golangci-lint (with go vet) and every test and example under the race
# detector. It also runs the laws of algo/algotest at full length without the race detector.
# A skipped test is a failure.
#
# Each module is tested with the versions that its own go.mod requires. For the root these
# are the oldest versions that pass; go.work would raise them. Only the tests in
# internal/testing/readme use go.work, like the commands of the README.
#
#   scripts/test.sh                        everything but fuzzing
#   scripts/test.sh --quick                for every save: no race detector, no servers, no tests that build programs or
#                                          wait long, no linter, no fuzzing, and no packages whose code has not changed
#   FUZZ_INPUTS=1000 scripts/test.sh       also fuzzes each fuzz target with so many inputs
#   SLUICE_LONG_LAWS=1 scripts/test.sh     longer searches of algo/algotest and internal/program
#
# Tests start their own servers in temporary directories. As root on Debian, the script
# installs missing servers, a missing browser and a missing C compiler.
set -euo pipefail

# A fuzz run ends after a number of inputs, not after a time. The go command
# takes 10 seconds to report an input that hangs. A run that ended earlier would pass.
FUZZ_INPUTS=${FUZZ_INPUTS:-0}

COMPILER_GOGC=400 # compiles faster than the usual 100

LINTER=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

export SLUICE_REQUIRE_SERVERS=1 # a missing server is a failure, not a skip
export CGO_ENABLED=1            # for the race detector and SQLite
export GOWORK=off               # use the versions of each go.mod
# A program under the race detector sleeps when it ends, by default for 1s, to find races in goroutines that
# still run. That is 1s for each package and for each process that a test starts.
export GORACE="atexit_sleep_ms=50 ${GORACE:-}"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" # stamping fails in a clone that another user owns

say() { printf '== %s\n' "$*"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

have() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" >/dev/null; }
compiles() { echo '#include <stdlib.h>' | "${CC:-gcc}" -fsyntax-only -x c - 2>/dev/null; }
have_initdb() { have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }

# missing prints the Debian packages that the tests need and that are not installed.
missing() {
  compiles || echo gcc libc6-dev
  have redis-server || echo redis-server
  have redis-sentinel || echo redis-sentinel
  have redis-cli || echo redis-tools
  have_initdb || echo postgresql
  have pgbouncer || echo pgbouncer
  have curl || echo curl
  have chromium || echo chromium
  have git || echo git
  have ps || echo procps
}

install_missing() {
  local packages
  mapfile -t packages < <(missing | tr ' ' '\n')
  ((${#packages[@]})) || return 0

  local remedy="apt-get update && apt-get install ${packages[*]}"
  have apt-get || die "missing ${packages[*]} (names of Debian packages); install them and try again"
  ((EUID == 0)) || die "missing ${packages[*]}; run as root: $remedy"

  say "installing ${packages[*]}"
  local log=$scratch/apt.log
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    die "could not install ${packages[*]}; try: $remedy"
  fi
  [[ -z $(missing) ]] || die "still missing after installing: $(missing | xargs)"
}

formatted() {
  local unformatted
  unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
  [[ -z $unformatted ]] || die "not formatted, run gofmt -w on: $(xargs <<<"$unformatted")"
  local marked
  marked=$(grep -rlE --exclude-dir=.git '^(<{7}|>{7}) ' . || true)
  [[ -z $marked ]] || die "marks of a merge conflict are in: $(xargs <<<"$marked")"
}

# run_tests is go test -v. It does not cache results, and fails if a test is skipped or if no test runs. It
# uses COMPILER_GOGC for the compiler, but not for the tests.
run_tests() {
  GOGC=$COMPILER_GOGC go test -exec="env GOGC=${GOGC:-100}" -vet=off -count=1 -timeout=10m -v "$@" 2>&1 | awk -f "$scripts/summary.awk"
}

# lint DIRECTORY runs the linter on the module in a directory. The linter compiles the packages. It does so
# with the race detector, because the tests need them in this form.
lint() {
  say "golangci-lint ($1)"
  (cd "$1" && GOGC=$COMPILER_GOGC GOFLAGS="$GOFLAGS -race" go run -race=false "$LINTER" run ./...) || die "the linter found faults in $1; .golangci.yml configures it"
}

# quick tests what has changed, in a minute or less. It starts no servers.
quick() {
  unset SLUICE_REQUIRE_SERVERS
  formatted
  quick_module . || die "quick_module failed in ." # first, because it compiles what all other modules import
  # shellcheck disable=SC2046 # one word per module
  in_pairs quick_module $(modules)
  say "go vet -tags figures (./benchmarks)"
  (cd benchmarks && go vet -tags figures ./...)
  say "all passed; scripts/test.sh runs everything"
}

# quick_module DIRECTORY runs go vet and the short tests of the module in a directory. It prints nothing before they
# have ended, because another module runs at the same time. It uses COMPILER_GOGC for the compiler by -toolexec,
# because -exec, as in run_tests, would not cache results.
quick_module() {
  local log=$scratch/quick${1//\//-} failed=0
  (cd "$1" && go test -toolexec="env GOGC=$COMPILER_GOGC" -vet=all -short ./...) >"$log" 2>&1 || failed=1
  say "go vet, go test -short ($1)"
  grep -v 'no test files' "$log" || true
  return "$failed"
}

# check tests the module in a directory. Many tests wait for servers, so more packages and tests run at once
# than there are processors.
check() {
  say "go test -race ($1)"
  (cd "$1" && run_tests -race -p=$(($(nproc) * 3 / 2)) -parallel=8 ./...)
}

# in_pairs calls a function with each of the other arguments, two at a time, because one waits for the
# linker while the other runs. A failure does not stop the others.
in_pairs() {
  local call=$1 argument running=0 failed=0
  shift
  for argument; do
    ((running < 2)) || { wait -n || failed=1; ((running--)); }
    "$call" "$argument" &
    ((++running))
  done
  for ((; running; running--)); do wait -n || failed=1; done
  ((!failed)) || die "$call failed in one of $(xargs <<<"$*")"
}

# fuzz_targets prints "directory function" for each fuzz target of a module.
fuzz_targets() {
  (cd "$1" && go list -f '{{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' ./...) |
    while read -r dir files; do
      # shellcheck disable=SC2086 # one word per file
      [[ -z $files ]] || (cd "$dir" && sed -nE "s,^func (Fuzz[A-Za-z0-9_]*)\(.*,$dir \1,p" $files)
    done
}

# modules prints the directories of the modules below this one.
modules() { find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -printf '%h\n' | sort; }

# algorithm_laws tests the algorithms without the race detector. With it, the tests search only for
# a short time and do not count allocations.
algorithm_laws() {
  say "go test, the laws at full length"
  run_tests -run='^TestLaws' ./compose &
  run_tests ./algo/... ./gcra ./tokenbucket ./fixedwindow ./movingwindow
  wait $!
}

# fuzz MODULE fuzzes every fuzz target of a module.
fuzz() {
  [[ $FUZZ_INPUTS =~ ^[0-9]+$ ]] || die "FUZZ_INPUTS=$FUZZ_INPUTS is not a number; set the number of inputs for each target, such as 1000"
  ((FUZZ_INPUTS)) || return 0

  local scratch=$scratch/fuzz-${1//\//-} # of its own, because two modules may be fuzzed at once
  mkdir -p "$scratch"
  local targets=$scratch/targets
  fuzz_targets "$1" >"$targets" || die "cannot list the fuzz targets of $1"
  say "fuzzing $(wc -l <"$targets") targets, $FUZZ_INPUTS inputs each ($1)"
  local dir target built=''
  while read -r dir target; do
    [[ $dir == "$built" ]] || build_fuzz_binary "$dir"
    built=$dir
    fuzz_one "$dir" "$target"
  done <"$targets"
}

# build_fuzz_binary DIRECTORY builds the fuzz targets of a package once, because go test -fuzz
# would link them again for each target. -ldflags='-s -w' leaves out debug information, as go test does.
build_fuzz_binary() {
  local log=$scratch/fuzz.log
  (cd "$1" && GOGC=$COMPILER_GOGC go test -c -vet=off -ldflags='-s -w' -fuzz=. -o "$scratch/fuzz.test" .) >"$log" 2>&1 && return
  cat "$log"
  die "cannot build the fuzz targets of $1"
}

# fuzz_one DIRECTORY TARGET runs a fuzz target of the package that was built last, with the options
# that go test -fuzz gives it.
fuzz_one() {
  local log=$scratch/fuzz.log cache
  cache=$(go env GOCACHE)/fuzz/$(cd "$1" && go list .)
  if (cd "$1" && "$scratch/fuzz.test" -test.paniconexit0 -test.timeout=10m -test.run='^$' -test.fuzz="^$2\$" \
    -test.fuzzcachedir="$cache" -test.fuzztime="${FUZZ_INPUTS}x" -test.fuzzminimizetime=1s) >"$log" 2>&1 </dev/null &&
    grep -q '^fuzz: .* execs: ' "$log"; then
    printf 'ok  \t%s\t%s\n' "$1" "$2"
    return
  fi
  cat "$log"
  # Show the input and not only its file name, because the clone may be deleted.
  local input
  input=$(sed -nE 's|.*Failing input written to (.*)|\1|p' "$log")
  [[ -z $input ]] || { echo "$input:"; cat "$1/$input"; }
  die "$2 failed in $1"
}

# at_low_priority MODULE... tests the laws and fuzzes the modules. These tests depend on no time, so they
# use the processor while other tests wait.
at_low_priority() {
  renice -n 19 -p "$BASHPID" >/dev/null
  algorithm_laws
  in_pairs fuzz "$@"
}

main() {
  cd "$scripts/.."
  have go || die "go is missing: https://go.dev/doc/install, or on Debian: apt-get install golang"
  case ${1:-} in
    '') ;;
    --quick) quick; return ;;
    *) die "$1 is no option; there is only --quick" ;;
  esac
  install_missing
  formatted
  local nested module
  nested=$(modules)
  lint .
  # shellcheck disable=SC2086 # one word per module
  in_pairs lint $nested
  set -m # gives the background a process group, which the trap can end
  # shellcheck disable=SC2086 # one word per module
  at_low_priority . $nested >"$scratch/background.log" 2>&1 &
  background=$!
  set +m
  check .
  for module in $nested; do check "$module"; done # one at a time: two would make waits of a second too short
  wait "$background" || { cat "$scratch/background.log"; die "a law or a fuzz target failed, see above"; }
  cat "$scratch/background.log"
  background=
  say "all passed"
}

scratch=$(mktemp -d)
background=
trap '[[ -z $background ]] || kill -- "-$background" 2>/dev/null || true; rm -rf "$scratch"' EXIT

main "$@"
