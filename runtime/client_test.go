package runtime_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// The methods have the shapes of cri-api, so that consumers can take either client.
var (
	_ cri.RuntimeVersioner      = (*runtime.Client)(nil)
	_ cri.PodSandboxManager     = (*runtime.Client)(nil)
	_ cri.ContainerStatsManager = (*runtime.Client)(nil)
	_ containerLives            = (*runtime.Client)(nil)
	_ containerManager          = (*runtime.Client)(nil)
	_ runtimeManager            = (*runtime.Client)(nil)
	_ imageManager              = (*runtime.Client)(nil)
)

// containerLives and containerManager are cri.ContainerManager without
// GetContainerEvents, which is Events.
type containerLives interface {
	CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	StartContainer(ctx context.Context, containerID string) error
	StopContainer(ctx context.Context, containerID string, timeout int64) error
	RemoveContainer(ctx context.Context, containerID string) error
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

type containerManager interface {
	UpdateContainerResources(ctx context.Context, containerID string, resources *runtimeapi.ContainerResources) error
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
	Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(ctx context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	ReopenContainerLog(ctx context.Context, ContainerID string) error
	CheckpointContainer(ctx context.Context, options *runtimeapi.CheckpointContainerRequest) error
}

// runtimeManager is what cri.RuntimeService has besides its roles, without Close.
type runtimeManager interface {
	UpdateRuntimeConfig(ctx context.Context, runtimeConfig *runtimeapi.RuntimeConfig) error
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
	RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error)
}

// imageManager is cri.ImageManagerService without Close.
type imageManager interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// calls makes each call of a Client once.
func calls() map[string]func(context.Context, *runtime.Client) error {
	return map[string]func(context.Context, *runtime.Client) error{
		"Version": func(ctx context.Context, c *runtime.Client) error { _, err := c.Version(ctx, "0.1.0"); return err },
		"Status":  func(ctx context.Context, c *runtime.Client) error { _, err := c.Status(ctx, false); return err },
		"RuntimeConfig": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.RuntimeConfig(ctx)
			return err
		},
		"UpdateRuntimeConfig": func(ctx context.Context, c *runtime.Client) error { return c.UpdateRuntimeConfig(ctx, nil) },
		"RunPodSandbox": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.RunPodSandbox(ctx, podConfig("web"), "")
			return err
		},
		"StopPodSandbox":   func(ctx context.Context, c *runtime.Client) error { return c.StopPodSandbox(ctx, "s") },
		"RemovePodSandbox": func(ctx context.Context, c *runtime.Client) error { return c.RemovePodSandbox(ctx, "s") },
		"PodSandboxStatus": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.PodSandboxStatus(ctx, "s", false)
			return err
		},
		"ListPodSandbox": func(ctx context.Context, c *runtime.Client) error { _, err := c.ListPodSandbox(ctx, nil); return err },
		"PortForward": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: "s"})
			return err
		},
		"UpdatePodSandboxResources": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: "s"})
			return err
		},
		"CreateContainer": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.CreateContainer(ctx, "s", containerConfig("app"), podConfig("web"))
			return err
		},
		"StartContainer":  func(ctx context.Context, c *runtime.Client) error { return c.StartContainer(ctx, "c") },
		"StopContainer":   func(ctx context.Context, c *runtime.Client) error { return c.StopContainer(ctx, "c", 30) },
		"RemoveContainer": func(ctx context.Context, c *runtime.Client) error { return c.RemoveContainer(ctx, "c") },
		"ListContainers":  func(ctx context.Context, c *runtime.Client) error { _, err := c.ListContainers(ctx, nil); return err },
		"ContainerStatus": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ContainerStatus(ctx, "c", false)
			return err
		},
		"UpdateContainerResources": func(ctx context.Context, c *runtime.Client) error { return c.UpdateContainerResources(ctx, "c", nil) },
		"ReopenContainerLog":       func(ctx context.Context, c *runtime.Client) error { return c.ReopenContainerLog(ctx, "c") },
		"CheckpointContainer": func(ctx context.Context, c *runtime.Client) error {
			return c.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: "c", Timeout: 60})
		},
		"ExecSync": func(ctx context.Context, c *runtime.Client) error {
			_, _, err := c.ExecSync(ctx, "c", []string{"true"}, 5*time.Second)
			return err
		},
		"Exec": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: "c"})
			return err
		},
		"Attach": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: "c"})
			return err
		},
		"ListImages": func(ctx context.Context, c *runtime.Client) error { _, err := c.ListImages(ctx, nil); return err },
		"ImageStatus": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "web"}, false)
			return err
		},
		"PullImage": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.PullImage(ctx, &runtimeapi.ImageSpec{Image: "web"}, nil, nil)
			return err
		},
		"RemoveImage": func(ctx context.Context, c *runtime.Client) error {
			return c.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: "web"})
		},
		"ImageFsInfo": func(ctx context.Context, c *runtime.Client) error { _, err := c.ImageFsInfo(ctx); return err },
		"ContainerStats": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ContainerStats(ctx, "c")
			return err
		},
		"ListContainerStats": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ListContainerStats(ctx, nil)
			return err
		},
		"PodSandboxStats": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.PodSandboxStats(ctx, "s")
			return err
		},
		"ListPodSandboxStats": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ListPodSandboxStats(ctx, nil)
			return err
		},
		"ListMetricDescriptors": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ListMetricDescriptors(ctx)
			return err
		},
		"ListPodSandboxMetrics": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.ListPodSandboxMetrics(ctx)
			return err
		},
		"CheckpointPod": func(ctx context.Context, c *runtime.Client) error {
			return c.CheckpointPod(ctx, &runtimeapi.CheckpointPodRequest{PodSandboxId: "s"})
		},
		"RestorePod": func(ctx context.Context, c *runtime.Client) error {
			_, err := c.RestorePod(ctx, &runtimeapi.RestorePodRequest{})
			return err
		},
	}
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"},
		Labels:   map[string]string{"io.kubernetes.pod.uid": name + "-uid"},
	}
}

