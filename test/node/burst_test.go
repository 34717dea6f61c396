package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkBurst starts 40 pods at once and removes them at once. Beside the time
// of both it tells what the kubelet itself needed: processor time per pod, and
// memory at the end.
func BenchmarkBurst(b *testing.B) {
	const pods = 40
	a := startAgent(b)
	for b.Loop() {
		before := a.kubeletUse()
		began := time.Now()
		for i := range pods {
			a.runPod(newPod(fmt.Sprintf("burst-%d", i)))
		}
		a.eventually("all pods run", func(ctx context.Context) error { return a.wantRunning(ctx, pods) })
		started, between := time.Since(began), a.kubeletUse()
		began = time.Now()
		for i := range pods {
			a.removePod(fmt.Sprintf("burst-%d", i))
		}
		a.eventually("all pods are gone", func(ctx context.Context) error {
			return errors.Join(a.wantNoPods(ctx), a.wantNoSandboxes(ctx))
		})
		after := a.kubeletUse()
		b.ReportMetric(started.Seconds(), "s/start")
		b.ReportMetric(time.Since(began).Seconds(), "s/stop")
		b.ReportMetric(float64((between.cpu-before.cpu).Milliseconds())/pods, "cpu-ms/pod-start")
		b.ReportMetric(float64((after.cpu-between.cpu).Milliseconds())/pods, "cpu-ms/pod-stop")
		b.ReportMetric(float64(after.memory)/(1<<20), "MiB")
	}
}

func (a *agent) wantRunning(ctx context.Context, want int) error {
	pods, err := a.kubelet.Pods(ctx)
	if err != nil {
		return err
	}
	var running int
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	if running != want {
		return fmt.Errorf("%d of %d run", running, want)
	}
	return nil
}

// use is what a process has used so far.
type use struct {
	cpu    time.Duration
	memory int64 // Resident, in bytes.
}

// kubeletUse reads the kubelet's use from /proc (proc_pid_stat(5)).
func (a *agent) kubeletUse() use {
	a.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.kubelet.PID()))
	if err != nil {
		a.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // The first one is number 3 of the manual.
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i-3], 10, 64)
		if err != nil {
			a.t.Fatal(err)
		}
		return n
	}
	// The kernel counts in hundredths of a second here, whatever its own clock is.
	return use{
		cpu:    time.Duration(number(14)+number(15)) * 10 * time.Millisecond,
		memory: number(24) * int64(os.Getpagesize()),
	}
}
