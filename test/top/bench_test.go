package top_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

var benchPods = flag.Int("pods", 100, "`number` of pods of BenchmarkStatistics")

// The times of BenchmarkStatistics: both kubelets answer anew after ten seconds.
const (
	restFor  = 44 * time.Second
	askEvery = 11 * time.Second
)

// BenchmarkStatistics has our kubelet and the stock one tell of the same pods, and measures
// the CPU time of its process for each second: while nobody asks, and with an answer every
// eleven seconds. Run it with -benchtime 1x; it takes some minutes.
func BenchmarkStatistics(b *testing.B) {
	clustertest.Require(b)
	for _, kubelet := range []cluster.Source{cluster.Ours, cluster.Stock} {
		b.Run(kubelet.String(), func(b *testing.B) {
			c := clustertest.Start(b, cluster.Config{Name: "bench", Nodes: 1, NoDNS: true, Node: cluster.NodeConfig{Kubelet: kubelet, Proxy: cluster.None}})
			startPods(b, c)
			pid := c.Node(0).Kubelet().PID()
			b.Run("idle", func(b *testing.B) {
				report(b, spent(b, pid, func() { <-time.After(restFor) }))
			})
			for _, page := range []string{"stats/summary", "metrics/resource", "metrics/cadvisor"} {
				b.Run(page, func(b *testing.B) {
					took := spent(b, pid, func() {
						for range restFor / askEvery {
							<-time.After(askEvery)
							if _, err := node(b.Context(), c, page); err != nil {
								b.Fatal(err)
							}
						}
					})
					report(b, took)
				})
			}
		})
	}
}

// report reports CPU time by the second.
func report(b *testing.B, took time.Duration) {
	b.Helper()
	b.ReportMetric(took.Seconds()*1000/restFor.Seconds(), "cpu-ms/s")
}

// startPods starts pods and waits until they run.
func startPods(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	var list strings.Builder
	for i := range *benchPods {
		fmt.Fprintf(&list, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p%d"}, "spec": {"terminationGracePeriodSeconds": 1,
			"automountServiceAccountToken": false, "containers": [{"name": "main", "image": %q}]}}`+"\n", i, testnode.PauseRef)
	}
	err := testnode.Eventually(b.Context(), 10*time.Minute, "all pods run", func(ctx context.Context) error {
		if _, err := c.Kubectl(ctx, list.String(), "apply", "-f", "-"); err != nil {
			return err
		}
		out, err := c.Kubectl(ctx, "", "get", "pods", "--no-headers")
		if n := strings.Count(out, "Running"); err == nil && n < *benchPods {
			err = fmt.Errorf("%d of %d run", n, *benchPods)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	<-time.After(restFor)
}

// spent is the CPU time that a process spends while something is done.
func spent(b *testing.B, pid int, do func()) time.Duration {
	b.Helper()
	before := cpuTime(b, pid)
	do()
	return cpuTime(b, pid) - before
}

// cpuTime reads the fields utime and stime of proc_pid_stat(5), in hundredths of a second.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var sum time.Duration
	for _, i := range []int{11, 12} {
		ticks, err := strconv.Atoi(fields[i])
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum
}
