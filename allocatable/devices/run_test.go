package devices_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
)

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

// shortDir is a directory for sockets, whose paths have at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // those of t.TempDir may be longer
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// agent is a Manager that runs.
type agent struct {
	*devices.Manager
	// changed has a value after each change that is told.
	changed chan struct{}
	stop    func()
}

// start runs a Manager until the test ends or stop is called.
func start(t *testing.T, dir string) *agent {
	t.Helper()
	a := &agent{changed: make(chan struct{}, 1)}
	var err error
	a.Manager, err = devices.New(devices.Config{Dir: dir, Changed: func([]types.UID) {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	a.stop = func() { cancel(); running.Wait() }
	t.Cleanup(a.stop)
	awaitSocket(t, filepath.Join(dir, "kubelet.sock"))
	return a
}

// awaitSocket waits until somebody listens. Nothing but a connection shows that: the file of
// a socket is there before.
func awaitSocket(t *testing.T, socket string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !listens(socket); {
		if time.Now().After(deadline) {
			t.Fatalf("after %s nobody listens at %s", patience, socket)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells nobody
	}
}

func listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	return err == nil && c.Close() == nil
}

// await waits until so many devices are healthy.
func (a *agent) await(t *testing.T, want int) {
	t.Helper()
	late := time.After(patience)
	for {
		got := len(a.Allocatable()["example.com/gpu"])
		if got == want {
			return
		}
		select {
		case <-a.changed:
		case <-late:
			t.Fatalf("after %s %d devices are healthy, want %d", patience, got, want)
		}
	}
}

// plug starts a plugin with one device.
func plug(t *testing.T, dir string) *devicestest.Plugin {
	t.Helper()
	p, err := devicestest.Start(t.Context(), devicestest.Config{Dir: dir, Resource: "example.com/gpu", Devices: []*deviceapi.Device{devicestest.Healthy("0")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// TestPluginsRegisterOnTheSocket has a plugin come, be killed, come again, and notice that
// the agent was restarted by the loss of its socket.
func TestPluginsRegisterOnTheSocket(t *testing.T) {
	dir := shortDir(t)
	a := start(t, dir)
	p := plug(t, dir)
	a.await(t, 1)
	p.Kill()
	a.await(t, 0)
	p = plug(t, dir)
	a.await(t, 1)
	a.stop()
	if _, err := os.Stat(filepath.Join(dir, devices.CheckpointFile)); err != nil {
		t.Error(err)
	}
	a = start(t, dir)
	if _, err := os.Lstat(p.Endpoint()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a restart of the agent the socket of the plugin is %v, want it gone", err)
	}
	if capacity, _ := a.Resources(); len(capacity) != 1 {
		t.Errorf("after a restart of the agent the capacity is %v, want the resource known", capacity)
	}
	plug(t, dir)
	a.await(t, 1)
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	dir := shortDir(t)
	start(t, dir)
	for _, tt := range []struct {
		name string
		cfg  devicestest.Config
		want string
	}{
		{"name of the resource", devicestest.Config{Resource: "gpu"}, `the ResourceName "gpu" is invalid`},
		{"socket elsewhere", devicestest.Config{Resource: "example.com/gpu", Socket: "../x.sock"}, `the endpoint "../x.sock" is not the name of a socket beside kubelet.sock`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Dir = dir
			err := devicestest.New(tt.cfg).Register(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []devices.Config{{Dir: "plugins"}, {Grace: -1}, {Timeout: -1}} {
		if _, err := devices.New(cfg); err == nil {
			t.Errorf("New(%+v) is no error", cfg)
		}
	}
}

// TestDirectoryThatCannotBe ends Run with an error.
func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := devices.New(devices.Config{Dir: filepath.Join(file, "plugins")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); err == nil {
		t.Error("a directory below a file is no error")
	}
}
