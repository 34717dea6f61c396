package testnode

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestIsolationWhileOthersUnmount puts a program in place of umount that finds the mount
// gone, as when another node ends at that moment, or that does not unmount at all.
func TestIsolationWhileOthersUnmount(t *testing.T) {
	if err := Prepare(t.Context()); err != nil {
		t.Skip(err)
	}
	umount, err := exec.LookPath("umount")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, umount string
		wantFail     bool
	}{
		{name: "nobody else", umount: umount + ` "$@"`},
		{name: "the mount is gone", umount: umount + ` "$@"; ` + umount + ` "$@"`},
		{name: "the mount stays", umount: "exit 32", wantFail: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			base, tools := t.TempDir(), t.TempDir()
			for _, dir := range []string{"node", "other/mount", "another/mount"} {
				if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(tools, "umount"), []byte("#!/bin/sh\n"+test.umount+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			const mounts = `set -e; for node in other another; do mount -t tmpfs none "$1/$node/mount"; done; `
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private",
				"sh", "-c", mounts+isolateScript, "isolate", base, filepath.Join(base, "node"))
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+searchPath())
			out, err := cmd.CombinedOutput()
			if failed := err != nil; failed != test.wantFail {
				t.Errorf("failed is %v, want %v: %v: %s", failed, test.wantFail, err, out)
			}
		})
	}
}
