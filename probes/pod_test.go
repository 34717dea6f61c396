package probes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/probes"
)

var podTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// podOf returns a pod with one of each sort of container.
func podOf(change func(*corev1.Pod)) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	tcp := func(port int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}}
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, ContainerID: "containerd://" + name + "-1", Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(podTime)}},
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "init", ReadinessProbe: tcp(1)},
				{Name: "sidecar", StartupProbe: tcp(2), RestartPolicy: &always},
			},
			Containers: []corev1.Container{
				{Name: "app", ReadinessProbe: tcp(3), LivenessProbe: tcp(4)},
				{Name: "plain"},
				{Name: "exited", LivenessProbe: tcp(5)},
				{Name: "pending", LivenessProbe: tcp(6)},
			},
		},
		Status: corev1.PodStatus{
			PodIP:                 "10.0.0.9",
			InitContainerStatuses: []corev1.ContainerStatus{running("init"), running("sidecar")},
			ContainerStatuses: []corev1.ContainerStatus{
				running("app"), running("plain"),
				{Name: "exited", ContainerID: "containerd://x", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestFromPod(t *testing.T) {
	sidecar := probes.Container{
		Ref:       probes.Ref{ID: "sidecar-1", Name: "sidecar", Namespace: "default", Pod: "web", UID: "u1"},
		StartedAt: podTime,
		Startup:   &probes.Probe{Prober: probes.TCP{Addr: "10.0.0.9:2"}},
	}
	app := probes.Container{
		Ref:       probes.Ref{ID: "app-1", Name: "app", Namespace: "default", Pod: "web", UID: "u1"},
		StartedAt: podTime,
		Readiness: &probes.Probe{Prober: probes.TCP{Addr: "10.0.0.9:3"}},
		Liveness:  &probes.Probe{Prober: probes.TCP{Addr: "10.0.0.9:4"}},
	}
	with := func(seed probes.Values, terminating bool) []probes.Container {
		s, a := sidecar, app
		s.Seed, a.Seed = &seed, &seed
		s.Terminating, a.Terminating = terminating, terminating
		return []probes.Container{s, a}
	}
	ok, fail, unknown := probes.Success, probes.Failure, probes.Unknown
	tests := []struct {
		name   string
		start  time.Time
		change func(*corev1.Pod)
		want   []probes.Container
	}{
		{name: "running containers with probes, and sidecars", want: []probes.Container{sidecar, app}},
		{name: "not older than the agent by enough", start: podTime.Add(10 * time.Second), want: []probes.Container{sidecar, app}},
		{name: "older than the agent", start: podTime.Add(11 * time.Second), want: with(probes.Values{Startup: ok, Liveness: ok, Readiness: ok}, false)},
		{
			name: "older, neither started nor ready", start: podTime.Add(time.Hour),
			change: func(p *corev1.Pod) {
				for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
					for i := range list {
						list[i].Ready, list[i].Started = false, nil
					}
				}
			},
			want: with(probes.Values{Startup: unknown, Liveness: ok, Readiness: fail}, false),
		},
		{
			name: "terminating", start: podTime.Add(time.Hour),
			change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: podTime} },
			want:   with(probes.Values{Startup: ok, Liveness: ok, Readiness: ok}, true),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := probes.FromPod(podOf(tt.change), probes.PodConfig{AgentStart: tt.start})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromPodWithABadProbe(t *testing.T) {
	pod := podOf(func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe.TCPSocket.Port = intstr.FromString("nope")
	})
	got, err := probes.FromPod(pod, probes.PodConfig{})
	if err == nil || !strings.Contains(err.Error(), `pod default/web: container app: readinessProbe: tcpSocket.port: the container has no port named "nope"`) {
		t.Errorf("error is %v", err)
	}
	if len(got) != 2 {
		t.Fatalf("%d containers, want 2", len(got))
	}
	if _, err := got[1].Readiness.Prober.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("the bad probe answers %v", err)
	}
	if got[1].Liveness == nil || got[1].Liveness.Prober != (probes.TCP{Addr: "10.0.0.9:4"}) {
		t.Errorf("the good probe is %+v", got[1].Liveness)
	}
}

func TestFromPodWithoutAnAddress(t *testing.T) {
	pod := podOf(func(p *corev1.Pod) {
		p.Status.PodIP = ""
		p.Spec.Containers[0].ReadinessProbe.TCPSocket.Host = "db"
		p.Spec.Containers[0].LivenessProbe.TCPSocket.Host = "db"
	})
	got, err := probes.FromPod(pod, probes.PodConfig{})
	if !errors.Is(err, probes.ErrNoAddress) {
		t.Errorf("error is %v", err)
	}
	if len(got) != 1 || got[0].Ref.Name != "app" {
		t.Errorf("containers: %+v, want the one that needs no address", got)
	}
}
