package podstatus_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestGranted(t *testing.T) {
	tests := []struct {
		name                          string
		shares, quota, period, memory int64
		requests, limits              corev1.ResourceList
	}{
		{name: "nothing known", requests: amounts(), limits: amounts()},
		{name: "everything", shares: 512, quota: 50000, period: 100000, memory: 64 << 20, requests: amounts("cpu", "500m"), limits: amounts("cpu", "500m", "memory", "64Mi")},
		{name: "no quota", shares: 2, quota: -1, period: 100000, memory: -1, requests: amounts("cpu", "2m"), limits: amounts()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := podstatus.Granted(tt.shares, tt.quota, tt.period, tt.memory)
			if diff := cmp.Diff(corev1.ResourceRequirements{Requests: tt.requests, Limits: tt.limits}, got); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResourcesWhileRunning shows what a container has, which differs from what it was
// promised until a resize is done.
func TestResourcesWhileRunning(t *testing.T) {
	promised := corev1.ResourceRequirements{Requests: amounts("cpu", "1", "memory", "64Mi"), Limits: amounts("cpu", "2", "memory", "128Mi")}
	has := podstatus.Granted(512, 100000, 100000, 96<<20)
	half := &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: amounts("memory", "96Mi")}
	tests := []struct {
		name     string
		promised corev1.ResourceRequirements
		instance func(*podstatus.Instance)
		had      *corev1.ResourceRequirements
		want     corev1.ResourceRequirements
	}{
		{
			name: "the runtime tells", promised: promised, instance: func(i *podstatus.Instance) { i.Resources = &has },
			want: corev1.ResourceRequirements{Requests: amounts("cpu", "500m", "memory", "64Mi"), Limits: amounts("cpu", "1", "memory", "96Mi")},
		},
		{name: "the runtime does not", promised: promised, instance: func(*podstatus.Instance) {}, want: promised},
		{
			name: "the runtime tells a part, the rest was given before", promised: promised, instance: func(i *podstatus.Instance) { i.Resources = half },
			had:  &corev1.ResourceRequirements{Requests: amounts("cpu", "250m", "memory", "32Mi"), Limits: amounts("cpu", "1500m", "memory", "48Mi")},
			want: corev1.ResourceRequirements{Requests: amounts("cpu", "250m", "memory", "32Mi"), Limits: amounts("cpu", "1500m", "memory", "96Mi")},
		},
		{
			name: "it got no limit yet", promised: promised, instance: func(*podstatus.Instance) {},
			had:  &corev1.ResourceRequirements{Requests: amounts("cpu", "1", "memory", "64Mi"), Limits: amounts("cpu", "2")},
			want: corev1.ResourceRequirements{Requests: amounts("cpu", "1", "memory", "64Mi"), Limits: amounts("cpu", "2")},
		},
		{
			name: "ended", promised: promised, instance: func(i *podstatus.Instance) { i.Resources, i.State = &has, podstatus.StateExited },
			want: promised,
		},
		{
			name: "too little for the kernel", promised: corev1.ResourceRequirements{Requests: amounts("cpu", "1m"), Limits: amounts("cpu", "5m")},
			instance: func(i *podstatus.Instance) { r := podstatus.Granted(2, 1000, 100000, 0); i.Resources = &r },
			want:     corev1.ResourceRequirements{Requests: amounts("cpu", "1m"), Limits: amounts("cpu", "5m")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyAlways, "a")
			pod.Spec.Containers[0].Resources = tt.promised
			i := running("a", "1")
			tt.instance(&i)
			in := podstatus.Input{Pod: pod, Observed: seen(i), Now: noon}
			if tt.had != nil {
				in.Actuated = map[string]corev1.ResourceRequirements{"1": *tt.had}
			}
			// What was told before does not count: it may be from before a resize.
			in.Previous = &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", ContainerID: "1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				Resources: &corev1.ResourceRequirements{Requests: amounts("memory", "1Mi"), Limits: amounts("cpu", "9")},
			}}}
			got := podstatus.Compute(in).ContainerStatuses[0]
			if diff := cmp.Diff(&tt.want, got.Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.promised.Requests, got.AllocatedResources); diff != "" {
				t.Errorf("allocated (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResizeConditions appear with a resize and go with it, and keep their times
// meanwhile.
func TestResizeConditions(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	pending := []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "not now"}}
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1")), Resize: pending, Now: noon})
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &st, Observed: seen(running("a", "1")), Resize: pending, Now: noon.Add(time.Minute)})
	want := pending[0]
	want.LastTransitionTime, want.ObservedGeneration = at(0), 3
	if diff := cmp.Diff(want, st.Conditions[len(st.Conditions)-1]); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
	pod.Status.Conditions = st.Conditions // as an API server has it
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &st, Observed: seen(running("a", "1")), Now: noon})
	for _, c := range st.Conditions {
		if c.Type == corev1.PodResizePending {
			t.Error("the condition stays after the resize")
		}
	}
}

func TestResourcesOfThePod(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	pod.Spec.Containers[0].Resources.Requests = amounts("cpu", "250m")
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1")), Now: noon})
	if diff := cmp.Diff(amounts("cpu", "250m"), st.AllocatedResources); diff != "" || st.Resources != nil {
		t.Errorf("allocated without resources of the pod (-want +got):\n%sresources: %v", diff, st.Resources)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "1", "memory", "1Gi")}
	st = podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1")), Now: noon})
	if diff := cmp.Diff(pod.Spec.Resources, st.Resources) + cmp.Diff(pod.Spec.Resources.Requests, st.AllocatedResources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if st.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("class is %s, want Guaranteed by the resources of the pod", st.QOSClass)
	}
}

func TestMountsTellWhatIsRecursive(t *testing.T) {
	enabled, possible, disabled := corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyDisabled
	pod := newPod(corev1.RestartPolicyAlways, "a")
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "v", MountPath: "/rw"}, {Name: "v", MountPath: "/ro", ReadOnly: true}, {Name: "v", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: &possible},
	}
	shown := running("a", "1")
	shown.RecursiveReadOnly = true
	for in, able := range map[*podstatus.Input]bool{
		{Observed: seen(running("a", "1"))}:                          false,
		{Observed: seen(running("a", "1")), RecursiveReadOnly: true}: true,
		{Observed: seen(shown)}:                                      true,
	} {
		in.Pod, in.Now = pod, noon
		st := podstatus.Compute(*in)
		want := []corev1.VolumeMountStatus{
			{Name: "v", MountPath: "/rw"},
			{Name: "v", MountPath: "/ro", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "v", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: &disabled},
		}
		if able {
			want[2].RecursiveReadOnly = &enabled
		}
		if diff := cmp.Diff(want, st.ContainerStatuses[0].VolumeMounts); diff != "" {
			t.Errorf("able %v: mounts (-want +got):\n%s", able, diff)
		}
	}
}

// TestHistoryOutlivesCollectedContainers keeps the end of the run before and the count
// after the dead container was removed.
func TestHistoryOutlivesCollectedContainers(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	dead := exited("a", "1", 3)
	dead.RestartCount = 6
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(dead), Now: noon})
	again := running("a", "2")
	again.RestartCount = 0 // the runtime lost its records
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &st, Observed: seen(again), Now: noon})
	if diff := cmp.Diff([]string{"a=running after 3 Error restarts 6 started ready"}, brief(&st)); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// TestResourcesOfWhoAsksForNone are empty, not missing: whoever reads a status need not
// tell one from the other.
func TestResourcesOfWhoAsksForNone(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1")), Now: noon}).ContainerStatuses[0]
	if diff := cmp.Diff(&corev1.ResourceRequirements{}, st.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
