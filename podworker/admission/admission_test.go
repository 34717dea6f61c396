package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// change edits a pod or a node of a test.
type change[T any] func(*T)

// resources reads pairs of name and amount.
func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// newPod returns a pod that requests the pairs in its one container.
func newPod(name string, requests []string, changes ...change[corev1.Pod]) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: resources(requests...)}}},
		},
	}
	for _, c := range changes {
		c(pod)
	}
	return pod
}

func static(p *corev1.Pod) { p.Annotations[annotationSource] = "file" }

func priority(n int32) change[corev1.Pod] { return func(p *corev1.Pod) { p.Spec.Priority = &n } }

// guaranteed sets the limits of the container to its requests.
func guaranteed(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
}

func port(number int32, ip string) change[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: number, HostIP: ip}}
	}
}

func sysctl(name string) change[corev1.Pod] {
	return func(p *corev1.Pod) {
		if p.Spec.SecurityContext == nil {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
		}
		p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
	}
}

// newNode returns a node of 2 CPUs, 4Gi and 3 pods.
func newNode(changes ...change[Node]) Node {
	n := Node{Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Labels: map[string]string{"zone": "a"}},
		Status: corev1.NodeStatus{
			Allocatable: resources("cpu", "2", "memory", "4Gi", "ephemeral-storage", "10Gi", "pods", "3", "hugepages-2Mi", "4Mi"),
			NodeInfo:    corev1.NodeSystemInfo{OperatingSystem: "linux"},
		},
	}}
	for _, c := range changes {
		c(&n)
	}
	return n
}

func condition(types ...corev1.NodeConditionType) change[Node] {
	return func(n *Node) {
		for _, t := range types {
			n.Node.Status.Conditions = append(n.Node.Status.Conditions, corev1.NodeCondition{Type: t, Status: corev1.ConditionTrue})
		}
	}
}

