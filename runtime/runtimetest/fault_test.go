package runtimetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
