package events

import (
	"fmt"
	"regexp"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of event that a kubelet tells.
type Kind struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// About is what it is told of: "Container", "Pod" or "Node".
	About string
	// Reason is one word.
	Reason string
	// Message is the shape of the message: a regular expression for all of it, of the
	// syntax of package regexp.
	Message string
}

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning

	ofContainer = "Container"
	ofPod       = "Pod"
	ofNode      = "Node"
)

// Catalog lists the kinds of events of a kubelet 1.37, as people, alerts and tests know
// them. A reason may stand for several kinds. Events of this project's own are at the
// end.
func Catalog() []Kind { return append(kubeletKinds(), ownKinds()...) }

func kubeletKinds() []Kind {
	return []Kind{
		// Images.
		{normal, ofContainer, "Pulling", `Pulling image ".+"`},
		{normal, ofContainer, "Pulled", `Successfully pulled image ".+" in \S+ \(\S+ including waiting\)\. Image size: \d+ bytes\.`},
		{normal, ofContainer, "Pulled", `Container image ".+" already present on machine( and can be accessed by the pod)?`},
		{warning, ofContainer, "Failed", `Failed to pull image ".*": (?s:.+)`},
		{normal, ofContainer, "BackOff", `Back-off pulling image ".+"`},
		{warning, ofContainer, "ErrImageNeverPull", `Container image ".+" is not present with pull policy of Never`},
		{warning, ofContainer, "InspectFailed", `Failed to (inspect|apply default image tag to|apply default image to) image ".*": (?s:.+)`},
		{warning, ofPod, "FailedToRetrieveImagePullSecret", `Unable to retrieve some image pull secrets \(.+\); attempting to pull the image may not succeed\.`},
		// Containers.
		{normal, ofContainer, "Created", `Container created`},
		{normal, ofContainer, "Started", `Container started`},
		{warning, ofContainer, "Failed", `Error: (?s:.+)`},
		{warning, ofContainer, "Failed", `Internal Pre(Create|Start)Container hook failed: (?s:.+)`},
		{warning, ofContainer, "BackOff", `Back-off restarting failed container \S+ in pod \S+_\S+\(\S+\)`},
		{normal, ofContainer, "Killing", `Stopping container \S+`},
		{normal, ofContainer, "Killing", `(Init container|Container) \S+ (definition changed|failed (liveness|startup) probe|resize requires restart)(, will be restarted)?`},
		{normal, ofContainer, "Killing", `Container is in "unknown" state, try killing it before restart`},
		{normal, ofContainer, "Killing", `Init container is in "(unknown|running)" state, try killing it before restart`},
		{normal, ofContainer, "Killing", `FailedPostStartHook`},
		{warning, ofContainer, "FailedPostStartHook", `PostStartHook failed`},
		{warning, ofContainer, "FailedPreStopHook", `PreStopHook failed`},
		{warning, ofPod, "LifecycleHTTPFallback", `request to HTTPS lifecycle hook \S+ got HTTP response, retry with HTTP succeeded`},
		{warning, ofContainer, "Unhealthy", `(Liveness|Readiness|Startup) probe failed: (?s:.*)`},
		{warning, ofContainer, "Unhealthy", `(Liveness|Readiness|Startup) probe errored and resulted in \S+ state: (?s:.*)`},
		{warning, ofContainer, "ProbeWarning", `(Liveness|Readiness|Startup) probe warning: (?s:.*)`},
		// Sandboxes and pods.
		{normal, ofPod, "SandboxChanged", `Pod sandbox changed, it will be killed and re-created\.`},
		{warning, ofPod, "FailedCreatePodSandBox", `Failed to create pod sandbox: (?s:.+)`},
		{warning, ofPod, "FailedPodSandBoxStatus", `Unable to get pod sandbox status: (?s:.+)`},
		{warning, ofPod, "NetworkNotReady", `network is not ready: (?s:.+)`},
		{warning, ofPod, "FailedCreatePodContainer", `unable to ensure pod container exists: (?s:.+)`},
		{warning, ofPod, "Failed", `error making pod data directories: (?s:.+)`},
		{warning, ofPod, "FailedKillPod", `error killing pod: (?s:.+)`},
		{warning, ofPod, "FailedSync", `error determining status: (?s:.+)`},
		{warning, ofPod, "ExceededGracePeriod", `Container runtime did not kill the pod within specified grace period\.`},
		{normal, ofPod, "DeadlineExceeded", `Pod was active on the node longer than the specified deadline`},
		{warning, ofPod, "FailedValidation", `Error validating pod \S+ from \S+ due to (?s:.+), ignoring`},
		{warning, ofPod, "FailedPrepareDynamicResources", `Failed to prepare dynamic resources: (?s:.+)`},
		{warning, ofPod, "HostIPsIPFamilyMismatch", `(?s:.+)`},
		{warning, ofPod, "DNSConfigForming", `(?s:.+)`},
		{warning, ofPod, "MissingClusterDNS", `pod: "\S+"\. (?s:.+)`},
		// Volumes.
		{warning, ofPod, "FailedMount", `Unable to attach or mount volumes: (?s:.+)`},
		{warning, ofPod, "FailedMount", `MountVolume\.\w+ failed for volume ".+" ?: (?s:.+)`},
		{warning, ofPod, "FailedAttachVolume", `(?s:.+)`},
		{warning, ofPod, "FailedMapVolume", `(?s:.+)`},
		{normal, ofPod, "SuccessfulMountVolume", `(?s:.+)`},
		{warning, ofPod, "VolumeResizeFailed", `NodeExpandVolume\.\w+ failed for volume ".+" ?: (?s:.+)`},
		{normal, ofPod, "FileSystemResizeSuccessful", `(?s:.+)`},
		{warning, ofPod, "FileSystemResizeFailed", `(?s:.+)`},
		{warning, ofPod, "VolumePermissionChangeInProgress", `(?s:.+)`},
		// Resize.
		{normal, ofPod, "ResizeStarted", `(?s:.+)`},
		{normal, ofPod, "ResizeCompleted", `(?s:.+)`},
		{warning, ofPod, "ResizeDeferred", `(?s:.+)`},
		{warning, ofPod, "ResizeInfeasible", `(?s:.+)`},
		{warning, ofPod, "ResizeError", `(?s:.+)`},
		// Admission and eviction.
		{warning, ofPod, "Preempting", `Preempted in order to admit critical pod`},
		{warning, ofPod, "Evicted", `(?s:.+)`},
		{warning, ofPod, "SysctlForbidden", `forbidden sysctl: (?s:.+)`},
		{warning, ofPod, "TopologyAffinityError", `(?s:.+)`},
		{warning, ofPod, "SMTAlignmentError", `(?s:.+)`},
		{warning, ofPod, "UnexpectedAdmissionError", `(?s:.+)`},
		{warning, ofPod, "InvalidNodeInfo", `Kubelet cannot get node info\.`},
		{warning, ofPod, "PodOSSelectorNodeLabelDoesNotMatch", `(?s:.+)`},
		{warning, ofPod, "PodOSNotSupported", `(?s:.+)`},
		{warning, ofPod, "SupplementalGroupsPolicyNotSupported", `(?s:.+)`},
		{warning, ofPod, `OutOf\S+`, `Node didn't have enough resource: \S+, requested: \d+, used: \d+, capacity: \d+`},
		{warning, ofPod, "NodeAffinity|NodeName|NodePorts|TaintToleration", `Predicate \w+ failed: (?s:.+)`},
		{warning, ofPod, "AppArmor", `Cannot enforce AppArmor: (?s:.+)`},
		{warning, ofPod, "NodeShutdown", `Pod was rejected as the node is shutting down\.`},
		{warning, ofPod, "VolumeAttachmentLimitExceeded", `(?s:.+)`},
		{warning, ofPod, "FailedNodeDeclaredFeaturesCheck", `Pod requires node features that are not available: (?s:.+)`},
		// The node.
		{normal, ofNode, "Starting", `Starting kubelet\.`},
		{normal, ofNode, "NodeReady|NodeNotReady|NodeSchedulable|NodeNotSchedulable", `Node \S+ status is now: \w+`},
		{normal, ofNode, "NodeHasSufficientMemory|NodeHasInsufficientMemory|NodeHasNoDiskPressure|NodeHasDiskPressure|NodeHasSufficientPID|NodeHasInsufficientPID", `Node \S+ status is now: \w+`},
		{warning, ofNode, "Rebooted", `Node \S+ has been rebooted, boot id: \S+`},
		{normal, ofNode, "NodeAllocatableEnforced", `Updated .+`},
		{warning, ofNode, "FailedNodeAllocatableEnforcement", `(?s:.+)`},
		{warning, ofNode, "ContainerGCFailed", `(?s:.+)`},
		{warning, ofNode, "ImageGCFailed", `(?s:.+)`},
		{warning, ofNode, "FreeDiskSpaceFailed", `(?s:.+)`},
		{warning, ofNode, "InvalidDiskCapacity", `(?s:.+)`},
		{warning, ofNode, "EvictionThresholdMet", `Attempting to reclaim \S+`},
		{warning, ofNode, "SystemOOM", `System OOM encountered(?s:.*)`},
		{warning, ofNode, "KubeletSetupFailed", `(?s:.+)`},
		{warning, ofNode, "CgroupV1", `(?s:.+)`},
		{normal, ofNode, "Shutdown", `Shutdown manager detected .+`},
		{warning, ofNode, "CheckLimitsForResolvConf", `(?s:.+)`},
		{warning, ofNode, "MissingClusterDNS", `(?s:.+)`},
		{warning, ofNode, "PossibleMemoryBackedVolumesOnDisk", `(?s:.+)`},
	}
}

