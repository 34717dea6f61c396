package nodestatus

import (
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// controllerAttach is the annotation by which the attach-detach controller knows the
	// nodes that it serves; the kubelet sets it as enableControllerAttachDetach of
	// kubelet.config.k8s.io/v1beta1 says.
	controllerAttach = "volumes.kubernetes.io/controller-managed-attach-detach"
	// cloudTaint keeps pods from a node until a cloud controller has initialized it
	// (TaintExternalCloudProvider of k8s.io/cloud-provider/api).
	cloudTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	// betaOS and betaArch are labels of the past that the kubelet still sets
	// (LabelOS and LabelArch of k8s.io/kubelet/pkg/apis).
	betaOS   = "beta.kubernetes.io/os"
	betaArch = "beta.kubernetes.io/arch"
)

// Registration is what a Node is created with. Its zero value is a Node with the
// default labels and nothing else.
type Registration struct {
	// Hostname is the value of the label kubernetes.io/hostname; empty: the name.
	Hostname string
	// Labels are set beside the default ones, and win over them. See CheckLabels.
	Labels map[string]string
	// Taints are those of a new Node. One that exists keeps its own.
	Taints []corev1.Taint
	// Unschedulable says that a new Node takes no pods from the scheduler.
	Unschedulable bool
	// ProviderID names the machine at a cloud; empty: none.
	ProviderID string
	// CloudProvider says that a cloud controller initializes the Node: until it has,
	// a taint keeps pods away.
	CloudProvider bool
	// ControllerAttach says that the attach-detach controller attaches volumes.
	ControllerAttach bool
	// ResetDevices says that the devices of a Node that exists are not known any more:
	// its extended resources become zero until device plugins register.
	ResetDevices bool
}

// validate says what is wrong.
func (r Registration) validate() error {
	errs := []error{CheckLabels(r.Labels)}
	for _, t := range r.Taints {
		errs = append(errs, checkTaint(t))
	}
	return errors.Join(errs...)
}

// Node returns a new Node, without a status.
func (r Registration) Node(name string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.labels(name)},
		Spec: corev1.NodeSpec{
			ProviderID:    r.ProviderID,
			Unschedulable: r.Unschedulable,
			Taints:        slices.Clone(r.Taints),
		},
	}
	if r.CloudProvider {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: cloudTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	if r.ControllerAttach {
		setAnnotation(n, controllerAttach, "true")
	}
	return n
}

// labels returns the default labels with those of the Registration.
func (r Registration) labels(name string) map[string]string {
	hostname := r.Hostname
	if hostname == "" {
		hostname = name
	}
	labels := map[string]string{
		corev1.LabelHostname:   hostname,
		corev1.LabelOSStable:   goruntime.GOOS,
		corev1.LabelArchStable: goruntime.GOARCH,
		betaOS:                 goruntime.GOOS,
		betaArch:               goruntime.GOARCH,
	}
	maps.Copy(labels, r.Labels)
	return labels
}

// reconciled are the labels that a kubelet sets right on a Node that exists; all others
// belong to whoever set them.
func reconciled() []string {
	return []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
		corev1.LabelOSStable, corev1.LabelArchStable, betaOS, betaArch,
	}
}

// Reconcile returns a Node that was registered before, with what a kubelet sets right
// when it starts: the default labels, the annotation of the attach-detach controller
// and, if their devices were forgotten, extended resources. Its other labels, its
// taints and its provider ID stay. The Node that it is given is not changed.
func (r Registration) Reconcile(name string, existing *corev1.Node) *corev1.Node {
	n := existing.DeepCopy()
	labels := r.labels(name)
	for _, key := range reconciled() {
		if value, ok := labels[key]; ok && value != "" {
			setLabel(n, key, value)
		}
	}
	if r.ControllerAttach {
		setAnnotation(n, controllerAttach, "true")
	} else {
		delete(n.Annotations, controllerAttach)
	}
	if r.ResetDevices {
		resetDevices(&n.Status)
	}
	return n
}

// resetDevices makes extended resources zero.
func resetDevices(s *corev1.NodeStatus) {
	for _, list := range []corev1.ResourceList{s.Capacity, s.Allocatable} {
		for name := range list {
			if isExtended(name) {
				list[name] = zero()
			}
		}
	}
}

func zero() resource.Quantity { return *resource.NewQuantity(0, resource.DecimalSI) }

// isExtended reports whether a resource is one that devices have: its name has a domain
// other than those of Kubernetes.
func isExtended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// checkTaint says what is wrong with a taint.
func checkTaint(t corev1.Taint) error {
	var errs []error
	if err := checkKey(t.Key); err != nil {
		errs = append(errs, err)
	}
	if err := checkValue(t.Value); err != nil {
		errs = append(errs, err)
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, fmt.Errorf("effect %q, want NoSchedule, PreferNoSchedule or NoExecute", t.Effect))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("taint %q: %w", t.ToString(), errors.Join(errs...))
}
