package runtimetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestFaultDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.Inject("RunPodSandbox", runtimetest.Fault{Delay: time.Minute, Times: 1})
		for _, want := range []time.Duration{time.Minute, 0} {
			began := time.Now()
			w.must(w.client.RemovePodSandbox(t.Context(), w.run(sandboxConfig("web"))))
			if took := time.Since(began); took != want {
				t.Errorf("the call took %v, want %v", took, want)
			}
		}
	})
}

func TestFaultFailsSomeCalls(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	w.server.Inject("RunPodSandbox", runtimetest.Fault{
		Times: 2,
		Err:   status.Error(codes.ResourceExhausted, "no space left on device"),
		Match: func(req proto.Message) bool {
			return req.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetMetadata().GetName() == "db"
		},
	})
	w.run(sandboxConfig("web"))
	for range 2 {
		if _, err := w.client.RunPodSandbox(t.Context(), sandboxConfig("db"), ""); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("error is %v, want the injected one", err)
		}
	}
	w.run(sandboxConfig("db"))
}

func TestOldestFaultCounts(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	for _, code := range []codes.Code{codes.Internal, codes.Aborted} {
		w.server.Inject("ListImages", runtimetest.Fault{Times: 1, Err: status.Error(code, "x")})
	}
	for _, want := range []codes.Code{codes.Internal, codes.Aborted, codes.OK} {
		if _, err := w.client.ListImages(t.Context(), nil); status.Code(err) != want {
			t.Errorf("error is %v, want code %v", err, want)
		}
	}
}

func TestFaultWithoutAStatusIsUnknown(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	w.server.Inject("ListImages", runtimetest.Fault{Err: errors.New("boom")})
	if _, err := w.client.ListImages(t.Context(), nil); status.Code(err) != codes.Unknown || status.Convert(err).Message() != "boom" {
		t.Errorf("error is %v, want boom", err)
	}
	w.server.ClearFaults()
	if _, err := w.client.ListImages(t.Context(), nil); err != nil {
		t.Errorf("error after clearing is %v", err)
	}
}

// The runtime works on while its client has given up; the next try finds the name taken.
func TestLateFaultLosesTheAnswerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.Inject("RunPodSandbox", runtimetest.Fault{Times: 1, Late: true, Hang: true})
		_, err := w.client.RunPodSandbox(t.Context(), sandboxConfig("web"), "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error is %v, want the deadline", err)
		}
		_, err = w.client.RunPodSandbox(t.Context(), sandboxConfig("web"), "")
		if !errors.Is(err, runtime.ErrAlreadyExists) {
			t.Errorf("error of the second try is %v, want ErrAlreadyExists", err)
		}
		made, err := w.client.ListPodSandbox(t.Context(), nil)
		if err != nil || len(made) != 1 {
			t.Errorf("sandboxes are %v, %v, want the one whose answer was lost", made, err)
		}
	})
}

func TestHangEndsWhenTheServerGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.Inject("ListImages", runtimetest.Fault{Hang: true})
		hangs := make(chan error)
		go func() {
			_, err := w.client.ListImages(t.Context(), nil)
			hangs <- err
		}()
		synctest.Wait()
		w.server.Down()
		if c := w.server.Calls("ListImages"); len(c) != 1 || c[0].Ended.IsZero() {
			t.Errorf("calls of a server that is down are %v, want one that has ended", c)
		}
		if err := <-hangs; !errors.Is(err, runtime.ErrRuntimeDown) {
			t.Errorf("error is %v, want ErrRuntimeDown", err)
		}
	})
}

func TestUnknownCallIsAMistake(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	w.server.Inject("RunPodSandBox", runtimetest.Fault{})
	_, err := w.client.ListImages(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), `CRI has no call "RunPodSandBox"`) {
		t.Errorf("error is %v, want one that tells the mistake", err)
	}
}

// TestFaultOfAListMeetsItsStream has a runtime whose lists are streamed to its clients.
func TestFaultOfAListMeetsItsStream(t *testing.T) {
	list := func(w *world) (found int, err error) {
		items, err := w.client.ListContainers(w.Context(), &runtimeapi.ContainerFilter{Id: "c1"})
		return len(items), err
	}
	unlucky := status.Error(codes.Internal, "boom")
	ofC1 := func(req proto.Message) bool {
		switch r := req.(type) {
		case *runtimeapi.ListContainersRequest:
			return r.GetFilter().GetId() == "c1"
		case *runtimeapi.StreamContainersRequest:
			return r.GetFilter().GetId() == "c1"
		}
		return false
	}
	for _, rpc := range []string{"ListContainers", "StreamContainers"} {
		t.Run(rpc, func(t *testing.T) {
			w := newWorld(t, runtimetest.Config{Kind: runtimetest.CRIO})
			w.server.Inject(rpc, runtimetest.Fault{Times: 1, Err: unlucky, Match: ofC1})
			w.server.Inject(rpc, runtimetest.Fault{Times: 1, Err: unlucky, Late: true, Match: ofC1})
			for range 2 {
				if _, err := list(w); status.Code(err) != codes.Internal {
					t.Errorf("error is %v, want the injected one", err)
				}
			}
			if _, err := w.client.ListContainers(t.Context(), nil); err != nil {
				t.Errorf("another request: %v", err)
			}
			if found, err := list(w); err != nil || found != 0 {
				t.Errorf("found %d, %v after the faults", found, err)
			}
			for _, c := range w.server.Calls("StreamContainers")[:2] {
				if !ofC1(c.Request) || status.Code(c.Err) != codes.Internal {
					t.Errorf("call is %s of %v, error %v", c, c.Request, c.Err)
				}
			}
		})
	}
}

func TestFaultEditsAStream(t *testing.T) {
	w := newWorld(t, runtimetest.Config{Kind: runtimetest.Containerd24})
	id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
	w.server.Inject("StreamContainers", runtimetest.Fault{Times: 1, Edit: func(m proto.Message) {
		m.(*runtimeapi.StreamContainersResponse).Containers = nil
	}})
	w.server.Inject("ListContainers", runtimetest.Fault{Times: 1, Edit: func(m proto.Message) {
		r := m.(*runtimeapi.ListContainersResponse)
		r.Containers = append(r.Containers, &runtimeapi.Container{Id: "ghost"})
	}})
	for _, want := range [][]string{nil, {id, "ghost"}, {id}} {
		items, err := w.client.ListContainers(t.Context(), nil)
		var got []string
		for _, c := range items {
			got = append(got, c.GetId())
		}
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%v; containers (-want +got):\n%s", err, d)
		}
	}
}
