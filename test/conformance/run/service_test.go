package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// fakeKubelet notes each start and runs until it is told to end.
const fakeKubelet = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/starts"
exec sleep 600
`

func writeScript(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// awaitStarts waits until the fake kubelet has started so many times.
func awaitStarts(t *testing.T, dir string, want int) {
	t.Helper()
	err := testnode.Eventually(t.Context(), time.Minute, fmt.Sprintf("start %d", want), func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(dir, "starts"))
		if err == nil && strings.Count(string(data), "\n") != want {
			err = fmt.Errorf("started with %q", data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKubeletIsRestartedAsBySystemd(t *testing.T) {
	dir := t.TempDir()
	service := filepath.Join(dir, "service")
	writeScript(t, filepath.Join(dir, "kubelet"), fakeKubelet)
	if err := writeService(service, filepath.Join(dir, "kubelet")); err != nil {
		t.Fatal(err)
	}
	supervisor := exec.CommandContext(t.Context(), filepath.Join(service, "kubelet"), "--v", "4")
	supervisor.Cancel = func() error { return supervisor.Process.Signal(syscall.SIGTERM) }
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	awaitStarts(t, dir, 1)
	sudo := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(service, "sudo"),
			append([]string{filepath.Join(service, "systemctl")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("systemctl %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := sudo("list-units", "*kubelet*"); !strings.Contains(out, "kubelet-") {
		t.Errorf("list-units prints %q, want a unit called kubelet-…", out)
	}
	sudo("reset-failed", "kubelet-suite")
	sudo("restart", "kubelet-suite")
	awaitStarts(t, dir, 2)
	sudo("kill", "kubelet-suite")
	sudo("restart", "kubelet-suite")
	awaitStarts(t, dir, 3)

	if err := supervisor.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	var pid int
	data, err := os.ReadFile(filepath.Join(service, "pid"))
	if err == nil {
		_, err = fmt.Sscan(string(data), &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the kubelet outlives its supervisor: %v", err)
	}
}
