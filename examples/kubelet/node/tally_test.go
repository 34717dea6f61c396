package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// values are the counters, gauges and numbers of observations of a registry, by name and
// labels, as far as they are not 0.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if v != 0 {
				out[strings.TrimSuffix(fmt.Sprintf("%s %s", f.GetName(), strings.Join(labels, ",")), " ")] = v
			}
		}
	}
	return out
}

// countedPod is a pod with one container of each kind.
func countedPod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.UID, pod.Namespace, pod.Name = "1", "default", "web"
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	return pod
}

func ended(name, id, reason string, code int32, at time.Time) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: name}
	c.State.Terminated = &corev1.ContainerStateTerminated{ContainerID: id, Reason: reason, ExitCode: code, FinishedAt: metav1.NewTime(at)}
	return c
}

func TestTally(t *testing.T) {
	r := register{prometheus.NewRegistry()}
	y := newTally(r)
	pod := countedPod()
	later := time.Now().Add(time.Second)
	y.told(pod, "first", "Failed", "Error: ErrImagePull")
	y.told(pod, "main", "Failed", "Failed to pull image")
	y.told(pod, "main", "Failed", "Error: no such file")
	y.told(pod, "main", "FailedPostStartHook", "PostStartHook failed")
	y.told(pod, "", "LifecycleHTTPFallback", "")
	waiting := corev1.ContainerStatus{Name: "main"}
	waiting.State.Waiting = &corev1.ContainerStateWaiting{Reason: "RunContainerError"}
	status := &corev1.PodStatus{
		InitContainerStatuses:      []corev1.ContainerStatus{ended("first", "a", "Completed", 0, later)},
		ContainerStatuses:          []corev1.ContainerStatus{waiting},
		EphemeralContainerStatuses: []corev1.ContainerStatus{ended("debug", "b", "Error", 3, y.began.Add(-time.Hour))},
	}
	y.shows(pod, status)
	y.shows(pod, status) // again: nothing is counted twice
	y.pulled(images.Pull{Phase: images.Succeeded, Size: 20 << 20, Asked: later, Ended: later.Add(time.Second)})
	y.pulled(images.Pull{Phase: images.Failed})
	y.wants(images.Asked{Policy: corev1.PullIfNotPresent, Looked: true, MustPull: true})
	y.wants(images.Asked{Policy: corev1.PullAlways})
	y.removed(gc.Removal{Reason: gc.Space})
	want := map[string]float64{
		"kubelet_started_containers_errors_total ErrImagePull,init_container":  1,
		"kubelet_started_containers_errors_total PostStartHookError,container": 1,
		"kubelet_started_containers_errors_total RunContainerError,container":  1,
		"kubelet_lifecycle_handler_http_fallbacks_total":                       1,
		"kubelet_terminated_containers_total init_container,0,Completed":       1,
		"kubelet_image_pull_duration_seconds 10MB-100MB":                       1,
		images.MetricRequests + " false,ifnotpresent,true":                     1,
		images.MetricRequests + " unknown,always,false":                        1,
		"kubelet_image_garbage_collected_total space":                          1,
	}
	if diff := cmp.Diff(want, values(t, r.Registry)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	y.forgets(pod.UID)
	if len(y.dead)+len(y.failed) > 0 {
		t.Errorf("of a pod that is gone is kept: %v, %v", y.dead, y.failed)
	}
}

func TestSizesOfImages(t *testing.T) {
	for size, want := range map[uint64]string{0: "N/A", 1: "0-10MB", 10<<20 + 1: "10MB-100MB", 2 << 30: "1GB-5GB", 200 << 30: "GT100GB"} {
		if got := sizeBucket(size); got != want {
			t.Errorf("%d bytes are %s, want %s", size, got, want)
		}
	}
}

func TestStartOfPodsIsMeasured(t *testing.T) {
	r := register{prometheus.NewRegistry()}
	s := newStartup(r)
	pod := countedPod()
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-100 * time.Second))
	s.sees(pod)
	s.told(pod, "Pulling")
	s.told(pod, "Pulled")
	s.pods[pod.UID].pulling = s.pods[pod.UID].pulled.Add(-50 * time.Second)
	running := corev1.ContainerStatus{Name: "main"}
	s.shows(pod, &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{running}})
	running.State.Running = &corev1.ContainerStateRunning{}
	first := ended("first", "a", "Completed", 0, time.Now())
	first.State.Terminated.StartedAt = metav1.NewTime(first.State.Terminated.FinishedAt.Add(-40 * time.Second))
	st := &corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{first}, ContainerStatuses: []corev1.ContainerStatus{running}}
	s.shows(pod, st)
	s.shows(pod, st)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h != nil {
			got[f.GetName()] = h.GetSampleSum() / float64(h.GetSampleCount())
			if h.GetSampleCount() != 1 {
				t.Errorf("%s has %d values", f.GetName(), h.GetSampleCount())
			}
		}
	}
	// The clock goes on meanwhile: by far less than what the pulls and the init container took.
	if sli, total := got["kubelet_pod_start_sli_duration_seconds"], got["kubelet_pod_start_total_duration_seconds"]; total < 100 || total-sli < 89 || total-sli > 91 {
		t.Errorf("a start took %v s in all and %v s without pulls of 50 s and an init container of 40 s", total, sli)
	}
	for name, other := range map[string]*corev1.Pod{"of a manifest": staticPod(), "that runs already": runningPod()} {
		if s.sees(other); len(s.pods) != 0 {
			t.Errorf("the start of a pod %s is measured", name)
		}
	}
}

