package events_test

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/events"
)

// TestCatalogKnowsAKubeletsWords has events as a kubelet 1.37 writes them.
func TestCatalogKnowsAKubeletsWords(t *testing.T) {
	const n, w = corev1.EventTypeNormal, corev1.EventTypeWarning
	app, pod, node := events.OfPod(newPod(), "app"), events.OfPod(newPod(), ""), events.OfNode("node-a")
	for _, tc := range []struct {
		object                corev1.ObjectReference
		kind, reason, message string
	}{
		{app, n, "Pulling", `Pulling image "web:1"`},
		{app, n, "Pulled", `Successfully pulled image "web:1" in 1.2s (1.3s including waiting). Image size: 4711 bytes.`},
		{app, n, "Pulled", `Container image "web:1" already present on machine`},
		{app, n, "Pulled", `Container image "web:1" already present on machine and can be accessed by the pod`},
		{app, w, "Failed", `Failed to pull image "web:1": rpc error: code = NotFound desc = no such image`},
		{app, w, "Failed", `Error: ErrImagePull`},
		{app, n, "BackOff", `Back-off pulling image "web:1"`},
		{app, w, "BackOff", `Back-off restarting failed container app in pod web_shop(u1)`},
		{app, w, "ErrImageNeverPull", `Container image "web:1" is not present with pull policy of Never`},
		{app, w, "InspectFailed", `Failed to apply default image tag to image "": couldn't parse image reference`},
		{app, n, "Created", `Container created`},
		{app, n, "Started", `Container started`},
		{app, n, "Killing", `Stopping container app`},
		{app, n, "Killing", `Container app definition changed, will be restarted`},
		{app, n, "Killing", `Container app failed liveness probe`},
		{app, n, "Killing", `Init container app failed startup probe`},
		{app, w, "FailedPostStartHook", `PostStartHook failed`},
		{app, w, "FailedPreStopHook", `PreStopHook failed`},
		{app, w, "Unhealthy", `Liveness probe failed: HTTP probe failed with statuscode: 500`},
		{app, w, "Unhealthy", `Readiness probe errored and resulted in unknown state: rpc error`},
		{app, w, "ProbeWarning", `Liveness probe warning: redirected`},
		{pod, n, "SandboxChanged", `Pod sandbox changed, it will be killed and re-created.`},
		{pod, w, "FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error:\ntwo lines"},
		{pod, w, "FailedPodSandBoxStatus", `Unable to get pod sandbox status: x`},
		{pod, w, "NetworkNotReady", `network is not ready: container runtime network not ready`},
		{pod, w, "FailedMount", `MountVolume.SetUp failed for volume "conf" : configmap "conf" not found`},
		{pod, w, "FailedMount", `Unable to attach or mount volumes: timed out`},
		{pod, w, "FailedKillPod", `error killing pod: x`},
		{pod, w, "FailedSync", `error determining status: x`},
		{pod, w, "FailedCreatePodContainer", `unable to ensure pod container exists: x`},
		{pod, w, "ExceededGracePeriod", `Container runtime did not kill the pod within specified grace period.`},
		{pod, n, "DeadlineExceeded", `Pod was active on the node longer than the specified deadline`},
		{pod, w, "FailedToRetrieveImagePullSecret", `Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.`},
		{pod, w, "Preempting", `Preempted in order to admit critical pod`},
		{pod, w, "OutOfcpu", `Node didn't have enough resource: cpu, requested: 3000, used: 900, capacity: 2000`},
		{pod, w, "NodeAffinity", `Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector`},
		{pod, w, "MissingClusterDNS", `pod: "web_shop(u1)". kubelet does not have ClusterDNS IP configured`},
		{node, n, "Starting", `Starting kubelet.`},
		{node, n, "NodeReady", `Node node-a status is now: NodeReady`},
		{node, n, "NodeHasSufficientMemory", `Node node-a status is now: NodeHasSufficientMemory`},
		{node, w, "Rebooted", `Node node-a has been rebooted, boot id: b`},
		{node, w, "EvictionThresholdMet", `Attempting to reclaim memory`},
	} {
		e := &corev1.Event{InvolvedObject: tc.object, Type: tc.kind, Reason: tc.reason, Message: tc.message}
		if _, err := events.Find(e); err != nil {
			t.Error(err)
		}
	}
}

func TestCatalogKnowsNoOtherWords(t *testing.T) {
	const n, w = corev1.EventTypeNormal, corev1.EventTypeWarning
	app, pod, node := events.OfPod(newPod(), "app"), events.OfPod(newPod(), ""), events.OfNode("node-a")
	for _, tc := range []struct {
		name                  string
		object                corev1.ObjectReference
		kind, reason, message string
	}{
		{"reason", app, n, "Creating", `Container created`},
		{"type", app, w, "Started", `Container started`},
		{"message", app, n, "Started", `Started container app`},
		{"more than the message", app, n, "Started", `Container started at last`},
		{"node for a pod", node, n, "SandboxChanged", `Pod sandbox changed, it will be killed and re-created.`},
		{"pod for a node", pod, n, "Starting", `Starting kubelet.`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &corev1.Event{InvolvedObject: tc.object, Type: tc.kind, Reason: tc.reason, Message: tc.message}
			if k, err := events.Find(e); err == nil {
				t.Errorf("found %+v", k)
			}
		})
	}
}

func TestCatalogIsSound(t *testing.T) {
	seen := map[events.Kind]bool{}
	for _, k := range events.Catalog() {
		if seen[k] {
			t.Errorf("%+v is there twice", k)
		}
		seen[k] = true
		if _, err := regexp.Compile(k.Message); err != nil || k.Reason == "" || k.About == "" {
			t.Errorf("%+v: %v", k, err)
		}
	}
}
