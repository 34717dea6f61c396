package stats

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// podNamed returns a pod of a Summary.
func podNamed(t *testing.T, s *statsapi.Summary, name string) *statsapi.PodStats {
	t.Helper()
	for i := range s.Pods {
		if s.Pods[i].PodRef.Name == name {
			return &s.Pods[i]
		}
	}
	t.Fatalf("the summary has no pod %s", name)
	return nil
}

func TestCPUAndMemory(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		first := w.CPUAndMemory(t.Context())
		if first.Node.CPU.UsageNanoCores != nil {
			t.Errorf("a rate is told after one reading: %d", *first.Node.CPU.UsageNanoCores)
		}
		pass(20 * time.Second)
		s := w.CPUAndMemory(t.Context())
		if got := *s.Node.CPU.UsageNanoCores; got != 1_500_000_000 {
			t.Errorf("the node uses %d nanocores", got)
		}
		if got := *s.Node.Memory.AvailableBytes; got != 100000-2000-500 {
			t.Errorf("available on the node: %d, want capacity without working set and huge pages", got)
		}
		if got := s.Node.CPU.PSI; got == nil || got.Some.Total != uint64(time.Second) || s.Node.IO != nil {
			t.Errorf("pressure is %+v, %+v", got, s.Node.IO)
		}
		if n := s.Node.SystemContainers; len(n) != 1 || n[0].Name != "kubelet" || *n[0].CPU.UsageNanoCores != 125_000_000 || !n[0].StartTime.Equal(new(at(60))) {
			t.Errorf("system containers: %+v", n)
		}
		web := podNamed(t, s, "web")
		if *web.CPU.UsageNanoCores != 500_000_000 || *web.CPU.UsageCoreNanoSeconds != 10e9 || *web.Memory.WorkingSetBytes != 2000 {
			t.Errorf("the pod uses %+v, %+v, want what its group says", web.CPU, web.Memory)
		}
		c := web.Containers[0]
		if *c.CPU.UsageNanoCores != 250_000_000 || *c.Memory.AvailableBytes != 8000 || c.Rootfs != nil || !c.StartTime.Equal(new(at(101))) {
			t.Errorf("the container uses %+v", c)
		}
		// far has no groups here: the runtime is asked, and the pod is the sum.
		far := podNamed(t, s, "far")
		if *far.CPU.UsageCoreNanoSeconds != 1e9 || *far.Memory.WorkingSetBytes != 700 || far.Memory.AvailableBytes != nil {
			t.Errorf("the pod without groups uses %+v, %+v", far.CPU, far.Memory)
		}
	})
}

// The groups of a pod by runtime and driver. Whether a monitor's name sorts before or after the
// container's depends on how the ID begins.
func TestGroupsOfContainersAreFound(t *testing.T) {
	for _, format := range []string{"%s", "cri-containerd-%s.scope", "crio-%s", "crio-%s.scope"} {
		for _, id := range []string{"1a", "fa"} {
			inWorld(t, func(w *world) {
				own := webGroup + "/" + fmt.Sprintf(format, id)
				w.groups.cores[own] = 0.25
				w.groups.cores[webGroup+"/crio-conmon-"+id] = 0.125
				w.groups.cores[webGroup+"/crio-conmon-"+id+".scope"] = 0.125
				places := map[string]string{}
				w.findGroups(&Pod{Group: webGroup, Sandbox: id, Containers: []Container{{ID: "absent"}, {}}}, places)
				if d := cmp.Diff(map[string]string{id: own}, places); d != "" {
					w.t.Errorf("groups with names like %s (-want +got):\n%s", format, d)
				}
			})
		}
	}
}

func TestUsageIsReadEveryTenSecondsAtMost(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.CPUAndMemory(t.Context())
		reads := w.groups.reads
		pass(9 * time.Second)
		w.CPUAndMemory(t.Context())
		w.Resource(t.Context())
		if w.groups.reads != reads {
			t.Errorf("groups were read %d times more within ten seconds", w.groups.reads-reads)
		}
		pass(time.Second)
		w.CPUAndMemory(t.Context())
		if w.groups.reads == reads {
			t.Error("groups were not read again after ten seconds")
		}
		pass(time.Hour)
		if s := w.CPUAndMemory(t.Context()); s.Node.CPU.UsageNanoCores != nil {
			t.Errorf("a rate over an hour is told as one of now: %d", *s.Node.CPU.UsageNanoCores)
		}
	})
}

