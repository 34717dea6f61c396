package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// fillBig makes pods with containers of about two kilobytes each, many at once.
func fillBig(tb testing.TB, c *runtime.Client, pods, each int) {
	tb.Helper()
	var work sync.WaitGroup
	for worker := range 8 {
		work.Go(func() {
			for i := worker; i < pods; i += 8 {
				pod := podConfig(fmt.Sprintf("pod-%d", i))
				sandbox, err := c.RunPodSandbox(tb.Context(), pod, "")
				if err != nil {
					tb.Error(err)
					return
				}
				for n := range each {
					config := containerConfig(fmt.Sprintf("c-%d", n))
					config.Labels = pod.GetLabels()
					config.Annotations = map[string]string{"filler": strings.Repeat("x", 2000)}
					if _, err := c.CreateContainer(tb.Context(), sandbox, config, pod); err != nil {
						tb.Error(err)
						return
					}
				}
			}
		})
	}
	work.Wait()
}

// A runtime that dies and comes back twenty times under load gives errors of one kind,
// and answers again each time. That no goroutine and no file is left is checked at the
// end of all tests.
func TestTwentyRestartsUnderLoad(t *testing.T) {
	const restarts, callers = 20, 16
	s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(t)
	about := onRunningPod(t, c)
	var stop atomic.Bool
	var answered, refused atomic.Int64
	var load sync.WaitGroup
	for i := range callers {
		load.Go(func() {
			for !stop.Load() {
				var err error
				switch i % 3 {
				case 0:
					_, err = c.Snapshot(t.Context())
				case 1:
					err = about["ContainerStatus"]()
				case 2:
					_, err = c.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{Id: "none"})
				}
				switch {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, runtime.ErrRuntimeDown):
					refused.Add(1)
				default:
					t.Errorf("error is %v, want none or ErrRuntimeDown", err)
				}
			}
		})
	}
	for range restarts {
		waitFor(t, c, nil)
		s.Down()
		waitFor(t, c, runtime.ErrRuntimeDown)
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, c, nil)
	stop.Store(true)
	load.Wait()
	if answered.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d calls were answered and %d refused, want some of both", answered.Load(), refused.Load())
	}
	s.ForgetCalls()
}

// waitFor calls until the error is of that kind.
func waitFor(t *testing.T, c *runtime.Client, kind error) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		_, err := c.Version(t.Context(), "0.1.0")
		if errors.Is(err, kind) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("error is still %v, want %v", err, kind)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A hundred calls that hang keep no other from being answered, and end with the client.
func TestHungCallsDelayNoOther(t *testing.T) {
	const hung = 100
	s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	c, err := runtime.Dial(t.Context(), s.Endpoint(), runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	about := onRunningPod(t, c)
	s.Inject("StopPodSandbox", runtimetest.Fault{Hang: true})
	var calls sync.WaitGroup
	for range hung {
		calls.Go(func() {
			if err := about["StopPodSandbox"](); !errors.Is(err, runtime.ErrClosed) {
				t.Errorf("hung call ended with %v, want ErrClosed", err)
			}
		})
	}
	for len(s.Calls("StopPodSandbox")) < hung {
		<-time.After(time.Millisecond)
	}
	began := time.Now()
	for range 100 {
		if err := about["ContainerStatus"](); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a hundred calls took %v beside %d that hang", took, hung)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}
