package runtime_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// lists makes each list call that has a stream, and returns how many items it has.
func lists(ctx context.Context, c *runtime.Client) map[string]func() (int, error) {
	return map[string]func() (int, error){
		"ListPodSandbox":      func() (int, error) { l, err := c.ListPodSandbox(ctx, nil); return len(l), err },
		"ListContainers":      func() (int, error) { l, err := c.ListContainers(ctx, nil); return len(l), err },
		"ListContainerStats":  func() (int, error) { l, err := c.ListContainerStats(ctx, nil); return len(l), err },
		"ListPodSandboxStats": func() (int, error) { l, err := c.ListPodSandboxStats(ctx, nil); return len(l), err },
		"ListImages":          func() (int, error) { l, err := c.ListImages(ctx, nil); return len(l), err },
	}
}

func TestListsOfEitherForm(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.Containerd16, runtimetest.Containerd24} {
		t.Run(kind.String(), func(t *testing.T) {
			s := runtimetest.StartUnix(t, runtimetest.Config{Kind: kind, Images: []runtimetest.Image{{Name: "web"}}})
			c := s.Client(t)
			onRunningPod(t, c)
			for name, list := range lists(t.Context(), c) {
				for range 2 {
					if n, err := list(); err != nil || n != 1 {
						t.Errorf("%s has %d items, error %v, want 1", name, n, err)
					}
				}
			}
			streamed := len(s.Calls("StreamContainers")) > 0
			if want := kind == runtimetest.Containerd24; streamed != want || len(s.Calls("ListContainers")) > 0 == want {
				t.Errorf("lists were streamed: %v, want %v", streamed, want)
			}
		})
	}
}

// A list of more than a message can hold comes in several.
func TestTenThousandContainers(t *testing.T) {
	const pods, each = 1000, 10
	s := runtimetest.StartUnix(t, runtimetest.Config{Kind: runtimetest.Containerd24, Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(t)
	fillBig(t, c, pods, each)
	snap, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, bytes := 0, 0
	for _, p := range snap.Pods {
		n += len(p.Containers)
		for _, ct := range p.Containers {
			bytes += len(ct.GetAnnotations()["filler"])
		}
	}
	if len(snap.Pods) != pods || n != pods*each {
		t.Errorf("snapshot has %d pods with %d containers, want %d with %d", len(snap.Pods), n, pods, pods*each)
	}
	if bytes < 16<<20 {
		t.Fatalf("the list has %d bytes, which is no test of a limit of 16 MiB", bytes)
	}
	if got := runtime.Diff(nil, snap); len(got) != pods {
		t.Errorf("%d pods are new, want %d", len(got), pods)
	}
	// In one message it would be over the limit of a client.
	if _, err := plainList(t, s); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one message for all gives %v, want ResourceExhausted", err)
	}
}

func TestStreamThatBreaksIsNoList(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{Kind: runtimetest.Containerd24, Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(t)
	onRunningPod(t, c)
	// The whole list is sent before the error.
	s.Inject("StreamContainers", runtimetest.Fault{Late: true, Times: 1, Err: status.Error(codes.Internal, "boom")})
	if list, err := c.ListContainers(t.Context(), nil); err == nil || list != nil {
		t.Errorf("list is %v, error %v, want an error and nothing", list, err)
	}
	if n := len(s.Calls("ListContainers")); n != 0 {
		t.Errorf("a stream that broke was followed by %d unary calls, want none", n)
	}
	if list, err := c.ListContainers(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("the next list is %v, error %v", list, err)
	}
}

func TestStreamsAreTriedAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Kind: runtimetest.Containerd24})
		c := s.Client(t)
		s.Inject("StreamContainers", runtimetest.Fault{Err: status.Error(codes.Unimplemented, "unknown method")})
		for range 3 {
			if _, err := c.ListContainers(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if tried := len(s.Calls("StreamContainers")); tried != 1 {
			t.Errorf("a stream that the runtime does not have was tried %d times, want once", tried)
		}
		s.ClearFaults()
		s.Down()
		_, err := c.ListContainers(t.Context(), nil)
		wantKind(t, err, runtime.ErrRuntimeDown, "ListContainers")
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		s.ForgetCalls()
		if _, err := c.ListContainers(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if streamed, unary := len(s.Calls("StreamContainers")), len(s.Calls("ListContainers")); streamed != 1 || unary != 0 {
			t.Errorf("the newer runtime was asked for %d streams and %d messages, want a stream", streamed, unary)
		}
	})
}

func TestStreamedListHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Kind: runtimetest.Containerd24})
		c := s.Client(t)
		s.Inject("StreamContainers", runtimetest.Fault{Hang: true})
		began := time.Now()
		_, err := c.ListContainers(t.Context(), nil)
		wantKind(t, err, context.DeadlineExceeded, "ListContainers")
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("the hung list took %v, want 2m", took)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
		s.SetLives("app", runtimetest.Exits(time.Hour, 1))
		c := s.Client(t)
		onRunningPod(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		var got []string
		var last error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range c.Watch(ctx) {
				if err != nil {
					last = err
					continue
				}
				got = append(got, e.Type.String())
			}
		}()
		elapse(time.Minute)
		s.Down()
		elapse(10 * time.Minute)
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		<-done
		if want := []string{"events lost", "events lost", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("events are %v, want %v", got, want)
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("the watch ended with %v, want the end of its context", last)
		}
		if n := len(s.Calls("GetContainerEvents")); n != 2 {
			t.Errorf("the runtime was asked for %d streams, want 2", n)
		}
	})
}

func TestRuntimesWithoutEvents(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.Containerd16, runtimetest.CRIO} {
		t.Run(kind.String(), func(t *testing.T) {
			s := runtimetest.Start(t, runtimetest.Config{Kind: kind})
			c := s.Client(t)
			for range 3 {
				for _, err := range c.Watch(t.Context()) {
					if err != nil {
						wantKind(t, err, runtime.ErrUnimplemented, "GetContainerEvents")
					}
				}
			}
			if n := len(s.Calls("GetContainerEvents")); n > 1 {
				t.Errorf("the runtime was asked %d times, want once at most", n)
			}
		})
	}
}

// plainList lists all containers in one message, by a client without limits.
func plainList(t *testing.T, s *runtimetest.Server) (*runtimeapi.ListContainersResponse, error) {
	t.Helper()
	return runtimeapi.NewRuntimeServiceClient(dialPlain(t, s)).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
}
