package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// node is a node of so much memory, whose pods use what is written for them and end
// some time after they were evicted.
type node struct {
	mu       sync.Mutex
	began    time.Time
	capacity int64
	ending   time.Duration // how long a pod takes to end
	garbage  int64         // what Free(UnusedImages) frees, once
	pods     []*corev1.Pod
	usages   eviction.Usages
	ends     map[string]time.Time
	fails    map[string]error // by pod, or "observe", "usages"
	measured int              // calls of Usages
	story    []string
}

func newNode(capacity int64) *node {
	return &node{began: time.Now(), capacity: capacity, usages: eviction.Usages{}, ends: map[string]time.Time{}, fails: map[string]error{}}
}

func (n *node) run(pod *corev1.Pod, memory int64) {
	n.pods = append(n.pods, pod)
	n.usages[pod.Name] = eviction.Usage{Memory: memory, Containers: []eviction.ContainerUsage{{Name: "main", Memory: memory, Rootfs: eviction.Disk{Bytes: memory}}}}
}

func (n *node) tell(format string, args ...any) {
	n.story = append(n.story, fmt.Sprintf("%s ", time.Since(n.began))+fmt.Sprintf(format, args...))
}

func (n *node) Observe(context.Context) (eviction.Observations, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.fails["observe"]; err != nil {
		return nil, err
	}
	used := n.garbage
	for _, pod := range n.up() {
		used += n.usages[pod.Name].Memory
	}
	available := resource.NewQuantity(n.capacity-used, resource.BinarySI)
	o := eviction.Observation{Available: *available, Capacity: *resource.NewQuantity(n.capacity, resource.BinarySI), Time: time.Now()}
	return eviction.Observations{eviction.MemoryAvailable: o, eviction.NodeFSAvailable: o}, nil
}

func (n *node) Usages(context.Context, []*corev1.Pod) (eviction.Usages, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.measured++
	if err := n.fails["usages"]; err != nil {
		return nil, err
	}
	return n.usages, nil
}

func (n *node) Active() []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up()
}

func (n *node) up() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(n.pods), func(pod *corev1.Pod) bool {
		end, ok := n.ends[pod.Name]
		return ok && !time.Now().Before(end)
	})
}

func (n *node) Free(_ context.Context, what eviction.Freeable) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell("free %s", what)
	if what == eviction.UnusedImages {
		n.garbage = 0
		return errors.New("one image is in use after all")
	}
	return nil
}

func (n *node) Evict(_ context.Context, e eviction.Eviction) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.fails[e.Pod.Name]; err != nil {
		n.tell("can't evict %s", e.Pod.Name)
		return err
	}
	n.tell("evict %s for %s within %s, disrupted %t", e.Pod.Name, e.Cause, e.Grace, e.Disrupted)
	n.ends[e.Pod.Name] = time.Now().Add(n.ending)
	return nil
}

func (n *node) Gone(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	end, ok := n.ends[pod.Name]
	return ok && !time.Now().Before(end)
}

func (n *node) told() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.story)
}

// watch runs a Manager for some time and returns it.
func watch(t *testing.T, n *node, cfg eviction.Config, d time.Duration) *eviction.Manager {
	t.Helper()
	m, err := eviction.New(n, n, n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	<-time.After(d)
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	return m
}

func TestManagerEvictsOnePodAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		n.ending = 3 * time.Second
		n.run(podOf("first", 0, ""), 300*mi)
		n.run(podOf("second", 0, ""), 290*mi)
		n.run(podOf("third", 0, ""), 280*mi)
		n.run(podOf("system", 2_000_000_000, ""), 120*mi)
		m := watch(t, n, eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "400Mi")}}, time.Minute)
		// 10Mi are left, then 310Mi: the third is spared.
		want := []string{
			"0s evict first for memory.available within 1s, disrupted true",
			"3s evict second for memory.available within 1s, disrupted true",
		}
		if diff := cmp.Diff(want, n.told()); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
		if !m.MemoryPressure() || m.DiskPressure() || m.PIDPressure() {
			t.Errorf("pressures are %v", m.Pressures())
		}
	})
}

