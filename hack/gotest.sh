#!/usr/bin/env bash
# Runs go test, and a test that fails once more: gotest.sh test-node './test/node ./test/crictl' -count=1.
# A test that passes then counts as passed and is named at the end of make test, from _out/flaky/<first
# argument>. Data races, panics and more than five failures are not tried again:
# docs/adr/0022-a-second-run.md.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
report=$root/_out/flaky/$1 packages=$2
shift 2
mkdir -p "${report%/*}"
rm -f "$report"
exec "$("$root/hack/tool.sh" gotestsum)" --format pkgname-and-test-fails \
  --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
  --rerun-fails-report="$report" --packages="$packages" -- "$@"
