package node

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
)

// tally counts what becomes of pods, containers and images.
type tally struct {
	sandboxes                        *prometheus.HistogramVec
	pulls                            *prometheus.HistogramVec
	sandboxErrors, startErrors       *prometheus.CounterVec
	ended, asked, collected          *prometheus.CounterVec
	evictions, preemptions, rejected *prometheus.CounterVec
	anew                             *prometheus.CounterVec
	userPods, userPodErrors          prometheus.Counter
	pods, podErrors, fallbacks       prometheus.Counter
	began                            time.Time

	mu sync.Mutex // guards the fields below
	// dead are the runs of containers that were counted as ended, by pod.
	dead map[types.UID]map[string]bool
	// failed are starts of containers that have failed, and why is not told yet.
	failed map[types.UID]map[string]int
}

// register makes metrics of a registry.
type register struct{ *prometheus.Registry }

func (r register) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func (r register) counter(name, help string) prometheus.Counter {
	return r.counters(name, help).WithLabelValues()
}

func (r register) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(h)
	return h
}

func (r register) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func newTally(r register) *tally {
	return &tally{
		sandboxes:     r.histograms("kubelet_run_podsandbox_duration_seconds", "How long the runtime took to run a sandbox.", prometheus.DefBuckets, "runtime_handler"),
		sandboxErrors: r.counters("kubelet_run_podsandbox_errors_total", "Sandboxes that the runtime did not run.", "runtime_handler"),
		pods:          r.counter("kubelet_started_pods_total", "Sandboxes that were to be run."),
		podErrors:     r.counter("kubelet_started_pods_errors_total", "Sandboxes that could not be run."),
		userPods:      r.counter("kubelet_started_user_namespaced_pods_total", "Sandboxes with users of their own that were to be run."),
		userPodErrors: r.counter("kubelet_started_user_namespaced_pods_errors_total", "Sandboxes with users of their own that could not be run."),
		startErrors:   r.counters("kubelet_started_containers_errors_total", "Containers that could not be started.", labelContainer, "code"),
		ended:         r.counters("kubelet_terminated_containers_total", "Containers that have ended.", labelContainer, "exit_code", "reason"),
		anew:          r.counters("kubelet_restarted_pods_total", "Pods that were put back under the UID they had.", "static"),
		pulls:         r.histograms(images.MetricPullDuration, "How long the pull of an image took, with the wait for a place.", pullBuckets(), "image_size_in_bytes"),
		asked:         r.counters(images.MetricRequests, "Images that pods asked for.", "present_locally", "pull_policy", "pull_required"),
		collected:     r.counters("kubelet_image_garbage_collected_total", "Images that were removed for being unused.", "reason"),
		evictions:     r.counters("kubelet_evictions", "Pods that were evicted, by what ran short.", "eviction_signal"),
		preemptions:   r.counters("kubelet_preemptions", "Pods that had to go for a more important one, by what it lacked.", "preemption_signal"),
		rejected:      r.counters("kubelet_admission_rejections_total", "Pods that the node has refused.", "reason"),
		fallbacks:     r.counter("kubelet_lifecycle_handler_http_fallbacks_total", "Hooks over HTTPS that were answered without TLS only."),
		began:         time.Now(),
		dead:          map[types.UID]map[string]bool{},
		failed:        map[types.UID]map[string]int{},
	}
}

// pullBuckets are those of the kubelet, in seconds.
func pullBuckets() []float64 {
	return []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
}

// The labels of the kubelet for containers by what they are in their pods.
const (
	kindRegular   = "container"
	kindInit      = "init_container"
	kindEphemeral = "ephemeral_container"
)

// kindOf is what a container is in its pod.
func kindOf(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return kindInit
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return kindEphemeral
		}
	}
	return kindRegular
}

// told counts what an event tells. Why a container could not be made or started is in its
// status.
func (t *tally) told(pod *corev1.Pod, container, reason, message string) {
	switch reason {
	case "LifecycleHTTPFallback":
		t.fallbacks.Inc()
	case "FailedPostStartHook":
		t.startErrors.WithLabelValues(kindOf(pod, container), "PostStartHookError").Inc()
	case "Failed":
		code, ok := strings.CutPrefix(message, "Error: ")
		switch {
		case !ok || container == "": // about more than a container, or with a second event
		case slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName"}, code):
			t.startErrors.WithLabelValues(kindOf(pod, container), code).Inc()
		default:
			t.fails(pod.UID, container)
		}
	}
}

