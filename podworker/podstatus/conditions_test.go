package podstatus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// lines prints conditions one per line.
func lines(list []corev1.PodCondition) []string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

func TestConditions(t *testing.T) {
	gate := func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}} }
	set := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			gate(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: "x", Status: status}}
		}
	}
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		edit   func(*corev1.Pod)
		in     podstatus.Input
		want   []string
	}{
		{
			name: "new", in: podstatus.Input{Observed: &podstatus.Observed{}, SandboxProblem: "no pod sandbox exists"},
			want: []string{
				"PodReadyToStartContainers=False PodSandboxNotReady no pod sandbox exists", "Initialized=True  ",
				"Ready=False ContainersNotReady containers with unready status: [a b]",
				"ContainersReady=False ContainersNotReady containers with unready status: [a b]", "PodScheduled=True  ",
			},
		},
		{
			name: "ready", in: podstatus.Input{Observed: seen(running("a", "1"), running("b", "2"))},
			want: []string{"PodReadyToStartContainers=True  ", "Initialized=True  ", "Ready=True  ", "ContainersReady=True  ", "PodScheduled=True  "},
		},
		{
			name: "gate without a condition", edit: gate, in: podstatus.Input{Observed: seen(running("a", "1"), running("b", "2"))},
			want: []string{
				"PodReadyToStartContainers=True  ", "Initialized=True  ",
				`Ready=False ReadinessGatesNotReady corresponding condition of pod readiness gate "x" does not exist.`,
				"ContainersReady=True  ", "PodScheduled=True  ",
			},
		},
		{
			name: "gate not met", edit: set(corev1.ConditionFalse), in: podstatus.Input{Observed: seen(running("a", "1"), running("b", "2"))},
			want: []string{
				"PodReadyToStartContainers=True  ", "Initialized=True  ",
				`Ready=False ReadinessGatesNotReady the status of pod readiness gate "x" is not "True", but False`,
				"ContainersReady=True  ", "PodScheduled=True  ", "x=False  ",
			},
		},
		{
			name: "gate met", edit: set(corev1.ConditionTrue), in: podstatus.Input{Observed: seen(running("a", "1"), running("b", "2"))},
			want: []string{"PodReadyToStartContainers=True  ", "Initialized=True  ", "Ready=True  ", "ContainersReady=True  ", "PodScheduled=True  ", "x=True  "},
		},
		{
			name: "succeeded", policy: corev1.RestartPolicyNever, in: podstatus.Input{Observed: seen(exited("a", "1", 0), exited("b", "2", 0)), SandboxProblem: "pod sandbox is not ready"},
			want: []string{
				"PodReadyToStartContainers=False PodSandboxNotReady pod sandbox is not ready", "Initialized=True PodCompleted ",
				"Ready=False PodCompleted ", "ContainersReady=False PodCompleted ", "PodScheduled=True  ",
			},
		},
		{
			name: "failed", policy: corev1.RestartPolicyNever, in: podstatus.Input{Observed: seen(exited("a", "1", 1), exited("b", "2", 0))},
			want: []string{"PodReadyToStartContainers=True  ", "Initialized=True  ", "Ready=False PodFailed ", "ContainersReady=False PodFailed ", "PodScheduled=True  "},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.policy, "a", "b")
			if tt.edit != nil {
				tt.edit(pod)
			}
			tt.in.Pod, tt.in.Now = pod, noon
			st := podstatus.Compute(tt.in)
			if diff := cmp.Diff(tt.want, lines(st.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTransitionTimes lets a pod become ready and stay so: the times move only when
// a status does, the generation always.
func TestTransitionTimes(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	first := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(), Now: noon})
	second := podstatus.Compute(podstatus.Input{Pod: pod, Previous: &first, Observed: seen(running("a", "1")), Now: noon.Add(time.Minute)})
	pod.Generation = 4
	third := podstatus.Compute(podstatus.Input{Pod: pod, Previous: &second, Observed: seen(running("a", "1")), Now: noon.Add(time.Hour)})
	for i, c := range third.Conditions {
		want := at(0)
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			want = at(time.Minute)
		}
		if !c.LastTransitionTime.Equal(&want) || c.ObservedGeneration != 4 {
			t.Errorf("condition %d is %+v, want time %s and generation 4", i, c, want)
		}
	}
	if third.ObservedGeneration != 4 || !third.StartTime.Equal(first.StartTime) {
		t.Errorf("generation %d, start time %s; want 4 and %s", third.ObservedGeneration, third.StartTime, first.StartTime)
	}
}

