package admission

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// checkFit asks for resources, labels, name, ports and taints. A critical pod that
// wants for resources alone preempts others.
func checkFit(pod *corev1.Pod, active []*corev1.Pod, node *corev1.Node) Decision {
	active = slices.DeleteFunc(slices.Clone(active), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	short := shortages(pod, active, node)
	misfits := misfits(pod, active, node)
	critical := IsCritical(pod)
	switch {
	case len(short) == 0 && len(misfits) == 0:
		return admit()
	case len(misfits) > 0 && (critical || len(short) == 0):
		// Resources are no reason to refuse a critical pod as long as another stands.
		return worst(misfits)
	case critical:
		if chosen, ok := victims(pod, active, short); ok {
			return Decision{Verdict: Preempt, Victims: chosen}
		}
	}
	decisions := misfits
	for i, s := range short {
		decisions = slices.Insert(decisions, i, s.decision())
	}
	return worst(decisions)
}

// worst returns the first decision, with the verdict of the one that leaves least
// hope.
func worst(decisions []Decision) Decision {
	d := decisions[0]
	for _, other := range decisions {
		d.Verdict = max(d.Verdict, other.Verdict)
	}
	return d
}

// shortage is a resource of which the node has too little left. Amounts are in
// millicores of CPU, else in units.
type shortage struct {
	name                      corev1.ResourceName
	requested, used, capacity int64
}

// missing returns how much others would have to give back.
func (s shortage) missing() int64 {
	free := s.capacity - s.used // both are not negative
	if free < 0 && s.requested > math.MaxInt64+free {
		return math.MaxInt64
	}
	return s.requested - free
}

func (s shortage) decision() Decision {
	verdict := NotYet
	if s.requested > s.capacity {
		verdict = Never
	}
	return refuse(verdict, ReasonOutOf+string(s.name), "Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.name, s.requested, s.used, s.capacity)
}

// shortages returns what the node has too little of: the number of pods first, then
// cpu, memory, ephemeral storage, and the others by name.
func shortages(pod *corev1.Pod, active []*corev1.Pod, node *corev1.Node) []shortage {
	allocatable := node.Status.Allocatable
	used := map[corev1.ResourceName]int64{}
	for _, other := range active {
		for name, q := range requests(other) {
			used[name] += min(amount(name, q), math.MaxInt64-used[name])
		}
	}
	wanted := requests(pod)
	var short []shortage
	for _, name := range order(wanted) {
		s := shortage{name: name, requested: amount(name, wanted[name]), used: used[name], capacity: amount(name, allocatable[name])}
		_, known := allocatable[name]
		switch {
		case s.requested <= 0:
		case !known && extended(name): // is no resource of nodes
		case s.requested > s.capacity-s.used:
			short = append(short, s)
		}
	}
	return short
}

// requests are what a pod holds, its place among the pods with it.
func requests(pod *corev1.Pod) corev1.ResourceList {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}

// Requested returns what pods hold of a node together, their number among it.
func Requested(pods []*corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		for name, q := range requests(pod) {
			total := sum[name].DeepCopy()
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}

// order returns the names of a list in the order in which they are reported.
func order(list corev1.ResourceList) []corev1.ResourceName {
	first := []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	rank := func(name corev1.ResourceName) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	return slices.SortedFunc(maps.Keys(list), func(a, b corev1.ResourceName) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
}

// amount returns millicores or units, at most the largest number.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	largest := int64(math.MaxInt64)
	if name == corev1.ResourceCPU {
		largest /= 1000
	}
	switch {
	case q.CmpInt64(largest) >= 0:
		return math.MaxInt64
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

// extended says whether the resource has a domain that is not Kubernetes' own; the
// node may not be the one that provides it
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers).
func extended(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// misfits returns every other reason why the pod is not for the node.
func misfits(pod *corev1.Pod, active []*corev1.Pod, node *corev1.Node) []Decision {
	var found []Decision
	add := func(v Verdict, reason, text string) {
		found = append(found, refuse(v, reason, "Predicate %s failed: %s", reason, text))
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !ok || err != nil {
		add(Never, ReasonNodeAffinity, "node(s) didn't match Pod's node affinity/selector")
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		add(Never, ReasonNodeName, "node(s) didn't match the requested node name")
	}
	if portsTaken(pod, active) {
		add(NotYet, ReasonNodePorts, "node(s) didn't have free ports for the requested pod ports")
	}
	if !IsStatic(pod) && repelled(pod, node) {
		add(NotYet, ReasonTaint, "node(s) had taints that the pod didn't tolerate")
	}
	return found
}

// repelled looks at the taints that end running pods; the others are for
// schedulers.
func repelled(pod *corev1.Pod, node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && !tolerates(pod, t)
	})
}

// hostPort is an address of the machine that a container takes.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

// everywhere is the address that is all of them; IPv6 has none of its own here, as
// in the scheduler.
const everywhere = "0.0.0.0"

func (p hostPort) conflicts(other hostPort) bool {
	return p.port == other.port && p.protocol == other.protocol && (p.ip == other.ip || p.ip == everywhere || other.ip == everywhere)
}

// hostPorts leaves out init containers that end before the others start.
func hostPorts(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
			if port.ip == "" {
				port.ip = everywhere
			}
			if port.protocol == "" {
				port.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, port)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			collect(c)
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	return ports
}

func portsTaken(pod *corev1.Pod, active []*corev1.Pod) bool {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return false
	}
	for _, other := range active {
		for _, taken := range hostPorts(other) {
			if slices.ContainsFunc(wanted, taken.conflicts) {
				return true
			}
		}
	}
	return false
}