func TestManagerFreesWhatNobodyUsesFirst(t *testing.T) {
	for _, tt := range []struct {
		name    string
		garbage int64
		want    []string
	}{
		{name: "enough", garbage: 400 * mi, want: []string{"0s free dead containers", "0s free unused images"}},
		{name: "not enough", garbage: 30 * mi, want: []string{"0s free dead containers", "0s free unused images", "0s evict web for nodefs.available within 1s, disrupted true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(1000 * mi)
				n.garbage = tt.garbage
				n.run(podOf("web", 0, ""), 950*mi-tt.garbage)
				watch(t, n, eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.NodeFSAvailable, "10%")}}, 9*time.Second)
				if diff := cmp.Diff(tt.want, n.told()); diff != "" {
					t.Errorf("what happened (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPodThatDoesNotEndHoldsOthersUpForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		n.ending = time.Hour
		n.run(podOf("hangs", 0, ""), 500*mi)
		n.run(podOf("other", 1, ""), 450*mi)
		watch(t, n, eviction.Config{Thresholds: []eviction.Threshold{soft(t, eviction.MemoryAvailable, "100Mi", 5*time.Second)}, MaxPodGrace: 20 * time.Second}, 41*time.Second)
		want := []string{
			"10s evict hangs for memory.available within 20s, disrupted true",
			"40s evict other for memory.available within 20s, disrupted true",
		}
		if diff := cmp.Diff(want, n.told()); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

func TestManagerGoesOnWhenSomethingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		n.run(podOf("stubborn", 0, ""), 600*mi)
		n.run(podOf("other", 0, ""), 390*mi)
		n.fails["stubborn"] = errors.New("no such pod")
		n.fails["observe"] = errors.New("no such file")
		go func() {
			<-time.After(15 * time.Second)
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.fails, "observe")
		}()
		watch(t, n, eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")}}, 29*time.Second)
		want := []string{"20s can't evict stubborn", "20s evict other for memory.available within 1s, disrupted true"}
		if diff := cmp.Diff(want, n.told()); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

func TestPodsAreMeasuredOnlyWhenOneHasToBeChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		n.run(podOf("web", 0, ""), 500*mi)
		cfg := eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")}}
		watch(t, n, cfg, time.Minute)
		if n.measured > 0 {
			t.Errorf("pods were measured %d times on a node that has enough", n.measured)
		}
		n.run(podOf("hog", 0, ""), 490*mi)
		n.fails["usages"] = errors.New("the runtime is down")
		watch(t, n, cfg, time.Second)
		if diff := cmp.Diff([]string{"1m0s evict web for memory.available within 1s, disrupted true"}, n.told()); diff != "" {
			t.Errorf("what happened when nothing could be measured (-want +got):\n%s", diff)
		}
	})
}

func TestPodsOverTheirLimitsAreAllEvictedAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		for name, priority := range map[string]int32{"a": 0, "b": 0, "critical": 2_000_000_000} {
			n.run(limited(name, priority, "100Mi"), 200*mi)
		}
		n.run(podOf("innocent", -5, ""), 350*mi)
		slices.SortFunc(n.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		watch(t, n, eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")}}, 5*time.Second)
		want := []string{
			"0s evict a for ephemeralpodfs.limit within 1s, disrupted false",
			"0s evict b for ephemeralpodfs.limit within 1s, disrupted false",
		}
		if diff := cmp.Diff(want, n.told()); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

// limited makes a pod with a limit of local storage.
func limited(name string, priority int32, limit string) *corev1.Pod {
	pod := podOf(name, priority, "")
	pod.Spec.Containers[0].Resources.Limits = list("ephemeral-storage=" + limit)
	return pod
}

func TestThresholdIsActedOnWhenLimitsCannotBeEnforced(t *testing.T) {
	tests := []struct {
		name, fails, told string
		want              []string
	}{
		{
			name: "pods cannot be measured", fails: "usages", told: "measure pods with limits: out of order",
			want: []string{"0s evict innocent for memory.available within 1s, disrupted true"},
		},
		{
			name: "the pod over its limit cannot be evicted", fails: "over", told: "evict pod default/over: out of order",
			want: []string{"0s can't evict over", "0s evict innocent for memory.available within 1s, disrupted true"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(1000 * mi)
				n.ending = 3 * time.Second
				n.run(limited("over", 5, "100Mi"), 400*mi)
				n.run(podOf("innocent", -5, ""), 550*mi)
				n.fails[tt.fails] = errors.New("out of order")
				var log strings.Builder
				watch(t, n, eviction.Config{
					Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")},
					Log:        slog.New(slog.NewTextHandler(&log, nil)),
				}, time.Second)
				if diff := cmp.Diff(tt.want, n.told()); diff != "" {
					t.Errorf("what happened (-want +got):\n%s", diff)
				}
				if !strings.Contains(log.String(), tt.told) {
					t.Errorf("nobody is told %q:\n%s", tt.told, log.String())
				}
			})
		})
	}
}

