package node_test

import (
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// The limits within which the end of a container is noticed after the runtime shows it:
// with nothing but the look at the runtime each second, and with the runtime's events. It
// is noticed when the status says that the container was restarted or has ended.
const (
	noticeLimit       = 1500 * time.Millisecond
	noticeEventsLimit = 200 * time.Millisecond
)

// TestKilledContainerIsNoticedWithoutEvents runs on a containerd that has no events.
func TestKilledContainerIsNoticedWithoutEvents(t *testing.T) {
	checkNoticed(startAgent(t), noticeLimit)
}

// TestKilledContainerIsNoticedByItsEvent runs on a containerd that has events.
func TestKilledContainerIsNoticedByItsEvent(t *testing.T) {
	a := startAgentOn(t, currentContainerd(t))
	limit := noticeEventsLimit
	if load := loadAverage(t); load > float64(goruntime.NumCPU()) {
		// On a machine this busy, the calls to the runtime alone take longer.
		t.Logf("the load is %.0f, the limit is that without events", load)
		limit = noticeLimit
	}
	checkNoticed(a, limit)
}

// loadAverage returns the load of the last minute, proc_loadavg(5).
func loadAverage(t *testing.T) float64 {
	t.Helper()
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	load, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return load
}

// checkNoticed kills containers and takes the median of the times: a machine that is
// busy with other things delays some.
func checkNoticed(a *agent, limit time.Duration) {
	a.t.Helper()
	const kills = 5
	for i := range kills {
		a.runPod(newPod(names[i]))
	}
	for i := range kills {
		a.waitReady(names[i])
	}
	before := a.instances()
	var times, restarts []time.Duration
	for i := range kills {
		c := before[podName(names[i])]
		noticed, shown := a.kill(names[i], c)
		times = append(times, noticed)
		restarts = append(restarts, a.madeAgain(names[i], c).Sub(shown))
	}
	slices.Sort(times)
	slices.Sort(restarts)
	a.t.Logf("after the runtime shows the end, the status does within %v, the next container is made within %v", times, restarts)
	if median := times[kills/2]; median > limit {
		a.t.Errorf("the end of a container is noticed after %s, want %s", median, limit)
	}
	if median := restarts[kills/2]; median > limit {
		a.t.Errorf("the next container is made after %s, want %s", median, limit)
	}
}

// madeAgain returns when the runtime made the run that follows c, the container of a pod.
func (a *agent) madeAgain(name string, c instance) time.Time {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		list, err := a.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.name": podName(name)},
		}})
		for _, next := range list.GetContainers() {
			if next.GetId() != c.ID && next.GetMetadata().GetAttempt() > 0 {
				return time.Unix(0, next.GetCreatedAt())
			}
		}
		select {
		case <-ctx.Done():
			a.t.Fatal(errors.Join(errors.New("the container does not start again"), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var names = [...]string{"n0", "n1", "n2", "n3", "n4"}

// kill kills a container and returns how long it takes from when the runtime shows its
// end until the pod's status does, and when the runtime shows it.
func (a *agent) kill(name string, c instance) (noticed time.Duration, shown time.Time) {
	a.t.Helper()
	if err := unix.Kill(c.PID, unix.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		if shown.IsZero() {
			st, err := a.CRI().ContainerStatus(ctx, c.ID)
			if err != nil || st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
				shown = time.Now()
			}
		}
		pod, err := a.kubelet.Pod(ctx, podName(name))
		if err == nil {
			c := pod.Status.ContainerStatuses[0]
			if c.RestartCount > 0 || c.State.Running == nil {
				now := time.Now()
				if shown.IsZero() {
					shown = now
				}
				return now.Sub(shown), shown
			}
		}
		select {
		case <-ctx.Done():
			a.t.Fatal(errors.Join(testnode.Fatal(errors.New("the end of the container is not noticed")), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}