func staticPod() *corev1.Pod {
	pod := countedPod()
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

func runningPod() *corev1.Pod {
	pod := countedPod()
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func TestStartOfTheNodeIsMeasured(t *testing.T) {
	r := register{prometheus.NewRegistry()}
	s := newStartup(r)
	node := &corev1.Node{}
	s.registers()
	s.registered()
	s.reported(node)
	if got := values(t, r.Registry); len(got) != 0 {
		t.Errorf("a node that is not ready has started: %v", got)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.asked, s.known = s.began.Add(time.Second), s.began.Add(3*time.Second)
	s.reported(node)
	got := values(t, r.Registry)
	if got["kubelet_node_startup_pre_registration_duration_seconds"] != 1 || got["kubelet_node_startup_registration_duration_seconds"] != 2 {
		t.Errorf("values are %v", got)
	}
}

func TestVolumesAreCounted(t *testing.T) {
	r := register{prometheus.NewRegistry()}
	m := newStorageMetrics(r)
	m.attempted(volume.Attempt{Plugin: "kubernetes.io/secret"})
	m.attempted(volume.Attempt{Plugin: "kubernetes.io/secret", Err: errors.New("no")})
	m.called(csi.Call{Op: "NodeUnpublishVolume", Driver: "d"})
	m.called(csi.Call{Op: "NodePublishVolume", Driver: "d", Err: errors.New("no")})
	want := map[string]float64{
		"storage_operation_duration_seconds false,volume_mount,success,kubernetes.io/secret":      1,
		"storage_operation_duration_seconds false,volume_mount,fail-unknown,kubernetes.io/secret": 1,
		"storage_operation_duration_seconds false,volume_unmount,success,kubernetes.io/csi:d":     1,
		"csi_operations_seconds d,OK,/csi.v1.Node/NodeUnpublishVolume,false":                      1,
		"csi_operations_seconds d,Unknown,/csi.v1.Node/NodePublishVolume,false":                   1,
	}
	if diff := cmp.Diff(want, values(t, r.Registry)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestRequestsToTheAPIAreCounted(t *testing.T) {
	r := register{prometheus.NewRegistry()}
	m := newRequestMetrics(r)
	end := m.began(server.Request{Server: "readwrite", Method: "GET", Path: "pods"})
	const labels = " false,GET,pods,readwrite"
	want := map[string]float64{"kubelet_http_requests_total" + labels: 1, "kubelet_http_inflight_requests" + labels: 1}
	if diff := cmp.Diff(want, values(t, r.Registry)); diff != "" {
		t.Errorf("while it is answered (-want +got):\n%s", diff)
	}
	end()
	want = map[string]float64{"kubelet_http_requests_total" + labels: 1, "kubelet_http_requests_duration_seconds" + labels: 1}
	if diff := cmp.Diff(want, values(t, r.Registry)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func TestProbesAreCountedUntilTheirPodIsGone(t *testing.T) {
	m := newProbeMetrics()
	for _, id := range []string{"life1", "life2"} { // a restarted container goes on where it was
		ref := probes.Ref{ID: id, Name: "main", Namespace: "default", Pod: "web", UID: "1"}
		m.attempted(probes.Attempt{Ref: ref, Kind: probes.Liveness, Result: probes.Result{Outcome: probes.Failure}})
		m.attempted(probes.Attempt{Ref: ref, Kind: probes.Readiness, Result: probes.Result{Outcome: probes.Success}})
	}
	want := map[string]float64{
		"prober_probe_total main,default,web,1,Liveness,failed":      2,
		"prober_probe_total main,default,web,1,Readiness,successful": 2,
		"prober_probe_duration_seconds main,default,web,Readiness":   2,
	}
	if diff := cmp.Diff(want, values(t, m.registry)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	m.forgets("1")
	if got := values(t, m.registry); len(got) != 0 || len(m.counted) != 0 {
		t.Errorf("of a pod that is gone is kept: %v", got)
	}
}

func TestMachineFacts(t *testing.T) {
	if got := bootTime("cpu 1\nbtime 1700000000\n"); got.Unix() != 1700000000 {
		t.Errorf("booted at %v", got)
	}
	if got := bootTime("cpu 1\n"); !got.IsZero() {
		t.Errorf("booted at %v, which nobody said", got)
	}
	two := "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\nphysical id : 0\ncore id : 0\n\nprocessor : 2\nphysical id : 1\ncore id : 0\n"
	cores, sockets := coresOf(two)
	plain, one := coresOf("processor : 0\nprocessor : 1\n")
	if got := []int{cores, sockets, plain, one}; !slices.Equal(got, []int{2, 2, 2, 1}) {
		t.Errorf("cores and packages are %v", got)
	}
}
