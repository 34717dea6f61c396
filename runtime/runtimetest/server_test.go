package runtimetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestRestartThatKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("short", runtimetest.Exits(time.Minute, 4))
		sandbox := w.run(sandboxConfig("web"))
		short, long := w.start(sandbox, containerConfig("short", 0)), w.start(sandbox, containerConfig("long", 0))
		w.server.Down()
		w.server.Down()
		elapse(time.Hour)
		w.must(w.server.Up())
		w.must(w.server.Up())
		elapse(4 * time.Second)
		w.wantState(short, "Error, code 4, after 1m0s")
		w.wantState(long, "running")
	})
}

func TestRestartThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		before := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		w.server.Down()
		w.server.Forget()
		w.must(w.server.Up())
		elapse(4 * time.Second)
		snap, err := w.client.Snapshot(t.Context())
		w.must(err)
		if len(snap.Pods) != 0 {
			t.Errorf("the runtime remembers %v", snap.Pods)
		}
		after := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		if before == after {
			t.Errorf("the id %s was given twice", after)
		}
	})
}

func TestForgetEndsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("app", runtimetest.Life{IgnoreTerm: true})
		id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		time.AfterFunc(time.Second, w.server.Forget)
		began := time.Now()
		w.must(w.client.StopContainer(t.Context(), id, 600))
		if took := time.Since(began); took != time.Second {
			t.Errorf("the stop of a container that was forgotten after a second took %v", took)
		}
	})
}

func TestCloseEndsRunningContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("app", runtimetest.Exits(time.Hour, 0))
		w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		w.server.Close()
		w.server.Close()
		if _, err := w.client.Snapshot(t.Context()); !errors.Is(err, runtime.ErrRuntimeDown) {
			t.Errorf("error after Close is %v, want ErrRuntimeDown", err)
		}
	})
}