func containerConfig(name string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "web"},
	}
}

// TestEveryUnaryCallIsThere fails when CRI gets a call that the client lacks.
func TestEveryUnaryCallIsThere(t *testing.T) {
	have := calls()
	for _, desc := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		for _, m := range desc.Methods {
			if have[m.MethodName] == nil {
				t.Errorf("no call %s", m.MethodName)
			}
		}
	}
}

func TestCallsEndAtTheirDeadline(t *testing.T) {
	const never = 0
	special := map[string]time.Duration{
		"RunPodSandbox":       4 * time.Minute,
		"StopContainer":       30*time.Second + 2*time.Minute,
		"ExecSync":            5*time.Second + 2*time.Minute,
		"CheckpointContainer": time.Minute + 2*time.Minute,
		"PullImage":           never,
		"CheckpointPod":       never,
		"RestorePod":          never,
	}
	for rpc, call := range calls() {
		t.Run(rpc, func(t *testing.T) {
			want, ok := special[rpc]
			if !ok {
				want = 2 * time.Minute
			}
			synctest.Test(t, func(t *testing.T) {
				s := runtimetest.Start(t, runtimetest.Config{})
				c := s.Client(t)
				s.Inject(rpc, runtimetest.Fault{Hang: true})
				ctx := t.Context()
				if want == never {
					want = 24 * time.Hour
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, want)
					defer cancel()
				}
				began := time.Now()
				err := call(ctx, c)
				if took := time.Since(began); took != want {
					t.Errorf("the call ended after %v, want %v", took, want)
				}
				wantKind(t, err, context.DeadlineExceeded, rpc)
			})
		})
	}
}

// wantKind checks what every error of a Client promises.
func wantKind(t *testing.T, err, kind error, rpc string) {
	t.Helper()
	op, ok := errors.AsType[*runtime.OpError](err)
	if !ok || op.Op != rpc {
		t.Errorf("error is %#v, want an OpError of %s", err, rpc)
	}
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want %q", err, kind)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{})
		c := s.Client(t)
		s.Inject("ListContainers", runtimetest.Fault{Hang: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.ListContainers(ctx, nil)
		wantKind(t, err, context.Canceled, "ListContainers")
	})
}

func TestExecSyncWithoutTimeoutHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{})
		c := s.Client(t)
		s.Inject("ExecSync", runtimetest.Fault{Delay: 100 * time.Hour, Err: status.Error(codes.Internal, "late")})
		_, _, err := c.ExecSync(t.Context(), "c", []string{"true"}, 0)
		if status.Code(err) != codes.Internal {
			t.Errorf("error is %v, want the answer after 100 hours", err)
		}
	})
}

func TestExecSyncRoundsItsTimeoutUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{})
		c := s.Client(t)
		for timeout, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, 1100 * time.Millisecond: 2} {
			s.ForgetCalls()
			// The container does not exist; only the request matters.
			if _, _, err := c.ExecSync(t.Context(), "c", []string{"true"}, timeout); !errors.Is(err, runtime.ErrNotFound) {
				t.Fatal(err)
			}
			req, ok := s.Calls("ExecSync")[0].Request.(*runtimeapi.ExecSyncRequest)
			if !ok || req.GetTimeout() != want {
				t.Errorf("timeout %v is sent as %v, want %d s", timeout, req, want)
			}
		}
	})
}

