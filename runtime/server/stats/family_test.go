package stats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(n int64) metav1.Time { return metav1.NewTime(time.Unix(n, 0)) }

// lines writes families as text, one line a sample.
func lines(families []Family) []string {
	var out []string
	for _, f := range families {
		for _, s := range f.Samples {
			var labels []string
			for i, v := range s.Values {
				if v != "" {
					labels = append(labels, f.Labels[i]+"="+v)
				}
			}
			slices.Sort(labels)
			out = append(out, fmt.Sprintf("%s{%s} %v", f.Name, strings.Join(labels, ","), s.Value))
		}
	}
	return out
}

func TestResource(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		pass(8 * time.Second)
		got := lines(w.Resource(t.Context()))
		want := []string{
			"node_cpu_usage_seconds_total{} 12", "node_memory_working_set_bytes{} 2000", "node_swap_usage_bytes{} 10",
			"container_start_time_seconds{container=main,namespace=default,pod=web} 101", "container_start_time_seconds{container=vm,namespace=default,pod=far} 201",
			"container_cpu_usage_seconds_total{container=main,namespace=default,pod=web} 2", "container_cpu_usage_seconds_total{container=vm,namespace=default,pod=far} 1",
			"container_memory_working_set_bytes{container=main,namespace=default,pod=web} 2000", "container_memory_working_set_bytes{container=vm,namespace=default,pod=far} 700",
			"container_swap_usage_bytes{container=main,namespace=default,pod=web} 10", "container_swap_usage_bytes{container=vm,namespace=default,pod=far} 0",
			"pod_cpu_usage_seconds_total{namespace=default,pod=web} 4", "pod_cpu_usage_seconds_total{namespace=default,pod=far} 1",
			"pod_memory_working_set_bytes{namespace=default,pod=web} 2000", "pod_memory_working_set_bytes{namespace=default,pod=far} 700",
			"pod_swap_usage_bytes{namespace=default,pod=web} 10", "pod_swap_usage_bytes{namespace=default,pod=far} 0",
			"resource_scrape_error{} 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		if len(w.cri.list) == 0 || w.cri.calls != 1 {
			t.Errorf("the runtime was asked %d times, want once, for the pod without groups", w.cri.calls)
		}
	})
}

func TestResourceSaysThatTheNodeCannotBeRead(t *testing.T) {
	c, err := New(Config{Node: "n", Pods: func() []Pod { return nil }, Groups: &groups{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"resource_scrape_error{} 1"}, lines(c.Resource(t.Context()))); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		pass(8 * time.Second)
		families := w.Containers(t.Context())
		got := lines(families)
		const web = "container=main,id=/kubepods/podweb/cri-containerd-c1.scope,image=img:1,name=c1,namespace=default,pod=web"
		for _, want := range []string{
			"container_cpu_usage_seconds_total{cpu=total,id=/} 12",
			"container_cpu_usage_seconds_total{cpu=total,id=/kubepods} 8",
			"container_cpu_usage_seconds_total{cpu=total,id=/kubepods/podweb,namespace=default,pod=web} 4",
			"container_memory_working_set_bytes{id=/kubepods/podweb/sandbox1,image=pause:1,name=sandbox1,namespace=default,pod=web} 2000",
			"container_memory_working_set_bytes{" + web + "} 2000", "container_memory_rss{" + web + "} 1000",
			"container_start_time_seconds{" + web + "} 101", "container_spec_memory_limit_bytes{" + web + "} 10000",
			"container_spec_memory_swap_limit_bytes{" + web + "} 0", "container_threads_max{" + web + "} 0", "container_processes{" + web + "} 1",
			"container_pressure_cpu_waiting_seconds_total{" + web + "} 1",
			"container_memory_failures_total{" + strings.Replace(web, "id=", "failure_type=pgfault,id=", 1) + ",scope=container} 0",
			"container_fs_usage_bytes{" + strings.Replace(web, "id=", "device=/,id=", 1) + "} 4096",
			"container_cpu_usage_seconds_total{cpu=total,id=/agent} 1",
			"container_scrape_error{} 0", "machine_cpu_cores{boot_id=b,machine_id=m,system_uuid=u} 4", "machine_memory_bytes{boot_id=b,machine_id=m,system_uuid=u} 100000",
			"cadvisor_version_info{kernelVersion=6.1,osVersion=Debian} 1",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no sample %s", want)
			}
		}
		for _, l := range got {
			if strings.HasPrefix(l, "container_cpu_cfs_") || strings.HasPrefix(l, "container_pressure_io") || strings.Contains(l, "pod=far") ||
				strings.HasPrefix(l, "container_fs_inodes_") && strings.Contains(l, "container=main") {
				t.Errorf("told what nobody knows: %s", l)
			}
		}
		seen := map[string]bool{}
		for _, l := range got {
			name, _, _ := strings.Cut(l, "} ")
			if seen[name] {
				t.Errorf("%s is told twice", name)
			}
			seen[name] = true
		}
	})
}

func TestClaims(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		asked := 0
		w.volumes["web"] = func(context.Context) ([]Volume, error) {
			asked++
			return []Volume{{Name: "scratch", Local: true, Used: 1}, {Name: "data", Claim: "claim", Used: 1, Available: 2, Size: 3, InodesUsed: 4, InodesFree: 5, Inodes: 9}, {Name: "again", Claim: "claim", Used: 1}}, nil
		}
		got := lines(w.Claims(t.Context()))
		want := []string{
			"kubelet_volume_stats_capacity_bytes{namespace=default,persistentvolumeclaim=claim} 3",
			"kubelet_volume_stats_available_bytes{namespace=default,persistentvolumeclaim=claim} 2",
			"kubelet_volume_stats_used_bytes{namespace=default,persistentvolumeclaim=claim} 1",
			"kubelet_volume_stats_inodes{namespace=default,persistentvolumeclaim=claim} 9",
			"kubelet_volume_stats_inodes_free{namespace=default,persistentvolumeclaim=claim} 5",
			"kubelet_volume_stats_inodes_used{namespace=default,persistentvolumeclaim=claim} 4",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		pass(59 * time.Second)
		w.Claims(t.Context())
		if asked != 1 || w.groups.reads != 0 {
			t.Errorf("volumes were measured %d times in a minute, groups read %d times", asked, w.groups.reads)
		}
		pass(61 * time.Second)
		w.Claims(t.Context())
		if asked != 2 {
			t.Errorf("volumes were measured %d times in two minutes", asked)
		}
	})
}

func TestLinks(t *testing.T) {
	got := parseLinks([]byte(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  eth0: 100 10 1 2 0 0 0 0 200 20 3 4 0 0 0 0
veth12: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  bad: 1 2
`))
	want := []link{{name: "eth0", rxBytes: 100, rxPackets: 10, rxErrors: 1, rxDropped: 2, txBytes: 200, txPackets: 20, txErrors: 3, txDropped: 4}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(link{})); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	s := networkStats(time.Now(), got)
	if s.Name != "eth0" || *s.TxErrors != 3 || len(s.Interfaces) != 1 {
		t.Errorf("network is %+v", s)
	}
}

func FuzzLinks(f *testing.F) {
	f.Add([]byte("eth0: 100 10 1 2 0 0 0 0 200 20 3 4 0 0 0 0"))
	f.Fuzz(func(_ *testing.T, raw []byte) { parseLinks(raw) })
}
