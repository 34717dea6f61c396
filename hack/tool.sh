#!/usr/bin/env bash
# Prints the path of a tool, building it when this version is not yet in the user's
# cache: tool.sh golangci-lint, or tool.sh kubelet test/tools/kubernetes. The second
# argument is the folder of the module that names the tool; hack/tools is the default.
# A test suite (e2e, e2e_node) is a tool too: its package holds only tests.
set -euo pipefail

name=$1
module=${2:-hack/tools}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/$module"
# Read from go.mod alone: the go command would load every package first, for seconds.
read -r package version < <(awk -v name="$name" '
  { sub(/ *\/\/.*/, "") }
  $2 == "(" { block = $1; next }
  $1 == ")" { block = ""; next }
  block == "" { kind = $1; sub(/^[a-z]+[ \t]+/, "") }
  block != "" { kind = block }
  kind == "tool" && $1 ~ "/" name "$" { package = $1 }
  kind == "require" { versions[$1] = $2 }
  END {
    for (module in versions)
      if (index(package "/", module "/") == 1 && length(module) > length(best)) best = module
    print package, versions[best]
  }' go.mod)
[ -n "$version" ] || { echo "tool.sh: no tool $name in $module/go.mod" >&2; exit 1; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nodekit
binary=$cache/$name@$version

mkdir -p "$cache"
# One at a time: who comes second finds what the first has built.
exec 9>"$cache/.$name.lock"
flock 9
if [ -x "$binary" ]; then
  echo "$binary"
  exit
fi

build=(go build) cgo=0 tags='' ldflags='-s -w'
case $package in
  github.com/containerd/containerd/*) tags='no_btrfs no_zfs no_devmapper' ;; # spares it its C libraries
  github.com/opencontainers/runc)
    "$root/hack/install.sh" gcc libc6-dev libseccomp-dev pkg-config >&2 9>&-
    cgo=1 tags=seccomp
    ;;
  k8s.io/kubernetes/*)
    IFS=. read -r major minor _ <<<"${version#v}"
    for at in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      ldflags+=" -X $at.gitVersion=$version -X $at.gitMajor=$major -X $at.gitMinor=$minor"
    done
    ;;&
  k8s.io/kubernetes/test/e2e | k8s.io/kubernetes/test/e2e_node) build=(go test -c) ;;
esac

began=$SECONDS
note=once
case $package in k8s.io/kubernetes/*) note="once; the first of Kubernetes' programs takes a quarter of an hour" ;; esac
echo "building $name $version ($note)" >&2
# -v names each package as it is compiled: they are counted, and what else is said is passed on.
CGO_ENABLED=$cgo "${build[@]}" -v -trimpath -tags "$tags" -ldflags "$ldflags" -o "$binary.new" "$package" 2>&1 9>&- |
  awk '/^[^ :#]+$/ { if (++n % 250 == 0) { print "  " n " packages compiled"; fflush() } next } { print }' >&2
mv "$binary.new" "$binary"
echo "built $name in $((SECONDS - began)) s" >&2
echo "$binary"
