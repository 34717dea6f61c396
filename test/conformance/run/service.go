package run

import (
	"errors"
	"os"
	"path/filepath"
)

// The suite restarts the kubelet by systemctl, through sudo. These scripts stand in for
// them where no systemd runs. They share the folder that $0 lies in.

// supervisorScript is what the suite starts as the kubelet: it runs the kubelet, whose
// path is in the file binary, and again after "systemctl restart".
const supervisorScript = `#!/bin/sh
state=$(dirname "$(readlink -f "$0")")
child=
trap 'kill -TERM "$child"; wait "$child"; exit' TERM INT
while :; do
	rm -f "$state/wanted"
	"$(cat "$state/binary")" "$@" &
	child=$!
	echo "$child" >"$state/pid"
	wait "$child"
	status=$?
	[ -e "$state/wanted" ] || exit "$status"
	while [ "$(cat "$state/wanted")" != restart ]; do sleep 0.2; done
done
`

const systemctlScript = `#!/bin/sh
state=$(dirname "$(readlink -f "$0")")
pid=$(cat "$state/pid")
case $1 in
list-units) echo 'kubelet-suite.service loaded active running' ;;
reset-failed) ;;
restart)
	echo restart >"$state/wanted.new" && mv "$state/wanted.new" "$state/wanted"
	kill -TERM "$pid" 2>/dev/null
	for _ in $(seq 300); do
		[ "$(cat "$state/pid")" = "$pid" ] || exit 0
		sleep 0.1
	done
	echo 'the kubelet does not end' >&2
	exit 1
	;;
kill)
	echo kill >"$state/wanted.new" && mv "$state/wanted.new" "$state/wanted"
	kill -TERM "$pid"
	;;
*)
	echo "there is no systemd here to $1" >&2
	exit 1
	;;
esac
`

const sudoScript = `#!/bin/sh
exec "$@"
`

// writeService writes the scripts for a kubelet to dir.
func writeService(dir, kubelet string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for name, script := range map[string]string{"kubelet": supervisorScript, "systemctl": systemctlScript, "sudo": sudoScript} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	errs = append(errs, os.WriteFile(filepath.Join(dir, "binary"), []byte(kubelet), 0o644))
	return errors.Join(errs...)
}
