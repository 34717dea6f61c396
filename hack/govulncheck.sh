#!/usr/bin/env bash
# Looks for known vulnerabilities in what the packages of this module, and of the nested ones that
# have code, call: govulncheck.sh [MODULE-DIR...]. Where the database cannot be reached it says so,
# and nothing was checked: that is no failure. What it finds is one, and so is anything else.
set -euo pipefail

cd "$(dirname "$0")/.."
govulncheck=$(hack/tool.sh govulncheck)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for module in . "$@"; do
  status=0
  (cd "$module" && "$govulncheck" ./...) >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ] && grep -q 'fetching vulnerabilities:' "$log"; then
    grep 'fetching vulnerabilities:' "$log"
    echo "the vulnerability database can't be reached from here: NOTHING WAS CHECKED"
    exit "$failed"
  fi
  printf '%s: ' "$module"
  cat "$log"
  [ "$status" -eq 0 ] || failed=1
done
exit "$failed"