func TestHalfFilledAnswersAreMalformed(t *testing.T) {
	empty := func(m proto.Message) { proto.Reset(m) }
	for _, c := range []struct {
		rpc  string
		edit func(proto.Message)
		// field is named by the error.
		field string
	}{
		{"Version", empty, "version"},
		{"Version", func(m proto.Message) { m.(*runtimeapi.VersionResponse).RuntimeName = "" }, "runtime_name"},
		{"Status", empty, "RuntimeReady"},
		{"Status", func(m proto.Message) {
			st := m.(*runtimeapi.StatusResponse).GetStatus()
			st.Conditions = st.GetConditions()[:1]
		}, "NetworkReady"},
		{"RunPodSandbox", empty, "pod_sandbox_id"},
		{"PodSandboxStatus", empty, "status"},
		{"PodSandboxStatus", func(m proto.Message) { m.(*runtimeapi.PodSandboxStatusResponse).GetStatus().Id = "" }, "status.id"},
		{"PodSandboxStatus", func(m proto.Message) { m.(*runtimeapi.PodSandboxStatusResponse).GetStatus().Metadata = nil }, "status.metadata"},
		{"PodSandboxStatus", func(m proto.Message) { m.(*runtimeapi.PodSandboxStatusResponse).GetStatus().Metadata.Uid = "" }, "metadata.uid"},
		{"PodSandboxStatus", func(m proto.Message) { m.(*runtimeapi.PodSandboxStatusResponse).GetStatus().CreatedAt = 0 }, "created_at"},
		{"CreateContainer", empty, "container_id"},
		{"ContainerStatus", empty, "status"},
		{"ContainerStatus", func(m proto.Message) { m.(*runtimeapi.ContainerStatusResponse).GetStatus().Id = "" }, "status.id"},
		{"ContainerStatus", func(m proto.Message) { m.(*runtimeapi.ContainerStatusResponse).GetStatus().Metadata = nil }, "status.metadata"},
		{"ContainerStatus", func(m proto.Message) { m.(*runtimeapi.ContainerStatusResponse).GetStatus().CreatedAt = 0 }, "created_at"},
		{"ContainerStatus", func(m proto.Message) { m.(*runtimeapi.ContainerStatusResponse).GetStatus().Image = nil }, "status.image"},
		{"ContainerStatus", func(m proto.Message) { m.(*runtimeapi.ContainerStatusResponse).GetStatus().ImageRef = "" }, "image_ref"},
		{"Exec", empty, "url"},
		{"Attach", empty, "url"},
		{"PortForward", empty, "url"},
		{"PullImage", empty, "image_ref"},
		{"ImageStatus", func(m proto.Message) { m.(*runtimeapi.ImageStatusResponse).GetImage().Size = 0 }, "image.size"},
		{"ImageStatus", func(m proto.Message) { m.(*runtimeapi.ImageStatusResponse).GetImage().Id = "" }, "image.id"},
		{"ContainerStats", empty, "stats"},
		{"PodSandboxStats", empty, "stats"},
	} {
		t.Run(c.rpc+" without "+c.field, func(t *testing.T) {
			s := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}, StreamingURL: "http://127.0.0.1:1"})
			client := s.Client(t)
			call := onRunningPod(t, client)[c.rpc]
			s.Inject(c.rpc, runtimetest.Fault{Edit: c.edit})
			err := call()
			wantKind(t, err, runtime.ErrMalformed, c.rpc)
			if err != nil && !strings.Contains(err.Error(), c.field) {
				t.Errorf("error is %v, want it to name %s", err, c.field)
			}
		})
	}
}

// onRunningPod makes a pod with a running container and returns calls about it.
func onRunningPod(t *testing.T, c *runtime.Client) map[string]func() error {
	t.Helper()
	ctx := t.Context()
	sb, err := c.RunPodSandbox(ctx, podConfig("web"), "")
	if err != nil {
		t.Fatal(err)
	}
	ct, err := c.CreateContainer(ctx, sb, containerConfig("app"), podConfig("web"))
	if err == nil {
		err = c.StartContainer(ctx, ct)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := containerConfig("next")
	about := map[string]func() error{
		"RunPodSandbox":    func() error { _, err := c.RunPodSandbox(ctx, podConfig("db"), ""); return err },
		"PodSandboxStatus": func() error { _, err := c.PodSandboxStatus(ctx, sb, false); return err },
		"CreateContainer":  func() error { _, err := c.CreateContainer(ctx, sb, next, podConfig("web")); return err },
		"ContainerStatus":  func() error { _, err := c.ContainerStatus(ctx, ct, false); return err },
		"Exec":             func() error { _, err := c.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: ct}); return err },
		"Attach":           func() error { _, err := c.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: ct}); return err },
		"PortForward": func() error {
			_, err := c.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sb})
			return err
		},
		"ContainerStats":  func() error { _, err := c.ContainerStats(ctx, ct); return err },
		"PodSandboxStats": func() error { _, err := c.PodSandboxStats(ctx, sb); return err },
	}
	for rpc, call := range calls() {
		if about[rpc] == nil {
			about[rpc] = func() error { return call(ctx, c) }
		}
	}
	return about
}

