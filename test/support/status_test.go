package support_test

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// statusFields say whose the fields of a pod's status are that a node leaves alone, or
// why it does not write them. All others it writes.
var statusFields = map[string]string{
	"PodStatus.NominatedNodeName":                    "the scheduler's",
	"PodStatus.ResourceClaimStatuses":                "the resource claim controller's",
	"PodStatus.ExtendedResourceClaimStatus":          "the scheduler's",
	"PodStatus.NodeAllocatableResourceClaimStatuses": "the scheduler's",
	"PodStatus.Resize":                               "nobody's any more: the conditions PodResizePending and PodResizeInProgress say it",
	"PodStatus.VolumeHealth":                         "not written: drivers are not asked for the health of volumes",
	"PodCondition.LastProbeTime":                     "nobody's: kubelets leave it out",
	"ContainerStateTerminated.Signal":                "nobody's: runtimes tell the exit code only",
	"ResourceRequirements.Claims":                    "not written: pods with dynamic resources are refused",
	"VolumeMountStatus.VolumeStatus":                 "not written: the digests of image volumes are not told",
}

func isLeftAlone(key string) bool { return statusFields[key] != "" }

// TestStatusFields looks at the statuses of pods in all kinds of states for fields that are
// never written, and for some that should not be.
func TestStatusFields(t *testing.T) {
	written := map[string]bool{}
	for _, st := range statuses(t) {
		for _, f := range set(reflect.ValueOf(&st).Elem(), "status") {
			written[f.key] = true
		}
	}
	all := keys(reflect.TypeFor[corev1.PodStatus](), isLeftAlone)
	for _, key := range all {
		switch {
		case isLeftAlone(key) && written[key]:
			t.Errorf("%s is written, although it is said to be %s", key, statusFields[key])
		case !isLeftAlone(key) && !written[key]:
			t.Errorf("%s is never written: say whose it is, or why not", key)
		}
	}
	for key := range statusFields {
		if !slices.Contains(all, key) {
			t.Errorf("there is no field %s", key)
		}
	}
}

// statuses are those of the specimens in all worlds.
func statuses(t *testing.T) []corev1.PodStatus {
	t.Helper()
	var out []corev1.PodStatus
	for _, pod := range specimens[corev1.Pod](t, "pods.yaml") {
		pod.Generation = 3
		for _, seen := range worlds(pod) {
			for i := range seen.Containers {
				c := &seen.Containers[i]
				c.ImageRef, c.Reason, c.Message, c.RestartCount, c.StopSignal = "sha256:1", "Error", "bye", 2, corev1.SIGTERM
				c.User = &corev1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{3}}
				c.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
				if before := *c; c.State == podstatus.StateRunning {
					before.State, before.ID, before.RestartCount, before.ExitCode, before.CreatedAt = podstatus.StateExited, "before", 1, 1, c.CreatedAt.Add(-1)
					before.FinishedAt = c.StartedAt
					seen.Containers = append(seen.Containers, before)
				}
			}
			for _, end := range []podstatus.End{{}, {Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory"}} {
				out = append(out, podstatus.Compute(podstatus.Input{
					Pod: pod, Observed: seen, Prober: failing(podstatus.Readiness), RuntimeName: "runtime", HostIPs: node.IPs, Now: now, RecursiveReadOnly: true,
					End: end, Waiting: map[string]podstatus.Waiting{"app": {Reason: "ErrImagePull", Message: "no such image"}},
					Resize: []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Deferred", Message: "full"}},
					Health: func(string) []corev1.ResourceStatus {
						return []corev1.ResourceStatus{{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "1", Health: corev1.ResourceHealthStatusHealthy, Message: new("fine")}}}}
					},
				}))
			}
		}
	}
	return out
}
