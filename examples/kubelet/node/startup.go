package node

import (
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// startup measures how long it takes until the node, and each pod that an API server made,
// has started.
type startup struct {
	sli, total          *prometheus.HistogramVec
	beforeKubelet       prometheus.Gauge
	beforeRegistration  prometheus.Gauge
	registration, ready prometheus.Gauge
	all                 prometheus.Gauge
	began               time.Time

	mu sync.Mutex // guards the fields below
	// pods are those that do not run yet.
	pods map[types.UID]*podStart
	// asked and known are when the node began to register, and was registered.
	asked, known time.Time
	over         bool
}

// podStart is a pod that is about to start. Pulls count from the first to the last.
type podStart struct{ pulling, pulled time.Time }

func newStartup(r register) *startup {
	return &startup{
		sli:                r.histograms("kubelet_pod_start_sli_duration_seconds", "From the creation of a pod until its containers ran, without pulls of images and init containers.", startBuckets()),
		total:              r.histograms("kubelet_pod_start_total_duration_seconds", "From the creation of a pod until its containers ran.", startBuckets()),
		beforeKubelet:      r.gauge("kubelet_node_startup_pre_kubelet_duration_seconds", "From the start of the machine to that of the kubelet."),
		beforeRegistration: r.gauge("kubelet_node_startup_pre_registration_duration_seconds", "From the start of the kubelet until it began to register the node."),
		registration:       r.gauge("kubelet_node_startup_registration_duration_seconds", "How long the registration of the node took."),
		ready:              r.gauge("kubelet_node_startup_post_registration_duration_seconds", "From the registration of the node until it was ready."),
		all:                r.gauge("kubelet_node_startup_duration_seconds", "From the start of the machine until the node was ready."),
		began:              time.Now(), pods: map[types.UID]*podStart{},
	}
}

// sees notes a pod that is new to the node. Those of manifests were made nobody knows when,
// and those that run already are no start.
func (s *startup) sees(pod *corev1.Pod) {
	if ofManifest(pod) || pod.Status.Phase == corev1.PodRunning || podstatus.IsTerminal(pod.Status.Phase) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.UID] = &podStart{}
}

// forgets drops a pod.
func (s *startup) forgets(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// told takes the events of pulls.
func (s *startup) told(pod *corev1.Pod, reason string) {
	if reason != "Pulling" && reason != "Pulled" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[pod.UID]
	switch {
	case p == nil:
	case reason == "Pulling" && p.pulling.IsZero():
		p.pulling = time.Now()
	case reason == "Pulled" && !p.pulling.IsZero():
		p.pulled = time.Now()
	}
}

// shows takes a status of a pod: the first that has all containers started ends its start.
func (s *startup) shows(pod *corev1.Pod, st *corev1.PodStatus) {
	if !podstatus.IsTerminal(st.Phase) && !allStarted(pod, st) {
		return
	}
	s.mu.Lock()
	p := s.pods[pod.UID]
	delete(s.pods, pod.UID)
	s.mu.Unlock()
	if p == nil || podstatus.IsTerminal(st.Phase) {
		return
	}
	took := time.Since(pod.CreationTimestamp.Time)
	s.total.WithLabelValues().Observe(took.Seconds())
	if !p.pulled.IsZero() {
		took -= p.pulled.Sub(p.pulling)
	}
	for i := range st.InitContainerStatuses {
		if run := st.InitContainerStatuses[i].State.Terminated; run != nil {
			took -= run.FinishedAt.Sub(run.StartedAt.Time)
		}
	}
	s.sli.WithLabelValues().Observe(max(took, 0).Seconds())
}

// allStarted reports whether a status shows all regular containers of a pod to have started.
func allStarted(pod *corev1.Pod, st *corev1.PodStatus) bool {
	for i := range st.ContainerStatuses {
		if c := &st.ContainerStatuses[i]; c.State.Running == nil && c.State.Terminated == nil {
			return false
		}
	}
	return len(st.ContainerStatuses) >= len(pod.Spec.Containers)
}

// registers notes that the node begins to register, registered that it is.
func (s *startup) registers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
}

func (s *startup) registered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.IsZero() {
		s.known = time.Now()
	}
}

// reported takes the Node as the API server has it: the first that is ready ends the start
// of the node.
func (s *startup) reported(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.known.IsZero() || s.asked.IsZero() || !isReady(n) {
		return
	}
	s.over = true
	now := time.Now()
	if raw, err := os.ReadFile("/proc/stat"); err == nil {
		if booted := bootTime(string(raw)); !booted.IsZero() && booted.Before(s.began) {
			s.beforeKubelet.Set(s.began.Sub(booted).Seconds())
			s.all.Set(now.Sub(booted).Seconds())
		}
	}
	s.beforeRegistration.Set(s.asked.Sub(s.began).Seconds())
	s.registration.Set(s.known.Sub(s.asked).Seconds())
	s.ready.Set(now.Sub(s.known).Seconds())
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
