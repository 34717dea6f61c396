#!/usr/bin/env bash
# Installs the Debian packages named as arguments that are missing, and says so.
# Services that a package brings are not started: nodekit runs its own instances.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing ${missing[*]}"
[ "$(id -u)" = 0 ] || { echo "install.sh: ${missing[*]} missing, and only root can install: run as root, or apt-get install them" >&2; exit 1; }

# policy-rc.d answers 101, "do not start", while our packages are configured. One of ours
# that was left by a run that was killed is removed at the end, another one stays.
policy=/usr/sbin/policy-rc.d
ours='# nodekit: no service starts while packages for its tests are installed'
if [ ! -e "$policy" ] || grep -qxF "$ours" "$policy"; then
  printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
quiet_apt() { apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }
quiet_apt install -y --no-install-recommends "${missing[@]}" 2>/dev/null ||
  { quiet_apt update && quiet_apt install -y --no-install-recommends "${missing[@]}"; }
