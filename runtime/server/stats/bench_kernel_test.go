package stats

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// BenchmarkKernel measures one answer about pods with one container each, whose groups are
// the kernel's. Nothing is answered from what was read before. It needs root.
func BenchmarkKernel(b *testing.B) {
	for _, pods := range []int{110, 500} {
		c := benchCollector(b, pods)
		handler := c.Handler()
		answer := func(target string) func() {
			return func() {
				rec := httptest.NewRecorder()
				rec.Body = nil
				handler.ServeHTTP(rec, httptest.NewRequest("GET", target, nil))
			}
		}
		for _, bm := range []struct {
			name string
			do   func()
		}{
			{"summary", answer("/stats/summary")},
			{"cpu-and-memory", answer("/stats/summary?only_cpu_and_memory=true")},
			{"resource", func() { c.Resource(b.Context()) }},
			{"containers", func() { c.Containers(b.Context()) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", bm.name, pods), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					bm.do()
				}
			})
		}
	}
}

// benchCollector reads groups that it makes, which go with the benchmark.
func benchCollector(b *testing.B, pods int) *Collector {
	b.Helper()
	root := fmt.Sprintf("nodekit-bench-%d-%d", os.Getpid(), pods)
	hierarchies := benchHierarchies(b)
	var list []Pod
	for i := range pods {
		group := fmt.Sprintf("/%s/pod%d", root, i)
		list = append(list, Pod{
			UID: "u", Namespace: "default", Name: fmt.Sprintf("pod-%d", i), Sandbox: fmt.Sprintf("sandbox%d", i), Group: group,
			Containers: []Container{{ID: fmt.Sprintf("container%d", i), Name: "main", Created: time.Now()}},
		})
		for _, h := range hierarchies {
			for _, name := range []string{fmt.Sprintf("sandbox%d", i), fmt.Sprintf("container%d", i)} {
				benchGroup(b, h.Path, filepath.Join(group, name))
			}
		}
	}
	reader, err := cgroupstat.New(hierarchies)
	if err != nil {
		b.Fatal(err)
	}
	runtime := &cri{}
	for i := range pods {
		runtime.list = append(runtime.list, containerStats(fmt.Sprintf("container%d", i), 1))
	}
	c, err := New(Config{
		Node: "node-a", Pods: func() []Pod { return list }, Groups: reader, Runtime: runtime, Ages: Ages{Usage: 1},
		Machine: func() Machine { return Machine{CPUs: 2, MemoryBytes: 1 << 34} },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-ended })
	return c
}

// benchHierarchies are those of this machine.
func benchHierarchies(b *testing.B) []cgroupstat.Hierarchy {
	b.Helper()
	if os.Getuid() != 0 {
		b.Skip("needs root")
	}
	if raw, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []cgroupstat.Hierarchy{{Path: "/sys/fs/cgroup", V2: true, Controllers: strings.Fields(string(raw))}}
	}
	var out []cgroupstat.Hierarchy
	for _, name := range []string{"memory", "pids", "cpu", "cpuacct", "blkio"} {
		if _, err := os.Stat("/sys/fs/cgroup/" + name); err == nil {
			out = append(out, cgroupstat.Hierarchy{Path: "/sys/fs/cgroup/" + name, Controllers: []string{name}})
		}
	}
	return out
}

// benchGroup makes a group and those above, and removes what it made.
func benchGroup(b *testing.B, root, group string) {
	b.Helper()
	at := root
	for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		dir := filepath.Join(at, part)
		at = dir
		err := os.Mkdir(dir, 0o755)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				b.Error(err)
			}
		})
	}
}