func TestUnavailableFromTheRuntimeIsNotDown(t *testing.T) {
	s := runtimetest.Start(t, runtimetest.Config{})
	c := s.Client(t)
	s.Inject("PullImage", runtimetest.Fault{Err: status.Error(codes.Unavailable, "the registry is away")})
	_, err := c.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "web"}, nil, nil)
	if errors.Is(err, runtime.ErrRuntimeDown) {
		t.Errorf("%v is ErrRuntimeDown, although the runtime answered", err)
	}
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "the registry is away" {
		t.Errorf("error is %v, want the runtime's own", err)
	}
}

func TestRuntimeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{})
		var dials atomic.Int32
		c, err := runtime.Dial(t.Context(), s.Endpoint(), runtime.Config{
			Dialer: func(ctx context.Context, path string) (net.Conn, error) {
				dials.Add(1)
				return s.DialContext(ctx, path)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		s.Inject("ListImages", runtimetest.Fault{Hang: true})
		inFlight := make(chan error)
		go func() {
			_, err := c.ListImages(t.Context(), nil)
			inFlight <- err
		}()
		synctest.Wait()
		s.Down()
		wantKind(t, <-inFlight, runtime.ErrRuntimeDown, "ListImages")
		s.ClearFaults()

		// An hour of an agent that asks every second: each answer comes at once, and
		// nobody dials more often than the back-off allows.
		began := time.Now()
		for time.Since(began) < time.Hour {
			asked := time.Now()
			_, err := c.Snapshot(t.Context())
			wantKind(t, err, runtime.ErrRuntimeDown, "ListPodSandbox")
			if took := time.Since(asked); took > 0 {
				t.Fatalf("a call to a runtime that is down took %v", took)
			}
			elapse(time.Second)
		}
		if n := dials.Load(); n > 3600/2 {
			t.Errorf("%d connections were tried in an hour", n)
		}
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		elapse(4 * time.Second)
		if _, err := c.Snapshot(t.Context()); err != nil {
			t.Errorf("four seconds after the runtime came back: %v", err)
		}
	})
}

func TestDialFailures(t *testing.T) {
	type fault = runtimetest.Fault
	for _, c := range []struct {
		name  string
		fault fault
		cfg   runtime.Config
		down  bool
		want  error
		// text is in the error.
		text string
	}{
		{name: "runtime is down", down: true, want: runtime.ErrRuntimeDown, text: "unix:///runtimetest"},
		{name: "no CRI v1", fault: fault{Err: status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")}, want: runtime.ErrUnimplemented, text: "does not serve CRI v1"},
		{name: "no version", fault: fault{Edit: func(m proto.Message) { proto.Reset(m) }}, want: runtime.ErrMalformed},
		{name: "no answer", fault: fault{Hang: true}, cfg: runtime.Config{Timeout: time.Minute}, want: context.DeadlineExceeded},
		{name: "negative timeout", cfg: runtime.Config{Timeout: -1}, text: "Config.Timeout"},
		{name: "negative size", cfg: runtime.Config{MaxMessageSize: -1}, text: "Config.MaxMessageSize"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := runtimetest.Start(t, runtimetest.Config{})
				s.Inject("Version", c.fault)
				if c.down {
					s.Down()
				}
				c.cfg.Dialer = s.DialContext
				client, err := runtime.Dial(t.Context(), s.Endpoint(), c.cfg)
				if err == nil || client != nil {
					t.Fatalf("Dial succeeded: %v", client.Close())
				}
				if c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("error is %v, want %q", err, c.want)
				}
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("error is %v, want %q in it", err, c.text)
				}
			})
		})
	}
}

func TestDialOverASocketThatIsNotThere(t *testing.T) {
	endpoint := "unix://" + t.TempDir() + "/cri.sock"
	if _, err := runtime.Dial(t.Context(), endpoint, runtime.Config{}); !errors.Is(err, runtime.ErrRuntimeDown) || !strings.Contains(err.Error(), endpoint) {
		t.Errorf("error is %v, want ErrRuntimeDown and the endpoint", err)
	}
	if _, err := runtime.Dial(t.Context(), "tcp://127.0.0.1:1", runtime.Config{}); err == nil {
		t.Error("a TCP endpoint was accepted")
	}
}
