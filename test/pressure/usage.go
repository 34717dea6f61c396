package pressure

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/runtime"
)

// Usage measures what it costs to find out how much memory pods use: from the files of
// their control groups, and from the runtime, by turns and of the same pods.
func Usage(b *testing.B, cfg Config, count int) {
	b.Helper()
	n := Start(b, cfg)
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, pod(fmt.Sprintf("many-%03d", i), "-memory", "1"))
	}
	n.Run(pods...)
	n.eventually("all pods run", func(ctx context.Context) error {
		shown, err := n.pods(ctx)
		if err != nil {
			return err
		}
		running := 0
		for _, p := range shown {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running < count {
			return fmt.Errorf("%d of %d run", running, count)
		}
		return nil
	})
	mounts, err := cgroups.Mounted()
	if err != nil {
		b.Fatal(err)
	}
	tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: cfg.CgroupRoot, Class: podstatus.QOSClass})
	if err != nil {
		b.Fatal(err)
	}
	client, err := runtime.Dial(b.Context(), "unix://"+cfg.Socket, runtime.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	var files, calls time.Duration
	rounds := 0
	for b.Loop() {
		began := time.Now()
		for _, p := range pods {
			if _, err := tree.PodUsage(p.UID); err != nil {
				b.Fatal(err)
			}
		}
		read := time.Now()
		stats, err := client.ListContainerStats(b.Context(), nil)
		if err != nil || len(stats) < count {
			b.Fatalf("the runtime tells of %d containers: %v", len(stats), err)
		}
		files, calls = files+read.Sub(began), calls+time.Since(read)
		rounds++
	}
	b.ReportMetric(files.Seconds()*1000/float64(rounds), "ms/files")
	b.ReportMetric(calls.Seconds()*1000/float64(rounds), "ms/cri")
	b.ReportMetric(calls.Seconds()/files.Seconds(), "cri/files")
}