func TestSummary(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		if err := os.MkdirAll(filepath.Join(w.logs, "main"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.logs, "main/0.log"), []byte(strings.Repeat("x", 5000)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.volumes["web"] = func(context.Context) ([]Volume, error) {
			return []Volume{{Name: "scratch", Local: true, Used: 8192, InodesUsed: 4, Size: 1 << 20}, {Name: "data", Claim: "claim", Used: 1 << 30, Available: 7}}, nil
		}
		s := w.Summary(t.Context())
		web := podNamed(t, s, "web")
		if len(web.VolumeStats) != 2 || web.VolumeStats[1].PVCRef == nil || *web.VolumeStats[1].PVCRef != (statsapi.PVCReference{Name: "claim", Namespace: "default"}) || *web.VolumeStats[1].AvailableBytes != 7 {
			t.Errorf("volumes are %+v", web.VolumeStats)
		}
		c := web.Containers[0]
		if *c.Rootfs.UsedBytes != 4096 || c.Rootfs.CapacityBytes == nil {
			t.Errorf("root file system is %+v", c.Rootfs)
		}
		if *c.Logs.UsedBytes < 5000 || *c.Logs.InodesUsed != 2 || c.Logs.AvailableBytes == nil {
			t.Errorf("logs are %+v", c.Logs)
		}
		if got, want := *web.EphemeralStorage.UsedBytes, 4096+*c.Logs.UsedBytes+8192; got != want {
			t.Errorf("ephemeral storage is %d, want layer, logs and local volumes: %d", got, want)
		}
		if got := *web.EphemeralStorage.InodesUsed; got != 3+2+4 {
			t.Errorf("ephemeral storage has %d inodes", got)
		}
		if *web.ProcessStats.ProcessCount != 3 {
			t.Errorf("processes are %d", *web.ProcessStats.ProcessCount)
		}
		n := s.Node
		if *n.Runtime.ImageFs.UsedBytes != 500 || *n.Runtime.ContainerFs.InodesUsed != 5 || n.Fs.CapacityBytes == nil || n.Rlimit == nil || n.Network == nil {
			t.Errorf("node is %+v", n)
		}
	})
}

func TestSlowSourcesHoldUpNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		hold := make(chan struct{})
		defer close(hold)
		w.volumes["web"] = func(ctx context.Context) ([]Volume, error) {
			<-hold
			return nil, ctx.Err()
		}
		w.volumes["far"] = func(context.Context) ([]Volume, error) { return []Volume{{Name: "v"}}, nil }
		w.Summary(t.Context())
		pass(time.Minute)
		w.cri.set(func() { w.cri.hold = hold })
		began := time.Now()
		s := w.Summary(t.Context())
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the runtime and a volume hang: an answer took %s", took)
		}
		if web := podNamed(t, s, "web"); web.CPU.UsageNanoCores == nil || *web.Containers[0].Rootfs.UsedBytes != 4096 {
			t.Errorf("what is known was not told: %+v", web)
		}
		if far := podNamed(t, s, "far"); len(far.VolumeStats) != 1 {
			t.Errorf("volumes of the other pod are %+v", far.VolumeStats)
		}
		began = time.Now()
		w.Summary(t.Context())
		if took := time.Since(began); took != 0 {
			t.Errorf("the next answer waited %s for the same hanging sources", took)
		}
	})
}

func TestVolumesThatFailHideNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		var web, far atomic.Int32 // how often they were measured
		w.volumes["web"] = func(context.Context) ([]Volume, error) {
			web.Add(1)
			return []Volume{{Name: "whole", Claim: "data", Used: 7}}, errBroken
		}
		w.volumes["far"] = func(context.Context) ([]Volume, error) {
			far.Add(1)
			return nil, errBroken
		}
		for range 3 {
			s := w.Summary(t.Context())
			if got := podNamed(t, s, "web").VolumeStats; len(got) != 1 || got[0].Name != "whole" || *got[0].UsedBytes != 7 {
				t.Errorf("volumes are %+v, want the one that could be measured", got)
			}
			w.Claims(t.Context())
			pass(10 * time.Second)
		}
		if web.Load() != 1 || far.Load() != 1 {
			t.Errorf("in half a minute volumes were measured %d and %d times, want once each", web.Load(), far.Load())
		}
		pass(2 * time.Minute)
		w.Summary(t.Context())
		if web.Load() != 2 || far.Load() != 2 {
			t.Errorf("two minutes later they had been measured %d and %d times, want twice each", web.Load(), far.Load())
		}
	})
}

func TestAFailingRuntimeIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.cri.set(func() { w.cri.err = errDown })
		s := w.Summary(t.Context())
		if far := podNamed(t, s, "far"); far.CPU != nil || len(far.Containers) != 0 {
			t.Errorf("nothing is known of the pod, but told: %+v", far)
		}
		if s.Node.Runtime.ImageFs != nil {
			t.Errorf("image file system is %+v", s.Node.Runtime.ImageFs)
		}
		w.cri.set(func() { w.cri.err = nil })
		if s = w.Summary(t.Context()); s.Node.Runtime.ImageFs == nil {
			t.Error("the runtime is back, and was not asked")
		}
		pass(10 * time.Second)
		if far := podNamed(t, w.Summary(t.Context()), "far"); len(far.Containers) != 1 {
			t.Errorf("pod is %+v", far)
		}
	})
}

func TestBeforeRunOnlyGroupsAreRead(t *testing.T) {
	c, err := New(Config{Node: "n", Pods: func() []Pod { return nil }, Groups: &groups{cores: map[string]float64{"/": 1}}, Runtime: &cri{}})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Summary(t.Context())
	if s.Node.CPU == nil || s.Node.Runtime.ImageFs != nil || s.Node.Fs != nil {
		t.Errorf("node is %+v", s.Node)
	}
}

func TestConfigIsValidated(t *testing.T) {
	pods := func() []Pod { return nil }
	for want, cfg := range map[string]Config{
		"Config.Node":          {Pods: pods, Runtime: &cri{}},
		"Config.Pods":          {Node: "n", Runtime: &cri{}},
		"Config.Groups":        {Node: "n", Pods: pods},
		"Config.Ages.Usage":    {Node: "n", Pods: pods, Runtime: &cri{}, Ages: Ages{Usage: -1}},
		"Config.Ages.Patience": {Node: "n", Pods: pods, Runtime: &cri{}, Ages: Ages{Patience: -1}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one about %s", err, want)
		}
	}
}

func TestHandler(t *testing.T) {
	tests := []struct {
		name, method, target, body string
		code                       int
		little                     bool
	}{
		{"all", http.MethodGet, "/stats/summary", "", 200, false},
		{"posted", http.MethodPost, "/stats/summary", "", 200, false},
		{"little", http.MethodGet, "/stats/summary?only_cpu_and_memory=true", "", 200, true},
		{"little in a form", http.MethodPost, "/stats/summary", "only_cpu_and_memory=1", 200, true},
		{"not a bool", http.MethodGet, "/stats/summary?only_cpu_and_memory=perhaps", "", 400, false},
		{"not a form", http.MethodGet, "/stats/summary?%zz", "", 400, false},
		{"another method", http.MethodDelete, "/stats/summary", "", 405, false},
		{"too large", http.MethodPost, "/stats/summary", strings.Repeat("x", maxForm+1), 400, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				req := httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body))
				if tt.body != "" {
					req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				rec := httptest.NewRecorder()
				w.Handler().ServeHTTP(rec, req)
				if rec.Code != tt.code {
					t.Fatalf("status is %d, want %d: %s", rec.Code, tt.code, rec.Body)
				}
				if tt.code != http.StatusOK {
					return
				}
				var s statsapi.Summary
				if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.little, s.Node.Fs == nil); diff != "" || s.Node.NodeName != "node-a" || len(s.Pods) != 2 {
					t.Errorf("little (-want +got):\n%s\n%s", diff, rec.Body)
				}
			})
		})
	}
}
