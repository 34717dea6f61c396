package runtimetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestExecSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
			if e.Container.Config.GetMetadata().GetName() != "app" || e.Timeout != 10*time.Second {
				t.Errorf("command is %+v", e)
			}
			return runtimetest.ExecResult{After: 3 * time.Second, Code: 2, Stdout: strings.Join(e.Cmd, " "), Stderr: "oh"}
		}})
		id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		began := time.Now()
		stdout, stderr, err := w.client.ExecSync(t.Context(), id, []string{"cat", "x"}, 10*time.Second)
		if exit, ok := errors.AsType[*runtime.ExitError](err); !ok || exit.Code != 2 {
			t.Errorf("error is %v, want exit code 2", err)
		}
		if string(stdout) != "cat x" || string(stderr) != "oh" || time.Since(began) != 3*time.Second {
			t.Errorf("output %q, %q after %v", stdout, stderr, time.Since(began))
		}
	})
}

func TestExecEndsWithItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{Exec: func(context.Context, runtimetest.Exec) runtimetest.ExecResult {
			return runtimetest.ExecResult{After: time.Hour}
		}})
		w.server.SetLives("app", runtimetest.Exits(time.Minute, 0))
		id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		began := time.Now()
		_, _, err := w.client.ExecSync(t.Context(), id, []string{"sleep"}, 0)
		if exit, ok := errors.AsType[*runtime.ExitError](err); !ok || exit.Code != 137 || time.Since(began) != time.Minute {
			t.Errorf("error is %v after %v, want exit code 137 when the container ends", err, time.Since(began))
		}
	})
}

func TestStreamingURLs(t *testing.T) {
	for _, base := range []string{"", "http://127.0.0.1:1234"} {
		w := newWorld(t, runtimetest.Config{StreamingURL: base})
		sandbox := w.run(sandboxConfig("web"))
		id := w.start(sandbox, containerConfig("app", 0))
		urls := make(map[string]bool)
		got := func(resp interface{ GetUrl() string }, err error) {
			t.Helper()
			if base == "" {
				if !errors.Is(err, runtime.ErrUnimplemented) {
					t.Errorf("error without a streaming server is %v, want ErrUnimplemented", err)
				}
				return
			}
			w.must(err)
			if !strings.HasPrefix(resp.GetUrl(), base+"/") || urls[resp.GetUrl()] {
				t.Errorf("URL is %q, want a new one under %s", resp.GetUrl(), base)
			}
			urls[resp.GetUrl()] = true
		}
		for range 2 {
			exec, err := w.client.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"sh"}})
			got(exec, err)
		}
		attach, err := w.client.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: id})
		got(attach, err)
		forward, err := w.client.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox})
		got(forward, err)
		w.must(w.client.StopPodSandbox(t.Context(), sandbox))
		if _, err := w.client.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox}); err == nil {
			t.Error("a port of a stopped sandbox was forwarded")
		}
	}
}
