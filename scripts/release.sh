#!/usr/bin/env bash
#
# Tags a release of every module that users import or install.
#
#   scripts/release.sh v0.2.0
#
# On the main branch, a nested module replaces the other modules of this repository by
# their directories. `go install` refuses a module that replaces others. So this script
# makes one commit on top of HEAD in which the nested modules require the tagged version
# instead, and tags that commit. It does not move the branch, and it pushes nothing. At
# the end it prints the command that pushes the tags.
#
# The module benchmarks and those in an internal directory are not released.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repository"

root=github.com/sluice-go/sluice
released=(observe observe/otel cmd/sluice) # a module comes after the modules that it requires

die() { printf 'release.sh: %s\n' "$*" >&2; exit 1; }

version=${1:-}
[[ $version =~ ^v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] ||
  die "version \"$version\" is not valid; use a version such as v0.2.0; from v2 on, the module paths must end in the major version"
[[ -z $(git status --porcelain) ]] || die "the working tree has uncommitted changes; commit or stash them"
grep -qF "## [${version#v}]" CHANGELOG.md || die "CHANGELOG.md has no section \"## [${version#v}]\"; write one"

tags=("$version")
for module in "${released[@]}"; do
  tags+=("$module/$version")
done
for tag in "${tags[@]}"; do
  ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || die "tag $tag exists; choose another version"
done

scratch=$(mktemp -d)
tree=$scratch/tree
finished=false
finish() {
  cd "$repository"
  git worktree remove --force "$tree" 2>/dev/null || true
  $finished || git tag -d "${tags[@]}" >/dev/null 2>&1 || true
  rm -rf "$scratch"
}
trap finish EXIT

# The go command must find the new tags, which exist only in this repository. It uses a
# separate module cache for them, because the tags may still move. It takes all other
# modules from the usual cache and proxy.
export GOWORK=off GOPRIVATE=$root GOPROXY
GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
export GOMODCACHE=$scratch/modules
export GOFLAGS="${GOFLAGS:-} -modcacherw -buildvcs=false"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$repository.insteadOf" GIT_CONFIG_VALUE_0="https://$root"

git worktree add -q --detach "$tree" HEAD
cd "$tree"
git commit -q --allow-empty -m "release: $version

The nested modules require the tagged version of the other modules."
git tag "${tags[0]}"
for module in "${released[@]}"; do
  (
    cd "$module"
    for other in "$root" "${released[@]/#/$root/}"; do
      grep -qE "^replace $other =>" go.mod || continue
      go mod edit -require="$other@$version" -dropreplace="$other"
      go mod download "$other" # adds its checksums to go.sum
    done
    ! grep -q '^replace' go.mod || die "$module still replaces a module: $(grep '^replace' go.mod)"
    go list -deps ./... >/dev/null # fails if go.mod or go.sum lacks anything
  )
  git commit -q --amend --no-edit -a
  git tag "$module/$version"
done

# The amended commit is the release. The checksums are still right, because the files of a
# module do not include its nested modules.
for tag in "${tags[@]}"; do
  git tag -f "$tag" >/dev/null
done
finished=true
printf '%s is tagged as %s; publish it with\n\n    git push origin' "$(git rev-parse --short HEAD)" "$version"
printf ' %s' "${tags[@]}"
printf '\n'
