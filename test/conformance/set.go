package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Suite is one of upstream's test binaries.
type Suite string

const (
	// E2E is test/e2e: specs that talk to a cluster.
	E2E Suite = "e2e"
	// E2ENode is test/e2e_node: specs that start a kubelet themselves.
	E2ENode Suite = "e2e_node"
)

// Set is a named selection of a suite's specs.
type Set struct {
	// Name is what the set is called on the command line and in file names.
	Name string
	// About says in a few words what the set shows.
	About string
	// Suite is the binary that holds the specs.
	Suite Suite
	// Focus and Skip are regular expressions over the full names of specs: a spec
	// belongs to the set if it matches Focus and does not match Skip. An empty Skip
	// matches nothing.
	Focus, Skip string
	// Nodes is the number of nodes that the specs need.
	Nodes int
	// Part names what the set exercises, and with it which binaries name a run.
	Part Part
	// Standalone is for specs of [E2ENode] that run a kubelet without API server.
	Standalone bool
}

// Part is what a set exercises.
type Part int

const (
	// Node is the kubelet alone.
	Node Part = iota
	// Network is the kubelet and kube-proxy.
	Network
)

// slow matches the labels of specs that need much time, or the cluster for themselves.
const slow = `\[Serial\]|\[Slow\]|\[Disruptive\]|\[Flaky\]`

// nodeConformance is the label of what each node must do, and services matches the
// specs about virtual addresses and the ways between pods.
const (
	nodeConformance = `\[NodeConformance\]`
	services        = `^\[sig-network\] (Services|EndpointSlice|Conntrack|Networking|KubeProxy|Traffic Distribution)\b`
)

// Sets returns the named sets.
func Sets() []Set {
	return append([]Set{
		{
			Name: "node-conformance", About: "NodeConformance without slow and serial specs",
			Suite: E2E, Focus: nodeConformance, Skip: slow, Nodes: 1, Part: Node,
		},
		{
			Name: "node-conformance-slow", About: "NodeConformance that is slow, or wants the node for itself",
			Suite: E2E, Focus: `(` + slow + `).*` + nodeConformance + `|` + nodeConformance + `.*(` + slow + `)`,
			Skip: `\[Flaky\]`, Nodes: 1, Part: Node,
		},
		{
			Name: "conformance", About: "Conformance of sig-node, sig-network, sig-storage and sig-apps, " +
				"without slow and serial specs and those of the sets node-conformance and network",
			Suite: E2E, Nodes: 2, Part: Network,
			Focus: `^\[sig-(node|network|storage|apps)\] .*\[Conformance\]`,
			Skip:  slow + `|` + nodeConformance + `|` + services,
		},
		{
			Name: "network", About: "Services, EndpointSlices, conntrack and traffic distribution",
			Suite: E2E, Nodes: 2, Part: Network,
			Focus: services,
			Skip:  slow + `|LoadBalancer|\[Feature:`,
		},
		{
			Name: "zones", About: "traffic distribution over three zones with two nodes each",
			Suite: E2E, Nodes: 6, Part: Network,
			Focus: `^\[sig-network\] (Traffic Distribution|Services should implement NodePort and HealthCheckNodePort)\b`,
			Skip:  slow + `|LoadBalancer|\[Feature:`,
		},
		{
			Name: "quick", About: "ten specs of seconds that the stock cluster of make test passes",
			Suite: E2E, Focus: `^\[sig-[a-z]+\] (` + strings.Join(quickSpecs(), "|") + `)`, Nodes: 2, Part: Network,
		},
		{
			Name: "representative", About: "forty specs of all that a node does, which make test runs with our kubelet and kube-proxy",
			Suite: E2E, Focus: `^\[sig-[a-z]+\] (` + strings.Join(representativeSpecs(), "|") + `)`, Nodes: 2, Part: Network,
		},
		{
			Name: "standalone", About: "static pods of a kubelet without API server",
			Suite: E2ENode, Focus: `\[Feature:StandaloneMode\]`, Nodes: 1, Part: Node, Standalone: true,
		},
		{
			Name: "memory", About: "containers that the kernel kills, control groups and resources of whole pods, of the kubelet's own suite",
			Suite: E2ENode, Nodes: 1, Part: Node, Skip: `\[Flaky\]`,
			Focus: `^\[sig-node\] (OOMKiller |Kubelet Cgroup Manager |Pod Level Resources \[Feature:PodLevelResources\])`,
		},
		{
			Name: "devices", About: "device plugins that fail, of the kubelet's own suite",
			Suite: E2ENode, Focus: `^\[sig-node\] Device Plugin Failures\b`, Nodes: 1, Part: Node, Skip: `\[Serial\]|\[Disruptive\]|\[Flaky\]`,
		},
		{
			Name: "pinning", About: "CPUs and memory of containers' own, of the kubelet's own suite",
			Suite: E2ENode, Nodes: 1, Part: Node, Focus: `^\[sig-node\] (` + strings.Join(pinningGroup(), "|") + `)`,
		},
	}, nodeSets()...)
}