// fails notes that a container could not be started.
func (t *tally) fails(uid types.UID, container string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed[uid] == nil {
		t.failed[uid] = map[string]int{}
	}
	t.failed[uid][container]++
}

// failedLocked counts the starts that have failed, now that a status says why.
func (t *tally) failedLocked(pod *corev1.Pod, c *corev1.ContainerStatus) {
	n := t.failed[pod.UID][c.Name]
	if n == 0 || c.State.Waiting == nil {
		return
	}
	switch reason := c.State.Waiting.Reason; reason {
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		t.startErrors.WithLabelValues(kindOf(pod, c.Name), reason).Add(float64(n))
		delete(t.failed[pod.UID], c.Name)
	}
}

// shows counts the containers that a status shows to have ended, each of their runs once.
// What ended before this process counted for the one before.
func (t *tally) shows(pod *corev1.Pod, st *corev1.PodStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.dead[pod.UID]
	var shown map[string]bool
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			t.failedLocked(pod, &list[i])
			for _, run := range []*corev1.ContainerStateTerminated{list[i].State.Terminated, list[i].LastTerminationState.Terminated} {
				if run == nil || run.ContainerID == "" || run.FinishedAt.Time.Before(t.began) {
					continue
				}
				if shown == nil {
					shown = map[string]bool{}
				}
				if !known[run.ContainerID] && !shown[run.ContainerID] {
					t.ended.WithLabelValues(kindOf(pod, list[i].Name), strconv.Itoa(int(run.ExitCode)), run.Reason).Inc()
				}
				shown[run.ContainerID] = true
			}
		}
	}
	if shown != nil || known != nil {
		t.dead[pod.UID] = shown // a run that is not shown any more does not come back
	}
}

// forgets drops a pod.
func (t *tally) forgets(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.dead, uid)
	delete(t.failed, uid)
}

// pulled counts a pull that has succeeded.
func (t *tally) pulled(p images.Pull) {
	if p.Phase == images.Succeeded {
		t.pulls.WithLabelValues(sizeBucket(p.Size)).Observe(p.Ended.Sub(p.Asked).Seconds())
	}
}

// sizeBucket is the size of an image in the words of the kubelet.
func sizeBucket(size uint64) string {
	const mb, gb = 1 << 20, 1 << 30
	buckets := []struct {
		above uint64
		label string
	}{
		{100 * gb, "GT100GB"},
		{60 * gb, "60GB-100GB"},
		{40 * gb, "40GB-60GB"},
		{30 * gb, "30GB-40GB"},
		{20 * gb, "20GB-30GB"},
		{10 * gb, "10GB-20GB"},
		{5 * gb, "5GB-10GB"},
		{gb, "1GB-5GB"},
		{500 * mb, "500MB-1GB"},
		{100 * mb, "100MB-500MB"},
		{10 * mb, "10MB-100MB"},
		{0, "0-10MB"},
	}
	for _, b := range buckets {
		if size > b.above {
			return b.label
		}
	}
	return "N/A"
}

// wants counts a request for an image.
func (t *tally) wants(a images.Asked) {
	present := "unknown"
	if a.Looked {
		present = strconv.FormatBool(a.Present)
	}
	t.asked.WithLabelValues(present, strings.ToLower(string(a.Policy)), strconv.FormatBool(a.MustPull)).Inc()
}

// removed counts an image that is gone.
func (t *tally) removed(r gc.Removal) { t.collected.WithLabelValues(string(r.Reason)).Inc() }

// countedClient is a runtime of which some calls are counted with what they are about.
type countedClient struct {
	*runtime.Client
	tally *tally
}

// RunPodSandbox implements podsync.Runtime.
func (c countedClient) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	began := time.Now()
	id, err := c.Client.RunPodSandbox(ctx, config, handler)
	c.tally.sandboxes.WithLabelValues(handler).Observe(time.Since(began).Seconds())
	users := config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetMode() == runtimeapi.NamespaceMode_POD
	c.tally.pods.Inc()
	if users {
		c.tally.userPods.Inc()
	}
	if err != nil {
		c.tally.sandboxErrors.WithLabelValues(handler).Inc()
		c.tally.podErrors.Inc()
		if users {
			c.tally.userPodErrors.Inc()
		}
	}
	return id, err
}

var _ podsync.Runtime = countedClient{}

// countAnew counts the pods that start anew under the UID they had.
func (a *agent) countAnew(uids []types.UID) {
	for _, uid := range uids {
		if pod, ok := a.catalog.pod(uid); ok {
			a.metrics.tally.anew.WithLabelValues(staticLabel(ofManifest(pod))).Inc()
		}
	}
}
