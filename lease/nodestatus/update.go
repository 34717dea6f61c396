package nodestatus

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// providedIPs is the annotation from which external cloud providers read the addresses
// of --node-ip (AnnotationAlphaProvidedIPAddr of k8s.io/cloud-provider/api).
const providedIPs = "alpha.kubernetes.io/provided-node-ip"

// Update returns a Node with the status that the facts make, and the events that this
// is worth once the server has it. The Node that it is given is not changed.
func Update(node *corev1.Node, f Facts, now time.Time) (*corev1.Node, []Event) {
	n := node.DeepCopy()
	setLabel(n, corev1.LabelOSStable, goruntime.GOOS)
	setLabel(n, corev1.LabelArchStable, goruntime.GOARCH)
	if f.ProvidedIPs != "" {
		setAnnotation(n, providedIPs, f.ProvidedIPs)
	} else {
		delete(n.Annotations, providedIPs)
	}
	s := &n.Status
	if f.Status.Addresses != nil && (!f.Provisional || len(s.Addresses) == 0) {
		s.Addresses = slices.Clone(f.Status.Addresses)
	}
	if f.NoLocalStorage {
		delete(s.Capacity, corev1.ResourceEphemeralStorage)
		delete(s.Allocatable, corev1.ResourceEphemeralStorage)
	}
	setResources(s, f.Status.Capacity, f.Status.Allocatable)
	events := setInfo(n, f.Status.NodeInfo)
	if f.Status.DaemonEndpoints.KubeletEndpoint.Port != 0 {
		s.DaemonEndpoints = f.Status.DaemonEndpoints
	}
	setRuntime(s, f)
	if f.Status.VolumesInUse != nil {
		s.VolumesInUse = slices.Clone(f.Status.VolumesInUse)
	}
	return n, append(events, setConditions(n, f, now)...)
}

func setLabel(n *corev1.Node, key, value string) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[key] = value
}

func setAnnotation(n *corev1.Node, key, value string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}

// setResources writes the machine's resources over those of the Node. Resources that
// others put there are allocatable as a whole.
func setResources(s *corev1.NodeStatus, capacity, allocatable corev1.ResourceList) {
	if capacity == nil {
		return
	}
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	for name := range s.Capacity {
		if _, has := capacity[name]; !has && isHugePages(name) {
			delete(s.Capacity, name)
		}
	}
	for name, q := range capacity {
		s.Capacity[name] = q.DeepCopy()
	}
	s.Allocatable = corev1.ResourceList{}
	for name, q := range s.Capacity {
		if a, ok := allocatable[name]; ok {
			q = a
		}
		s.Allocatable[name] = q.DeepCopy()
	}
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// setInfo writes what is known of the machine and its programs.
func setInfo(n *corev1.Node, info corev1.NodeSystemInfo) []Event {
	old := n.Status.NodeInfo
	if info == (corev1.NodeSystemInfo{}) {
		return nil
	}
	n.Status.NodeInfo = info
	n.Status.NodeInfo.OperatingSystem = goruntime.GOOS
	n.Status.NodeInfo.Architecture = goruntime.GOARCH
	n.Status.NodeInfo.KubeProxyVersion = "" //nolint:staticcheck // deprecated: KEP-4004 has kubelets clear it
	if swap := info.Swap; swap != nil && (swap.Capacity == nil || *swap.Capacity == 0) {
		n.Status.NodeInfo.Swap = nil // the API has no machine with swap of size 0
	}
	if old.BootID == "" || info.BootID == "" || old.BootID == info.BootID {
		return nil
	}
	return []Event{{
		Type: corev1.EventTypeWarning, Reason: "Rebooted",
		Message: fmt.Sprintf("Node %s has been rebooted, boot id: %s", n.Name, info.BootID),
	}}
}

// setRuntime writes what the container runtime has and can.
func setRuntime(s *corev1.NodeStatus, f Facts) {
	if f.Status.Images != nil {
		limit := f.MaxImages
		if limit == 0 {
			limit = DefaultMaxImages
		}
		s.Images = TopImages(f.Status.Images, limit)
	}
	if f.Status.RuntimeHandlers != nil {
		s.RuntimeHandlers = slices.Clone(f.Status.RuntimeHandlers)
		slices.SortFunc(s.RuntimeHandlers, func(a, b corev1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	}
	if f.Status.Features != nil {
		s.Features = f.Status.Features.DeepCopy()
	}
	if f.Status.DeclaredFeatures != nil {
		s.DeclaredFeatures = slices.Clone(f.Status.DeclaredFeatures)
		slices.Sort(s.DeclaredFeatures)
	}
}

// Changed reports whether two Nodes differ in what a Reporter writes: labels,
// annotations, the status without the times of the heartbeats.
func Changed(old, fresh *corev1.Node) bool {
	if !equality.Semantic.DeepEqual(old.Labels, fresh.Labels) || !equality.Semantic.DeepEqual(old.Annotations, fresh.Annotations) {
		return true
	}
	a, b := old.Status.DeepCopy(), fresh.Status.DeepCopy()
	a.Conditions, b.Conditions = still(a.Conditions), still(b.Conditions)
	return !equality.Semantic.DeepEqual(a, b)
}

// still returns conditions in the order of their types, without heartbeats.
func still(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for i := range conditions {
		conditions[i].LastHeartbeatTime.Reset()
	}
	slices.SortStableFunc(conditions, func(a, b corev1.NodeCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return conditions
}
