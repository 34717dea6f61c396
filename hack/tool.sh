#!/usr/bin/env bash
# Prints the path of a tool, building it when this version is not yet in the user's
# cache: tool.sh golangci-lint, or tool.sh crictl test/tools. The second argument is
# the folder of the module that names the tool; hack/tools is the default.
set -euo pipefail

name=$1
module=${2:-hack/tools}
cd "$(dirname "$0")/../$module"
package=$(go list tool | grep "/$name\$") || { echo "tool.sh: no tool $name in $module/go.mod" >&2; exit 1; }
version=$(go list -f '{{.Module.Version}}' "$package")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nodekit
binary=$cache/$name@$version

mkdir -p "$cache"
# One at a time: who comes second finds what the first has built.
exec 9>"$cache/.$name.lock"
flock 9
if [ ! -x "$binary" ]; then
  echo "building $name $version (once, about three minutes)" >&2
  # The tags spare containerd its C libraries; no other tool knows them.
  CGO_ENABLED=0 go build -trimpath -tags 'no_btrfs no_zfs no_devmapper' -ldflags '-s -w' -o "$binary.new" "$package"
  mv "$binary.new" "$binary"
fi
echo "$binary"