type results map[string]podstatus.Result

func (r results) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	return r[id+" "+kind.String()]
}

func TestReadyAndStarted(t *testing.T) {
	before := func(started, ready bool) *corev1.PodStatus {
		return &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "1", Started: &started, Ready: ready}}}
	}
	other := before(true, true)
	other.ContainerStatuses[0].ContainerID = "0"
	tests := []struct {
		name               string
		prober             podstatus.Prober
		previous           *corev1.PodStatus
		startup, readiness bool
		started, ready     bool
	}{
		{name: "no probes", started: true, ready: true},
		{name: "no results", startup: true, readiness: true},
		{name: "startup failed", startup: true, prober: results{"1 startup": podstatus.Failure}},
		{name: "started", startup: true, readiness: true, prober: results{"1 startup": podstatus.Success}, started: true},
		{name: "ready but not started", startup: true, readiness: true, prober: results{"1 readiness": podstatus.Success}},
		{name: "ready", startup: true, readiness: true, prober: results{"1 startup": podstatus.Success, "1 readiness": podstatus.Success}, started: true, ready: true},
		{name: "not ready", readiness: true, prober: results{"1 readiness": podstatus.Failure}, previous: before(true, true), started: true},
		{name: "undecided after a restart of the agent", startup: true, readiness: true, previous: before(true, true), started: true, ready: true},
		{name: "undecided, not ready before", startup: true, readiness: true, previous: before(true, false), started: true},
		{name: "undecided, another container", startup: true, readiness: true, previous: other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyAlways, "a")
			if tt.startup {
				pod.Spec.Containers[0].StartupProbe = &corev1.Probe{}
			}
			if tt.readiness {
				pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
			}
			c := podstatus.Compute(podstatus.Input{Pod: pod, Previous: tt.previous, Prober: tt.prober, Observed: seen(running("a", "1")), Now: noon}).ContainerStatuses[0]
			if *c.Started != tt.started || c.Ready != tt.ready {
				t.Errorf("started %t, ready %t; want %t, %t", *c.Started, c.Ready, tt.started, tt.ready)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	dual := seen()
	dual.Sandboxes[0].IPs = []string{"fd00::2", "10.88.0.2"}
	tests := []struct {
		name     string
		seen     *podstatus.Observed
		host     bool
		previous *corev1.PodStatus
		want     []string
	}{
		{name: "none yet", seen: &podstatus.Observed{}},
		{name: "of the sandbox, in the order of the node", seen: dual, want: []string{"10.88.0.2", "fd00::2"}},
		{name: "host network", seen: dual, host: true, want: []string{"10.0.0.2", "fd01::2"}},
		{name: "kept when the sandbox is gone", seen: &podstatus.Observed{}, previous: &corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.88.0.9"}}}, want: []string{"10.88.0.9"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyAlways, "a")
			pod.Spec.HostNetwork = tt.host
			st := podstatus.Compute(podstatus.Input{Pod: pod, Previous: tt.previous, Observed: tt.seen, HostIPs: []string{"10.0.0.2", "fd01::2"}, Now: noon})
			var got []string
			for _, ip := range st.PodIPs {
				got = append(got, ip.IP)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if len(got) > 0 && st.PodIP != got[0] || st.HostIP != "10.0.0.2" {
				t.Errorf("podIP %s, hostIP %s", st.PodIP, st.HostIP)
			}
		})
	}
}