func TestAddresses(t *testing.T) {
	w := newWorld(t, runtimetest.Config{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/30"), netip.MustParsePrefix("fd00::/64")}})
	address := func(id string) string {
		st, err := w.client.PodSandboxStatus(t.Context(), id, false)
		w.must(err)
		all := []string{st.GetStatus().GetNetwork().GetIp()}
		for _, more := range st.GetStatus().GetNetwork().GetAdditionalIps() {
			all = append(all, more.GetIp())
		}
		return strings.Join(all, " ")
	}
	for i, want := range []string{"10.1.2.2 fd00::2", "10.1.2.3 fd00::3"} {
		if got := address(w.run(sandboxConfig(fmt.Sprint("web", i)))); got != want {
			t.Errorf("addresses are %q, want %q", got, want)
		}
	}
	if _, err := w.client.RunPodSandbox(t.Context(), sandboxConfig("web2"), ""); err == nil || !strings.Contains(err.Error(), "no address left in 10.1.2.0/30") {
		t.Errorf("error without addresses is %v", err)
	}
	if got := address(w.run(hostNetwork("host"))); got != "" {
		t.Errorf("address on the host's network is %q, want none", got)
	}
}

func hostNetwork(name string) *runtimeapi.PodSandboxConfig {
	config := sandboxConfig(name)
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	return config
}

func TestNetworkProblem(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	networkReady := func() *runtimeapi.RuntimeCondition {
		st, err := w.client.Status(t.Context(), false)
		w.must(err)
		for _, c := range st.GetStatus().GetConditions() {
			if c.GetType() == runtimeapi.NetworkReady {
				return c
			}
		}
		t.Fatal("no condition NetworkReady")
		return nil
	}
	w.server.SetNetworkProblem("no plugin")
	if c := networkReady(); c.GetStatus() || c.GetReason() != "NetworkPluginNotReady" || !strings.Contains(c.GetMessage(), "no plugin") {
		t.Errorf("condition is %v", c)
	}
	if _, err := w.client.RunPodSandbox(t.Context(), sandboxConfig("web"), ""); err == nil {
		t.Error("a sandbox started without a network")
	}
	w.run(hostNetwork("host"))
	w.server.SetNetworkProblem("")
	if c := networkReady(); !c.GetStatus() {
		t.Errorf("condition is %v", c)
	}
	w.run(sandboxConfig("web"))
}

func TestRequestsThatNoClientMayMake(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	sandbox := w.run(sandboxConfig("web"))
	nameless := containerConfig("", 0)
	imageless := containerConfig("app", 0)
	imageless.Image = nil
	for name, call := range map[string]func() error{
		"sandbox without metadata": func() error {
			_, err := w.client.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{}, "")
			return err
		},
		"container without a name": func() error {
			_, err := w.client.CreateContainer(t.Context(), sandbox, nameless, sandboxConfig("web"))
			return err
		},
		"container without an image": func() error {
			_, err := w.client.CreateContainer(t.Context(), sandbox, imageless, sandboxConfig("web"))
			return err
		},
		"container without its sandbox's configuration": func() error {
			_, err := w.client.CreateContainer(t.Context(), sandbox, containerConfig("app", 0), nil)
			return err
		},
		"command without words": func() error {
			_, _, err := w.client.ExecSync(t.Context(), w.start(sandbox, containerConfig("app", 0)), nil, 0)
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: error is %v, want InvalidArgument", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := runtimetest.New(runtimetest.Config{PodCIDRs: make([]netip.Prefix, 1)}); err == nil {
		t.Error("an invalid prefix was accepted")
	}
	s, err := runtimetest.New(runtimetest.Config{Socket: filepath.Join(t.TempDir(), "no", "such", "dir")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Up() == nil {
		t.Error("a socket was made in a directory that does not exist")
	}
}

func TestUnixSocketSurvivesARestart(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{})
	for range 3 {
		if _, err := s.Client(t).Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Down()
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
	}
}

// Many agents at once, and a runtime that goes away under them: nothing may race, hang
// or be left.
func TestManyClients(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: image}}})
	s.SetLives("app", runtimetest.Exits(time.Millisecond, 1))
	c := s.Client(t)
	var pods sync.WaitGroup
	for i := range 20 {
		pods.Go(func() {
			for lived := 0; lived < 5; {
				err := live(t.Context(), c, sandboxConfig(fmt.Sprint("pod", i)))
				switch {
				case err == nil:
					lived++
				case errors.Is(err, runtime.ErrRuntimeDown):
					elapse(10 * time.Millisecond)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		elapse(20 * time.Millisecond)
		s.Down()
		if err := s.Up(); err != nil {
			t.Error(err)
		}
	}
	pods.Wait()
	snap, err := c.Snapshot(t.Context())
	if err != nil || len(snap.Pods) != 0 {
		t.Errorf("left are %v, %v, want nothing", snap, err)
	}
}

// live is a pod's life, after what an earlier try has left was removed.
func live(ctx context.Context, c *runtime.Client, pod *runtimeapi.PodSandboxConfig) error {
	left, err := c.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: pod.GetLabels()})
	if err != nil {
		return err
	}
	for _, sandbox := range left {
		if err := c.RemovePodSandbox(ctx, sandbox.GetId()); err != nil {
			return err
		}
	}
	sandbox, err := c.RunPodSandbox(ctx, pod, "")
	if err != nil {
		return err
	}
	id, err := c.CreateContainer(ctx, sandbox, containerConfig("app", 0), pod)
	if err != nil {
		return err
	}
	if err := c.StartContainer(ctx, id); err != nil {
		return err
	}
	// The container may have ended by now; these race with its end on purpose.
	_, _, _ = c.ExecSync(ctx, id, []string{"true"}, 0)
	_ = c.UpdateContainerResources(ctx, id, &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 2}})
	if _, err := c.Snapshot(ctx); err != nil {
		return err
	}
	if err := c.StopContainer(ctx, id, 1); err != nil {
		return err
	}
	return c.RemovePodSandbox(ctx, sandbox)
}
