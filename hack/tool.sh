#!/usr/bin/env bash
# Prints the path of a tool of hack/tools, building it when this version is not
# yet in the user's cache: tool.sh golangci-lint
set -euo pipefail

name=$1
cd "$(dirname "$0")/tools"
package=$(go list tool | grep "/$name\$") || { echo "tool.sh: no tool $name in hack/tools/go.mod" >&2; exit 1; }
version=$(go list -f '{{.Module.Version}}' "$package")
binary=${XDG_CACHE_HOME:-$HOME/.cache}/nodekit/$name@$version
if [ ! -x "$binary" ]; then
  echo "building $name $version (once, about two minutes)" >&2
  go build -o "$binary" "$package"
fi
echo "$binary"
