package runtimetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// answers is how a runtime answers where runtimes differ.
type answers struct {
	events, runtimeConfig, streams bool
	// sameName is the code of a second sandbox of the same name; OK if it is the first.
	sameName codes.Code
	// stopUnknown is the code of a stop of what is not there.
	stopUnknown codes.Code
	// updateUnknown is that of an update of what is not there.
	updateUnknown codes.Code
	// execEnded is that of a command in an exited container.
	execEnded codes.Code
	// execTimeout is that of a command over its timeout; OK if it is an exit code of -1.
	execTimeout codes.Code
	// badCommand names the call that a command fails which is not there.
	badCommand string
	// ended says whether the statistics list what has exited.
	ended bool
}

func TestKinds(t *testing.T) {
	containerd := answers{
		events: true, runtimeConfig: true, sameName: codes.Unknown, stopUnknown: codes.NotFound, updateUnknown: codes.NotFound,
		execEnded: codes.Unknown, execTimeout: codes.DeadlineExceeded, badCommand: "StartContainer", ended: true,
	}
	containerd16, containerd24 := containerd, containerd
	containerd16.events, containerd16.runtimeConfig = false, false
	containerd24.streams, containerd24.sameName, containerd24.stopUnknown = true, codes.FailedPrecondition, codes.OK
	for kind, want := range map[runtimetest.Kind]answers{
		runtimetest.Containerd: containerd, runtimetest.Containerd16: containerd16, runtimetest.Containerd24: containerd24,
		runtimetest.CRIO: {
			runtimeConfig: true, streams: true, sameName: codes.OK, stopUnknown: codes.OK, updateUnknown: codes.Unknown,
			execEnded: codes.NotFound, execTimeout: codes.OK, badCommand: "CreateContainer",
		},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			if got := ask(t, kind); got != want {
				t.Errorf("answers are\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// ask asks a server of a kind, without the client that hides the differences.
func ask(t *testing.T, kind runtimetest.Kind) (got answers) {
	t.Helper()
	w := newWorld(t, runtimetest.Config{Kind: kind, Exec: func(context.Context, runtimetest.Exec) runtimetest.ExecResult {
		return runtimetest.ExecResult{After: time.Hour}
	}})
	w.server.SetLives("bad", runtimetest.Life{StartError: "no such file or directory"})
	w.server.SetLives("ended", runtimetest.Exits(0, 0))
	cri := runtimeapi.NewRuntimeServiceClient(dialPlain(t, w.server))
	ctx := t.Context()
	sandbox := w.run(sandboxConfig("web"))
	running, ended := w.start(sandbox, containerConfig("app", 0)), w.start(sandbox, containerConfig("ended", 0))
	for w.state(ended) == "running" {
		<-time.After(time.Millisecond)
	}

	ctxEvents, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for range w.client.Watch(ctxEvents) {
	}
	got.events = ctxEvents.Err() != nil
	config, err := cri.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	got.runtimeConfig = err == nil
	if want := runtimeapi.CgroupDriver_SYSTEMD; kind == runtimetest.CRIO && config.GetLinux().GetCgroupDriver() != want {
		t.Errorf("cgroup driver is %v, want %v", config.GetLinux().GetCgroupDriver(), want)
	}
	stream, err := cri.StreamContainers(ctx, &runtimeapi.StreamContainersRequest{})
	w.must(err)
	_, err = stream.Recv()
	got.streams = err == nil

	_, err = cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig("web")})
	got.sameName = status.Code(err)
	_, err = cri.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: "none"})
	got.stopUnknown = status.Code(err)
	_, err = cri.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: "none"})
	got.updateUnknown = status.Code(err)
	_, err = cri.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: ended, Cmd: []string{"x"}})
	got.execEnded = status.Code(err)
	_, err = cri.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: running, Cmd: []string{"x"}, Timeout: 1})
	got.execTimeout = status.Code(err)

	bad, err := w.client.CreateContainer(ctx, sandbox, containerConfig("bad", 0), sandboxConfig("web"))
	got.badCommand = "CreateContainer"
	if err == nil {
		got.badCommand = "StartContainer"
		if w.client.StartContainer(ctx, bad) == nil {
			t.Error("a command that is not there was started")
		}
	}
	stats, err := w.client.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{Id: ended})
	w.must(err)
	got.ended = len(stats) == 1
	return got
}

func TestCallsThatARuntimeLacks(t *testing.T) {
	s := runtimetest.Start(t, runtimetest.Config{Lacks: []string{"ImageFsInfo"}})
	c := s.Client(t)
	if _, err := c.ImageFsInfo(t.Context()); !errors.Is(err, runtime.ErrUnimplemented) {
		t.Errorf("error is %v, want ErrUnimplemented", err)
	}
	if n := len(s.Calls("ImageFsInfo")); n != 0 {
		t.Errorf("the call was recorded %d times", n)
	}
}

// dialPlain connects to the server without our client.
func dialPlain(t *testing.T, s *runtimetest.Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Endpoint(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(s.DialContext))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
