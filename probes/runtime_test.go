package probes_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// startContainer runs a container on a fake runtime and returns its ID.
func startContainer(t *testing.T, s *runtimetest.Server) (id string, exec probes.ExecFunc) {
	t.Helper()
	c := s.Client(t)
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}}
	sandbox, err := c.RunPodSandbox(t.Context(), pod, "")
	if err != nil {
		t.Fatal(err)
	}
	id, err = c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: "web:1"},
	}, pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id, probes.ExecIn(c)
}

func TestExecByACRIClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{
			Images: []runtimetest.Image{{Name: "web:1"}},
			Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
				switch e.Cmd[0] {
				case "fail":
					return runtimetest.ExecResult{Code: 3, Stdout: "out ", Stderr: "err"}
				case "hang":
					return runtimetest.ExecResult{After: time.Hour}
				}
				return runtimetest.ExecResult{Stdout: "fine"}
			},
		})
		id, exec := startContainer(t, s)
		tests := []struct {
			container, command string
			want               probes.Result
			wantErr            string
		}{
			{container: id, command: "ok", want: probes.Result{Outcome: probes.Success, Message: "fine"}},
			{container: id, command: "fail", want: probes.Result{Outcome: probes.Failure, Message: "out err"}},
			{container: id, command: "hang", want: probes.Result{Outcome: probes.Failure, Message: `command timed out: "hang" timed out after 1s`}},
			{container: "nobody", command: "ok", wantErr: "nobody"},
		}
		for _, tt := range tests {
			p := probes.Exec{Run: exec, ContainerID: tt.container, Command: []string{tt.command}}
			got, err := p.ProbeTimeout(t.Context(), time.Second)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: error is %v, want one with %q", tt.command, err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: result (-want +got):\n%s", tt.command, diff)
			}
		}
	})
}

// A runtime that does not stop a command at its timeout is not given a second one.
func TestEngineOneCommandAtATimeInTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		var timeouts []time.Duration
		s := runtimetest.Start(t, runtimetest.Config{
			Images: []runtimetest.Image{{Name: "web:1"}},
			Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
				running++
				most = max(most, running)
				timeouts = append(timeouts, e.Timeout)
				<-time.After(10 * time.Second) // whatever the timeout is
				running--
				return runtimetest.ExecResult{}
			},
		})
		id, exec := startContainer(t, s)
		failed := make(chan probes.Change, 10)
		e := engine(t, probes.Config{Hooks: probes.Hooks{Changed: func(c probes.Change) { failed <- c }}})
		p := probes.Exec{Run: exec, ContainerID: id, Command: []string{"sleep", "10"}}
		if err := e.Add(liveness(id, p, probes.Schedule{Timeout: time.Second, Period: 5 * time.Second, FailureThreshold: 2})); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		synctest.Wait()
		if most != 1 {
			t.Errorf("%d commands at a time", most)
		}
		if diff := cmp.Diff([]time.Duration{time.Second, time.Second}, timeouts); diff != "" {
			t.Errorf("timeouts (-want +got):\n%s", diff)
		}
		if len(failed) != 1 {
			t.Errorf("%d restarts were asked for, want 1", len(failed))
		}
	})
}
