#!/usr/bin/env bash
#
# Builds the page of sluice compare as static files for a web site.
#
#   scripts/site.sh OUTDIR
#
# The page then decides in the browser, with WebAssembly. Its addresses are relative, so it
# works below any path. A web server may compress sluice.wasm; that saves most of its size.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { printf 'site.sh: %s\n' "$*" >&2; exit 1; }

[[ $# -eq 1 && -n $1 ]] || die "want one argument, the directory to write; usage: scripts/site.sh OUTDIR"
out=$1
if [[ -e $out || -L $out ]]; then
  [[ -d $out ]] || die "$out exists and is no directory; choose another name"
  [[ -z $(ls -A -- "$out") ]] || die "$out is not empty; remove it, or choose another directory"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
site=$scratch/site
mkdir "$site"

page=$repository/cmd/sluice/internal/compare/page
cp -R -- "$page/." "$site"
cp -- "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$site"
(
  cd "$repository/cmd/sluice"
  GOOS=js GOARCH=wasm go build -trimpath -ldflags "-s -w" -o "$site/sluice.wasm" ./internal/compare/wasm
)

# A static site cannot set headers, so the page has its Content-Security-Policy in a <meta>. It is the
# policy of handler.go, with what WebAssembly in a worker needs.
policy="default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
service='<meta name="sluice-service" content="http">'
grep -qxF "$service" "$page/index.html" || die "index.html has no line $service; keep it, because this script replaces it"
while IFS= read -r line; do
  if [[ $line == "$service" ]]; then
    printf '<meta http-equiv="Content-Security-Policy" content="%s">\n' "$policy"
    printf '<meta name="sluice-service" content="wasm">\n'
  else
    printf '%s\n' "$line"
  fi
done <"$page/index.html" >"$site/index.html"

chmod -R u=rwX,go=rX "$site"
chmod a-x "$site/sluice.wasm"
mkdir -p -- "$out"
cp -R -- "$site/." "$out"
printf '%s: %s files\n' "$out" "$(find "$out" -type f | wc -l | tr -d ' ')"
