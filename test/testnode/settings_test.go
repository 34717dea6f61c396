package testnode

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettingsAreCovered(t *testing.T) {
	if err := Prepare(t.Context()); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := CopySettings(dir); err != nil {
		t.Fatal(err)
	}
	// A value that no machine has shows which one is read.
	const value = "12345\n"
	if err := os.WriteFile(filepath.Join(dir, "kernel/panic"), []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "unchanged",
		"sh", "-c", "set -e; settings=$1\n"+CoverSettings+"cat /proc/sys/kernel/panic; grep -o '/proc/sys/[^ ]*' /proc/self/mounts", "cover", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, mounts, _ := strings.Cut(string(out), "\n")
	if got+"\n" != value {
		t.Errorf("a kubelet reads kernel.panic %s, want that of the copy", got)
	}
	for _, name := range hostSettings() {
		if !strings.Contains(mounts, "/proc/sys/"+name+"\n") {
			t.Errorf("%s is the machine's, covered are:\n%s", name, mounts)
		}
	}
	host, err := os.ReadFile("/proc/sys/kernel/panic")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value, string(host)); diff == "" {
		t.Error("the mount is the machine's, too")
	}
}
