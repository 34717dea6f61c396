package record_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/record"
)

// serve runs a server on a unix socket until the test ends.
func serve(t *testing.T, run func(context.Context, net.Listener) error) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "proxy.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func newCRI(t *testing.T, target string) (endpoint string, log *record.Log) {
	t.Helper()
	log = new(record.Log)
	c, err := record.NewCRI(target, log)
	if err != nil {
		t.Fatal(err)
	}
	return "unix://" + serve(t, c.Serve), log
}

// A runtime behind the proxy is no different from one before it: errors, details,
// streams, big answers.
func TestRuntimeBehindTheProxyConforms(t *testing.T) {
	const image = "img.example/web:1"
	s := runtimetest.StartUnix(t, runtimetest.Config{
		Images:       []runtimetest.Image{{Name: image}},
		StreamingURL: "http://127.0.0.1:1",
		Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
			after, err := time.ParseDuration(e.Cmd[0])
			if err != nil {
				return runtimetest.ExecResult{Code: 127, Stderr: err.Error()}
			}
			var code int32
			_, _ = fmt.Sscan(e.Cmd[1], &code)
			return runtimetest.ExecResult{After: after, Code: code}
		},
	})
	endpoint, _ := newCRI(t, s.Endpoint())
	runtimetest.Conformance(t, runtimetest.Target{
		Image: image,
		Dial: func(ctx context.Context, cfg runtime.Config) (*runtime.Client, error) {
			return runtime.Dial(ctx, endpoint, cfg)
		},
		Args: func(container string, life runtimetest.Life) []string {
			s.SetLives(container, life)
			return nil
		},
		Exec: func(r runtimetest.ExecResult) []string { return []string{r.After.String(), fmt.Sprint(r.Code)} },
	})
}

func TestCRICallsAreRecordedOnce(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{})
	endpoint, log := newCRI(t, s.Endpoint())
	c, err := runtime.Dial(t.Context(), endpoint, runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.ListContainers(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.StopContainer(t.Context(), "absent", 0); err == nil {
		t.Log("stopping a container that is not there is no error of this runtime")
	}
	want := []string{
		"runtime.v1.RuntimeService/ListContainers",
		"runtime.v1.RuntimeService/StopContainer",
		// What our client tries first, and this runtime does not have.
		"runtime.v1.RuntimeService/StreamContainers",
		"runtime.v1.RuntimeService/Version",
	}
	if diff := cmp.Diff(want, log.Lines()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
