#!/usr/bin/env bash
# Lists incompatible changes of the public API since a revision: apidiff.sh REV
# A revision that does not exist (the first landing) is reported, not an error.
set -euo pipefail

base=$1
apidiff=$("$(dirname "$0")/tool.sh" apidiff)
cd "$(git rev-parse --show-toplevel)"
module=$(go list -m)
if ! git rev-parse -q --verify "$base^{commit}" >/dev/null; then
  echo "there is no revision $base to compare with; name one with BASE="
  exit 0
fi

# quiet drops what apidiff says of packages that are not API.
quiet() { grep -v '^Ignoring internal' || true; }

work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add -q --detach "$work/base" "$base"
(cd "$work/base" && "$apidiff" -m -w "$work/base.api" "$module" 2>&1) | quiet
"$apidiff" -m -w "$work/head.api" "$module" 2>&1 | quiet
"$apidiff" -m -incompatible "$work/base.api" "$work/head.api" 2>&1 | quiet | tee "$work/diff"
[ ! -s "$work/diff" ] || { echo "the changes above break users; say so in CHANGELOG.md"; exit 1; }
