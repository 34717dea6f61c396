package devicestest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/internal/readmetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadmeShowsTheExample(t *testing.T) { readmetest.ShowsExample(t) }

func Example() {
	dir, err := os.MkdirTemp("", "dp") // the path of a socket is short
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	agent, err := newAgent(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.stop()
	if err := use(ctx, dir, agent, func(list string) { fmt.Println(list) }); err != nil {
		fmt.Println(err)
	}
	// Output:
	// example.com/gpu: 0 Healthy, 1 Healthy
	// example.com/gpu: 0 Unhealthy, 1 Healthy
}

func use(ctx context.Context, dir string, agent *agent, show func(list string)) error {
	plugin, err := devicestest.Start(ctx, devicestest.Config{
		Dir: dir, Resource: "example.com/gpu",
		Devices: []*deviceapi.Device{devicestest.Healthy("0"), devicestest.Healthy("1", 0)},
	})
	if err != nil {
		return err
	}
	defer plugin.Stop()
	show(agent.next())
	plugin.List(devicestest.Unhealthy("0"), devicestest.Healthy("1", 0))
	show(agent.next())
	return nil
}

// TestCallsThatHangAndFail asks a plugin that was told so.
func TestCallsThatHangAndFail(t *testing.T) {
	p := devicestest.New(devicestest.Config{})
	broken := errors.New("broken")
	p.Fail("Allocate", broken)
	request := &deviceapi.AllocateRequest{ContainerRequests: []*deviceapi.ContainerAllocateRequest{{DevicesIds: []string{"a"}}}}
	if _, err := p.Allocate(t.Context(), request); !errors.Is(err, broken) {
		t.Errorf("error is %v, want the one it was told", err)
	}
	p.Fail("Allocate", nil)
	release := p.Hang("Allocate")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Allocate(canceled, request); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		answer, err := p.Allocate(t.Context(), request)
		if err != nil || answer.GetContainerResponses()[0].GetEnvs()["DEVICES"] != "a" {
			t.Errorf("after the release the answer is %v, %v", answer, err)
		}
	})
	release()
	asking.Wait()
	if n := len(p.Calls("Allocate")); n != 3 {
		t.Errorf("%d calls were counted, want 3", n)
	}
}
