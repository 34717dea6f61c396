package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestMain lets this binary be the only program of an image, too: as the first
// process of a container it waits for the signal to end.
func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		<-ended
		return
	}
	os.Exit(m.Run())
}

// patience is for the slowest engine on a busy machine.
const patience = 3 * time.Minute

// startContainerd starts the guest's containerd, with one image, and connects to it.
// The programs come from the host: vm -file containerd,containerd-shim-runc-v2,ctr,runc.
func startContainerd(t *testing.T) *runtime.Client {
	t.Helper()
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("this is no guest")
	}
	dir := t.TempDir()
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
	archive := filepath.Join(dir, "image.tar")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := testnode.ArchiveProgram(archive, testnode.PauseRef, self); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("import the image: %v: %s", err, out)
	}
	return client
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