// ownKinds are those that only this project's kubelet tells of.
func ownKinds() []Kind {
	return []Kind{
		{warning, ofPod, "UnsupportedField", `(?s:.+)`},
		{normal, ofContainer, "Killing", `Stopping container \S+, all containers restart`},
		{normal, ofContainer, "Killing", `Container \S+ is not in the spec of the pod`},
		{warning, ofContainer, "InspectFailed", `parse image name ".*": (?s:.+)`},
		{warning, ofContainer, "InspectFailed", `image ".+" was pulled as \S+, which the runtime does not know`},
	}
}

// compiled is the catalog for Find.
var compiled = sync.OnceValue(func() []*pattern { //nolint:gochecknoglobals // a constant table
	var all []*pattern
	for _, k := range Catalog() {
		all = append(all, &pattern{k, regexp.MustCompile(`^(?:` + k.Reason + `)$`), regexp.MustCompile(`^(?:` + k.Message + `)$`)})
	}
	return all
})

type pattern struct {
	Kind
	reason, message *regexp.Regexp
}

// Find returns the kind of an event: by its type, reason and message, and by whether it
// is about a container, a pod or a node. The error says what is not as in the catalog.
func Find(e *corev1.Event) (Kind, error) {
	about := ofPod
	switch {
	case e.InvolvedObject.Kind == ofNode:
		about = ofNode
	case e.InvolvedObject.FieldPath != "":
		about = ofContainer
	}
	var near error
	for _, k := range compiled() {
		if !k.reason.MatchString(e.Reason) {
			continue
		}
		switch {
		case k.Type != e.Type || !k.message.MatchString(e.Message):
			near = fmt.Errorf("event %s (%s) says %q, a kubelet would say %q (%s)", e.Reason, e.Type, e.Message, k.Message, k.Type)
		case k.About != about && (about == ofNode || k.About == ofNode):
			near = fmt.Errorf("event %s is about a %s, a kubelet's is about a %s", e.Reason, about, k.About)
		default:
			return k.Kind, nil
		}
	}
	if near == nil {
		near = fmt.Errorf("event %s (%q): a kubelet has no such reason", e.Reason, e.Message)
	}
	return Kind{}, near
}