func taint(key string, effect corev1.TaintEffect) change[Node] {
	return func(n *Node) { n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// outcome is a decision in text.
type outcome struct {
	Verdict, Reason, Message string
	Victims                  []string
}

func outcomeOf(d Decision) outcome {
	o := outcome{Verdict: d.Verdict.String(), Reason: d.Reason, Message: d.Message}
	for _, p := range d.Victims {
		o.Victims = append(o.Victims, p.Name)
	}
	return o
}

// test is one pod and one node.
type test struct {
	name   string
	pod    *corev1.Pod
	active []*corev1.Pod
	node   Node
	want   outcome
}

func run(t *testing.T, tests []test) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, outcomeOf(Admit(tt.pod, tt.active, tt.node))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

var admitted = outcome{Verdict: "admitted"}

func TestFit(t *testing.T) {
	big := []*corev1.Pod{newPod("big", []string{"cpu", "900m", "memory", "3Gi"})}
	three := []*corev1.Pod{newPod("a", nil), newPod("b", nil), newPod("c", nil)}
	run(t, []test{
		{name: "room for all", pod: newPod("p", []string{"cpu", "1100m", "memory", "1Gi"}), active: big, node: newNode(), want: admitted},
		{name: "asks for nothing on a full node", pod: newPod("p", nil), active: []*corev1.Pod{newPod("all", []string{"cpu", "2"})}, node: newNode(), want: admitted},
		{
			name: "too little CPU left", pod: newPod("p", []string{"cpu", "1500m"}), active: big, node: newNode(),
			want: outcome{Verdict: "not yet", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 1500, used: 900, capacity: 2000"},
		},
		{
			name: "more CPU than the node has", pod: newPod("p", []string{"cpu", "3"}), active: big, node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 3000, used: 900, capacity: 2000"},
		},
		{
			name: "memory", pod: newPod("p", []string{"memory", "2Gi"}), active: big, node: newNode(),
			want: outcome{Verdict: "not yet", Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory, requested: 2147483648, used: 3221225472, capacity: 4294967296"},
		},
		{
			name: "storage", pod: newPod("p", []string{"ephemeral-storage", "11Gi"}), node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfephemeral-storage", Message: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		},
		{
			name: "huge pages the node does not have", pod: newPod("p", []string{"hugepages-1Gi", "1Gi"}), node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfhugepages-1Gi", Message: "Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0"},
		},
		{
			name: "too many pods", pod: newPod("p", nil), active: three, node: newNode(),
			want: outcome{Verdict: "not yet", Reason: "OutOfpods", Message: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		},
		{name: "the pod itself does not count twice", pod: three[0], active: three, node: newNode(), want: admitted},
		{
			name: "two shortages, the second for good", pod: newPod("p", []string{"cpu", "1500m", "memory", "5Gi"}), active: big, node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 1500, used: 900, capacity: 2000"},
		},
		{name: "a device the node does not know", pod: newPod("p", []string{"example.com/gpu", "1"}), node: newNode(), want: admitted},
		{
			name: "a device that is taken", pod: newPod("p", []string{"example.com/gpu", "1"}), active: []*corev1.Pod{newPod("o", []string{"example.com/gpu", "1"})},
			node: newNode(func(n *Node) { n.Node.Status.Allocatable["example.com/gpu"] = resource.MustParse("1") }),
			want: outcome{Verdict: "not yet", Reason: "OutOfexample.com/gpu", Message: "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1"},
		},
		{
			name: "init containers and overhead count",
			pod: newPod("p", []string{"cpu", "100m"}, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "1900m")}}}
				p.Spec.Overhead = resources("cpu", "200m")
			}),
			node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000"},
		},
		{
			name: "an amount beyond all numbers", pod: newPod("p", []string{"cpu", "9E"}), active: []*corev1.Pod{newPod("o", []string{"cpu", "9E"})}, node: newNode(),
			want: outcome{
				Verdict: "never", Reason: "OutOfcpu",
				Message: "Node didn't have enough resource: cpu, requested: 9223372036854775807, used: 9223372036854775807, capacity: 2000",
			},
		},
	})
}

func TestNodeMatches(t *testing.T) {
	affinity := func(values ...string) change[corev1.Pod] {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: values}}}},
			}}}
		}
	}
	selector := func(zone string) change[corev1.Pod] {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": zone} }
	}
	noMatch := outcome{Verdict: "never", Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	taken := []*corev1.Pod{newPod("web", nil, port(80, "10.0.0.1"))}
	noPort := outcome{Verdict: "not yet", Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
	repelled := outcome{Verdict: "not yet", Reason: "TaintToleration", Message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
	tolerate := func(t corev1.Toleration) change[corev1.Pod] {
		return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
	}
	run(t, []test{
		{name: "selector", pod: newPod("p", nil, selector("a")), node: newNode(), want: admitted},
		{name: "other selector", pod: newPod("p", nil, selector("b")), node: newNode(), want: noMatch},
		{name: "affinity", pod: newPod("p", nil, affinity("b", "a")), node: newNode(), want: admitted},
		{name: "other affinity", pod: newPod("p", nil, affinity("b")), node: newNode(), want: noMatch},
		{name: "static pods too", pod: newPod("p", nil, static, selector("b")), node: newNode(), want: noMatch},
		{
			name: "another node's name", pod: newPod("p", nil, func(p *corev1.Pod) { p.Spec.NodeName = "other" }), node: newNode(),
			want: outcome{Verdict: "never", Reason: "NodeName", Message: "Predicate NodeName failed: node(s) didn't match the requested node name"},
		},
		{name: "its name", pod: newPod("p", nil, func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), node: newNode(), want: admitted},
		{name: "port taken", pod: newPod("p", nil, port(80, "")), active: taken, node: newNode(), want: noPort},
		{name: "port taken at the address", pod: newPod("p", nil, port(80, "10.0.0.1")), active: taken, node: newNode(), want: noPort},
		{name: "port at another address", pod: newPod("p", nil, port(80, "10.0.0.2")), active: taken, node: newNode(), want: admitted},
		{
			name: "port of another protocol", active: taken, node: newNode(), want: admitted,
			pod: newPod("p", nil, port(80, ""), func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }),
		},
		{name: "taint", pod: newPod("p", nil), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: repelled},
		{name: "taint for schedulers", pod: newPod("p", nil), node: newNode(taint("k", corev1.TaintEffectNoSchedule)), want: admitted},
		{name: "taint and static pod", pod: newPod("p", nil, static), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: admitted},
		{name: "tolerated", pod: newPod("p", nil, tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: admitted},
		{name: "tolerated by key", pod: newPod("p", nil, tolerate(corev1.Toleration{Key: "k"})), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: admitted},
		{name: "another value", pod: newPod("p", nil, tolerate(corev1.Toleration{Key: "k", Value: "v"})), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: repelled},
		{name: "another effect", pod: newPod("p", nil, tolerate(corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"})), node: newNode(taint("k", corev1.TaintEffectNoExecute)), want: repelled},
		{
			name: "resources first", pod: newPod("p", []string{"cpu", "3"}, selector("b")), node: newNode(),
			want: outcome{Verdict: "never", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"},
		},
		{name: "of a critical pod resources last", pod: newPod("p", []string{"cpu", "3"}, static, selector("b")), node: newNode(), want: noMatch},
	})
}

func TestPressureAndShutdown(t *testing.T) {
	evicted := func(list string) outcome {
		return outcome{Verdict: "not yet", Reason: "Evicted", Message: "The node had condition: [" + list + "]. "}
	}
	tolerant := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	}
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	run(t, []test{
		{name: "memory, best effort", pod: newPod("p", nil), node: newNode(condition(memory)), want: evicted("MemoryPressure")},
		{name: "memory, burstable", pod: newPod("p", []string{"memory", "1Mi"}), node: newNode(condition(memory)), want: admitted},
		{name: "memory, tolerated", pod: newPod("p", nil, tolerant), node: newNode(condition(memory)), want: admitted},
		{name: "memory, critical", pod: newPod("p", nil, static), node: newNode(condition(memory)), want: admitted},
		{name: "disk", pod: newPod("p", []string{"memory", "1Mi"}, tolerant), node: newNode(condition(disk)), want: evicted("DiskPressure")},
		{name: "both", pod: newPod("p", []string{"memory", "1Mi"}), node: newNode(condition(memory, disk)), want: evicted("MemoryPressure DiskPressure")},
		{name: "disk, critical", pod: newPod("p", nil, priority(lowestCritical)), node: newNode(condition(disk)), want: admitted},
		{name: "ready is no pressure", pod: newPod("p", nil), node: newNode(condition(corev1.NodeReady)), want: admitted},
		{
			name: "shutdown", pod: newPod("p", nil, static), node: newNode(func(n *Node) { n.ShuttingDown = true }),
			want: outcome{Verdict: "not yet", Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."},
		},
		{name: "no node", pod: newPod("p", nil), want: outcome{Verdict: "not yet", Reason: "InvalidNodeInfo", Message: "Kubelet cannot get node info."}},
	})
}

func TestPlatform(t *testing.T) {
	strict := func(p *corev1.Pod) {
		policy := corev1.SupplementalGroupsPolicyStrict
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &policy}
	}
	yes := true
	withGroups := func(n *Node) { n.Node.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: &yes} }
	needs := func(n *Node) {
		n.Node.Status.DeclaredFeatures = []string{"A"}
		n.Requires = func(*corev1.Pod) []string { return []string{"A", "B", "C"} }
	}
	profile := func(kind corev1.AppArmorProfileType) change[corev1.Pod] {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: kind}}
		}
	}
	podProfile := func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
	}
	annotated := func(p *corev1.Pod) { p.Annotations[appArmorAnnotation+"app"] = "localhost/x" }
	noAppArmor := outcome{Verdict: "never", Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	run(t, []test{
		{name: "its system", pod: newPod("p", nil, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }), node: newNode(), want: admitted},
		{
			name: "another system", pod: newPod("p", nil, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }), node: newNode(),
			want: outcome{Verdict: "never", Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"},
		},
		{
			name: "label of another system", pod: newPod("p", nil, func(p *corev1.Pod) { p.Labels[corev1.LabelOSStable] = "windows" }), node: newNode(),
			want: outcome{Verdict: "never", Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		},
		{
			name: "strict groups", pod: newPod("p", nil, strict), node: newNode(),
			want: outcome{Verdict: "never", Reason: "SupplementalGroupsPolicyNotSupported", Message: "SupplementalGroupsPolicy=Strict is not supported in this node"},
		},
		{name: "strict groups on a node that has them", pod: newPod("p", nil, strict), node: newNode(withGroups), want: admitted},
		{
			name: "features", pod: newPod("p", nil), node: newNode(needs),
			want: outcome{Verdict: "never", Reason: "PodFeatureUnsupported", Message: "Pod requires node features that are not available: B, C"},
		},
		{name: "AppArmor of a container", pod: newPod("p", nil, profile(corev1.AppArmorProfileTypeRuntimeDefault)), node: newNode(), want: noAppArmor},
		{name: "AppArmor of the pod", pod: newPod("p", nil, podProfile), node: newNode(), want: noAppArmor},
		{name: "AppArmor of an annotation", pod: newPod("p", nil, annotated), node: newNode(), want: noAppArmor},
		{name: "AppArmor on a node that has it", pod: newPod("p", nil, annotated), node: newNode(func(n *Node) { n.AppArmor = true }), want: admitted},
		{name: "unconfined", pod: newPod("p", nil, profile(corev1.AppArmorProfileTypeUnconfined)), node: newNode(), want: admitted},
	})
}

func TestVerdictNames(t *testing.T) {
	if got := Verdict(9).String(); got != "verdict 9" {
		t.Errorf("verdict %q", got)
	}
}

func TestRequested(t *testing.T) {
	got := Requested([]*corev1.Pod{newPod("a", []string{"cpu", "100m"}), newPod("b", []string{"cpu", "1", "memory", "1Gi"}), newPod("c", nil)})
	want := resources("cpu", "1100m", "memory", "1Gi", "pods", "3")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requested (-want +got):\n%s", diff)
	}
}
