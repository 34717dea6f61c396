package capacity

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWatchReportsChanges(t *testing.T) {
	root, _ := machine(t, "two-sockets")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var reports [][]string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- Watch(ctx, Config{Root: root, Log: slog.New(slog.NewTextHandler(&log, nil))}, func(_ Machine, changes []Change) {
				texts := []string{}
				for _, c := range changes {
					texts = append(texts, c.String())
				}
				reports = append(reports, texts)
			})
		}()
		pass := func() {
			<-time.After(defaultPeriod)
			synctest.Wait()
		}
		pass() // nothing changes
		write(t, root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
		pass()
		write(t, root, "proc/meminfo", "broken")
		pass()
		write(t, root, "proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 1024 kB\n")
		write(t, root, "proc/sys/kernel/random/boot_id", "other\n")
		if err := os.RemoveAll(filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-1048576kB")); err != nil {
			t.Fatal(err)
		}
		pass()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error %v at the end", err)
		}
		want := [][]string{
			{},
			{`hugepages-2Mi: "1Gi", was "2Gi"`},
			{
				`boot ID: "other", was "0d3ba7f3-5a55-4f2b-9f53-7ac1a1f6d2a1"`,
				`hugepages-1Gi: "", was "16Gi"`,
				`memory: "1Mi", was "263850000Ki"`,
				`swap: "1Mi", was "0"`,
			},
		}
		if diff := cmp.Diff(want, reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "cannot be read"); n != 1 {
			t.Errorf("%d failures logged, want 1:\n%s", n, log.String())
		}
	})
}

func TestWatchNeedsAFirstReading(t *testing.T) {
	err := Watch(t.Context(), Config{Root: t.TempDir()}, func(Machine, []Change) { t.Error("reported") })
	if err == nil {
		t.Error("no error")
	}
}