// leaving is a node whose agent is told to end while pods are measured.
type leaving struct {
	*node
	end context.CancelFunc
}

func (l leaving) Usages(ctx context.Context, _ []*corev1.Pod) (eviction.Usages, error) {
	l.end()
	return nil, ctx.Err()
}

func TestNobodyIsEvictedBecauseTheAgentEnds(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{"with limits": limited("pod", 0, "1Gi"), "without": podOf("pod", 0, "")} {
		t.Run(name, func(t *testing.T) {
			n := newNode(1000 * mi)
			n.run(pod, 950*mi)
			ctx, end := context.WithCancel(t.Context())
			m, err := eviction.New(leaving{n, end}, n, n, eviction.Config{Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")}})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if story := n.told(); len(story) > 0 {
				t.Errorf("what happened is %q, want nothing", story)
			}
		})
	}
}

func TestWakeMeasuresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(1000 * mi)
		wake := make(chan struct{}, 1)
		var crossed []eviction.Signal
		go func() {
			<-time.After(3 * time.Second)
			n.mu.Lock()
			n.run(podOf("hog", 0, ""), 990*mi)
			n.mu.Unlock()
			wake <- struct{}{}
		}()
		watch(t, n, eviction.Config{
			Thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")}, Wake: wake,
			OnThreshold: func(threshold eviction.Threshold) { crossed = append(crossed, threshold.Signal) },
		}, 4*time.Second)
		if diff := cmp.Diff([]string{"3s evict hog for memory.available within 1s, disrupted true"}, n.told()); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]eviction.Signal{eviction.MemoryAvailable}, crossed); diff != "" {
			t.Errorf("thresholds told (-want +got):\n%s", diff)
		}
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	n := newNode(1)
	if _, err := eviction.New(n, nil, n, eviction.Config{}); err == nil {
		t.Error("a Manager of no pods was made")
	}
	for _, cfg := range []eviction.Config{{Transition: -1}, {Interval: -1}, {MaxPodGrace: -1}} {
		if _, err := eviction.New(n, n, n, cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// BenchmarkDecision decides about a node with 500 pods that is short of memory: what
// one round costs besides measuring.
func BenchmarkDecision(b *testing.B) {
	n := newNode(1 << 40)
	for i := range 500 {
		n.run(podOf(fmt.Sprintf("pod-%d", i), int32(i%7), "memory=100Mi"), int64(i)*mi)
	}
	threshold := hard(b, eviction.MemoryAvailable, "100Mi")
	low := left(b, "91Mi/4Gi", time.Time{})
	tracker := eviction.NewTracker([]eviction.Threshold{threshold, hard(b, eviction.NodeFSAvailable, "10%")}, time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		for _, pod := range n.pods {
			if limit, _ := eviction.OverLimit(eviction.OneDisk, pod, n.usages[pod.Name]); limit != "" {
				b.Fatal(limit)
			}
		}
		verdict := tracker.Observe(time.Now(), eviction.Observations{eviction.MemoryAvailable: low})
		first := eviction.Rank(verdict.Crossed[0].Signal, eviction.OneDisk, n.pods, n.usages)[0]
		usage := n.usages[first.Name]
		if message, _ := eviction.Message(verdict.Crossed[0], low, first, &usage); message == "" {
			b.Fatal("no message")
		}
	}
}
