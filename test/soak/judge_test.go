package soak

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// healthy is an observation of which all facts hold: two hours with a quiet point each ten
// minutes, and samples of a busy node between them.
func healthy() Observation {
	o := Observation{Work: map[Work]int{}, Requests: map[string]Requests{"cluster IP": {Sent: 1000, Slow: 3}}}
	for _, w := range works() {
		o.Work[w] = 10
	}
	for i := range 13 {
		at := time.Duration(i) * 10 * time.Minute
		busy := quietCounts()
		for _, l := range limits() {
			busy[l.measure] += 50
		}
		o.Samples = append(o.Samples, Sample{At: at - time.Minute, Counts: busy}, Sample{At: at, Quiet: true, Counts: quietCounts()})
	}
	return o
}

func quietCounts() Counts {
	return Counts{
		Sandboxes: 0, Containers: 0, Cgroups: 12, KubeletMounts: 40, RuntimeMounts: 41, PodFolders: 0, KubeletFiles: 17,
		LogFolders: 0, LogLinks: 0, Addresses: 2, Links: 4, Chains: 20, Rules: 60, Elements: 5,
		KubeletGoroutines: 80, ProxyGoroutines: 30, KubeletFiledes: 20, ProxyFiledes: 15,
		KubeletHeap: 9 << 20, ProxyHeap: 5 << 20, KubeletMemory: 30 << 20, ProxyMemory: 20 << 20,
		KubeletPID: 100, ProxyPID: 101,
	}
}

// quietly changes the counts of the quiet points, of which the baseline is number 0.
func quietly(o *Observation, change func(i int, c Counts)) {
	i := 0
	for _, s := range o.Samples {
		if s.Quiet {
			change(i, s.Counts)
			i++
		}
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Observation)
		want   []string // The facts that do not hold.
	}{
		{"a healthy node", func(*Observation) {}, nil},
		{"less than at the baseline", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[KubeletGoroutines] -= int64(i) })
		}, nil},
		{"a sandbox at the end", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[Sandboxes] = int64(i / 12) })
		}, []string{"no more sandboxes"}},
		{"a mount for one round only", func(o *Observation) {
			quietly(o, func(i int, c Counts) {
				if i == 4 {
					c[KubeletMounts]++
				}
			})
		}, []string{"no more mounts that the kubelet sees"}},
		{"rules and elements", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[Rules], c[Elements] = c[Rules]+int64(i), c[Elements]+int64(i) })
		}, []string{"no more rules", "no more elements of sets and maps"}},
		{"goroutines within what is spare", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[KubeletGoroutines] += min(int64(i), spare) })
		}, nil},
		{"a goroutine for each round", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[KubeletGoroutines] += int64(i) })
		}, []string{"no more goroutines of the kubelet"}},
		{"file descriptors of kube-proxy", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[ProxyFiledes] += 2 * int64(i) })
		}, []string{"no more file descriptors of kube-proxy"}},
		{"a heap that grows", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[KubeletHeap] += int64(i) * 400 << 10 })
		}, []string{"live heap of the kubelet does not grow"}},
		{"caches that fill in the first half", func(o *Observation) {
			quietly(o, func(i int, c Counts) { c[KubeletHeap] += min(int64(i), 6) << 20 })
		}, nil},
		{"a heap that grows, with few quiet points", func(o *Observation) {
			o.Samples = o.Samples[:8]
			quietly(o, func(i int, c Counts) { c[ProxyHeap] += int64(i) << 20 })
		}, []string{"live heap of kube-proxy does not grow"}},
		{"a heap with one peak", func(o *Observation) {
			quietly(o, func(i int, c Counts) {
				if i == 12 {
					c[KubeletHeap] *= 2
				}
			})
		}, nil},
		{"memory that grows", func(o *Observation) {
			for i, s := range o.Samples {
				s.Counts[ProxyMemory] += int64(i) << 20
			}
		}, []string{"resident memory of kube-proxy is flat"}},
		{"a program that was started anew", func(o *Observation) { o.Samples[9].Counts[KubeletPID]++ }, []string{"one process of the kubelet"}},
		{"what cannot be counted", func(o *Observation) {
			quietly(o, func(_ int, c Counts) { delete(c, RuntimeMounts) })
		}, nil},
		{"a pod that is left at the baseline", func(o *Observation) {
			quietly(o, func(_ int, c Counts) { c[PodFolders] = 1 })
		}, []string{"nothing of a pod is left at the baseline"}},
		{"no quiet point after the baseline", func(o *Observation) { o.Samples = o.Samples[:2] }, []string{"quiet points after the baseline"}},
		{"no quiet point", func(o *Observation) { o.Samples = nil }, []string{"there was a quiet point"}},
		{"work that was never done", func(o *Observation) { delete(o.Work, Rollouts) }, []string{"all kinds of work were done"}},
		{"a request that failed", func(o *Observation) {
			o.Requests["node port"], o.Failed = Requests{Sent: 10, Failed: 1}, 1
		}, []string{"no request failed: node port"}},
		{"a client without requests", func(o *Observation) { o.Requests["node port"] = Requests{} }, []string{"no request failed: node port"}},
		{"no client", func(o *Observation) { o.Requests = nil }, []string{"no request failed"}},
		{"a rollout that did not end", func(o *Observation) { o.Failed = 1 }, []string{"all else worked: rollouts ended, settings and static pods arrived"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := healthy()
			tt.change(&o)
			var got []string
			for _, f := range Judge(o) {
				if !f.OK {
					got = append(got, f.Name)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts that do not hold (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlope(t *testing.T) {
	tests := []struct {
		name   string
		points []point
		want   float64
	}{
		{"nothing", nil, 0},
		{"one point", []point{{1, 5}}, 0},
		{"a line", []point{{0, 1}, {1, 3}, {2, 5}}, 2},
		{"an outlier", []point{{0, 1}, {1, 3}, {2, 500}, {3, 7}, {4, 9}, {5, 11}, {6, 13}}, 2},
		{"flat", []point{{0, 4}, {1, 4}, {2, 4}}, 0},
		{"at one time", []point{{1, 4}, {1, 6}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := slope(tt.points); got != tt.want {
				t.Errorf("slope = %v, want %v", got, tt.want)
			}
		})
	}
}