// pinningGroup matches the specs of test/e2e_node about CPUs and memory of containers' own
// that take a machine of two CPUs and one NUMA node.
func pinningGroup() []string {
	return []string{
		`CPU Manager \[Feature:CPUManager\] When checking the sidecar containers`,
		`CPU Manager \[Feature:CPUManager\] when running guaranteed pod tests should allocate exclusively a CPU to`,
		`CPU Manager \[Feature:CPUManager\] when running non-guaranteed pods tests`,
		`CPU Manager Metrics \[Feature:CPUManager\]`,
		`Memory Manager (Metrics )?(\[LinuxOnly\] )?\[Feature:MemoryManager\]`,
		`Topology Manager Metrics \[Feature:TopologyManager\]`,
	}
}

// quickSpecs matches ten specs that are done in seconds and touch most of what a node
// does: environment, volumes, logs, exec, the node's Lease, Services across nodes.
func quickSpecs() []string {
	return []string{
		`Services should serve a basic endpoint from pods`,
		`DNS should provide DNS for the cluster \[Conformance\]`,
		`Networking Granular Checks: Pods should function for intra-pod communication: http`,
		`Pods should be submitted and removed`,
		`Pods should support remote command execution over websockets`,
		`ConfigMap should be consumable via environment variable`,
		`Secrets should be consumable from pods in env vars`,
		`EmptyDir volumes should support \(root,0644,tmpfs\)`,
		`Projected downwardAPI should provide podname only`,
		`NodeLease NodeLease the kubelet should create and update a lease`,
	}
}

// Lookup returns the set of that name.
func Lookup(name string) (Set, error) {
	names := make([]string, 0, len(Sets()))
	for _, s := range Sets() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, fmt.Errorf("there is no set %q; there are %s", name, strings.Join(names, ", "))
}

// Select returns the specs of the set, in the order of their names and each once. An
// expression that does not compile is an error.
func (s Set) Select(specs []string) ([]string, error) {
	return filter(specs, s.Focus, s.Skip)
}

// Narrow returns those of the specs that match focus and not skip; an empty expression
// changes nothing.
func Narrow(specs []string, focus, skip string) ([]string, error) {
	return filter(specs, focus, skip)
}

func filter(specs []string, focus, skip string) ([]string, error) {
	wanted, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("focus: %w", err)
	}
	unwanted, err := regexp.Compile(skip)
	if err != nil {
		return nil, fmt.Errorf("skip: %w", err)
	}
	var selected []string
	for _, spec := range specs {
		if wanted.MatchString(spec) && (skip == "" || !unwanted.MatchString(spec)) {
			selected = append(selected, spec)
		}
	}
	slices.Sort(selected)
	return slices.Compact(selected), nil
}

// anyOf returns an expression that matches exactly the given names.
func anyOf(names []string) string {
	if len(names) == 0 {
		return `$^`
	}
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	return `(?:` + strings.Join(quoted, "|") + `)$`
}

// FocusFor returns Ginkgo's focus expression for exactly these specs. Ginkgo matches it
// against the suite's description, a space and the spec's name.
func FocusFor(specs []string) string { return ` ` + anyOf(specs) }
