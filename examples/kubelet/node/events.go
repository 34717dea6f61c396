package node

import (
	"math/bits"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/runtime/images"
)

// newEvents returns what tells the events of a node: to the log, and to the API server
// if there is one.
func newEvents(cfg Config) *events.Recorder {
	c := events.Config{Host: cfg.Name, Log: cfg.Log, Told: func(e *corev1.Event) { logEvent(cfg, e) }}
	if cfg.Client != nil {
		c.API = func(namespace string) events.API { return cfg.Client.CoreV1().Events(namespace) }
	}
	return events.New(c)
}

// logEvent logs an event: the first time, and each time it has happened twice as often.
func logEvent(cfg Config, e *corev1.Event) {
	if bits.OnesCount32(uint32(e.Count)) != 1 { //nolint:gosec // a count is not negative
		return
	}
	log := cfg.Log
	if e.InvolvedObject.Kind == "Pod" {
		log = log.With("pod", e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, "uid", string(e.InvolvedObject.UID))
	}
	if name := containerOf(e); name != "" {
		log = log.With("container", name)
	}
	if e.Count > 1 {
		log = log.With("count", e.Count)
	}
	if e.Type == corev1.EventTypeWarning {
		log.Warn("event", "reason", e.Reason, "message", e.Message)
		return
	}
	log.Info("event", "reason", e.Reason, "message", e.Message)
}

// containerOf returns the name of the container that an event is about, empty if it is
// about none.
func containerOf(e *corev1.Event) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(e.InvolvedObject.FieldPath, "}"), "{")
	return name
}

// tell tells an event of a pod.
func (a *agent) tell(pod *corev1.Pod, e podsync.Event) {
	a.metrics.told(pod, e.Container, e.Reason, e.Message)
	a.events.Record(events.OfPod(pod, e.Container), e.Type, e.Reason, e.Message)
}

// tellImage tells an event about the image of a pod.
func (a *agent) tellImage(pod *corev1.Pod, e images.Event) {
	a.metrics.told(pod, e.Container, e.Reason, e.Message)
	a.events.Record(events.OfPod(pod, e.Container), e.Type, e.Reason, e.Message)
}

// tellProbe tells an event about a probe.
func (a *agent) tellProbe(ref probes.Ref, e podsync.Event) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = ref.Namespace, ref.Pod, ref.UID
	if known, ok := a.catalog.pod(ref.UID); ok {
		pod = known
	}
	a.events.Record(events.OfPod(pod, e.Container), e.Type, e.Reason, e.Message)
}
