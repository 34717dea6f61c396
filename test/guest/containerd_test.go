package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is for the slowest engine on a busy machine.
const patience = 3 * time.Minute

// startContainerd starts the guest's containerd, with one image, and connects to it.
// The programs come from the host: vm -file containerd,containerd-shim-runc-v2,ctr,runc,/hog=PATH.
func startContainerd(t *testing.T) *guestRuntime {
	t.Helper()
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("this is no guest")
	}
	return startContainerdIn(t, t.TempDir())
}

// startContainerdIn is startContainerd with its data in a directory.
func startContainerdIn(t *testing.T, dir string) *guestRuntime {
	t.Helper()
	socket := filepath.Join(dir, "containerd.sock")
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[2]s"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[3]s"
`, dir, socket, testnode.PauseRef)
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "containerd", "--config", file, "--log-level", "warn")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var client *runtime.Client
	err := testnode.Eventually(ctx, patience, "containerd answers", func(ctx context.Context) error {
		var err error
		client, err = runtime.Dial(ctx, "unix://"+socket, runtime.Config{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c := &guestRuntime{Client: client, socket: socket}
	importImage(t, c, testnode.PauseRef, hog)
	return c
}

// run starts a program, which ends with the test; what it said is told when the test
// fails.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, &said)
		}
	})
}
