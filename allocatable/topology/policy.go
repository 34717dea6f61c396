package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Policy says what is asked of the nodes that a request is fulfilled from.
type Policy uint8

// The policies, from the lenient one on.
const (
	// None does not look at nodes.
	None Policy = iota
	// BestEffort looks for nodes that suit, and takes others if there are none.
	BestEffort
	// Restricted refuses what cannot be fulfilled from as few nodes as it would take on
	// an idle machine.
	Restricted
	// SingleNode refuses what cannot be fulfilled from one node.
	SingleNode
)

// policyNames are those of the field topologyManagerPolicy, in the order of policies.
func policyNames() []string { return []string{"none", "best-effort", "restricted", "single-numa-node"} }

// String returns the name of the policy in a KubeletConfiguration.
func (p Policy) String() string {
	if names := policyNames(); int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// ParsePolicy reads the field topologyManagerPolicy of a KubeletConfiguration; an empty
// one is [None].
func ParsePolicy(name string) (Policy, error) {
	if i := slices.Index(policyNames(), name); i >= 0 {
		return Policy(i), nil //nolint:gosec // there are four
	}
	if name == "" {
		return None, nil
	}
	return None, fmt.Errorf("topology manager policy %q: want one of %q", name, policyNames())
}

// Scope says what is fulfilled from the same nodes.
type Scope uint8

// The scopes.
const (
	// PerContainer looks for nodes for each container by itself.
	PerContainer Scope = iota
	// PerPod looks for nodes for all containers of a pod together.
	PerPod
)

// String returns the name of the scope in a KubeletConfiguration.
func (s Scope) String() string {
	switch s {
	case PerContainer:
		return "container"
	case PerPod:
		return "pod"
	}
	return fmt.Sprintf("scope %d", uint8(s))
}

// ParseScope reads the field topologyManagerScope of a KubeletConfiguration; an empty one
// is [PerContainer].
func ParseScope(name string) (Scope, error) {
	switch name {
	case "", PerContainer.String():
		return PerContainer, nil
	case PerPod.String():
		return PerPod, nil
	}
	return PerContainer, fmt.Errorf("topology manager scope %q: want container or pod", name)
}

// DefaultMaxNodes is how many nodes a machine may have for a policy other than [None].
// The work for a pod doubles with each
// (https://kubernetes.io/docs/tasks/administer-cluster/topology-manager, known limitations).
const DefaultMaxNodes = 8

// The names of options in a KubeletConfiguration.
const (
	OptionPreferClosest = "prefer-closest-numa-nodes"
	OptionMaxNodes      = "max-allowable-numa-nodes"
)

// Options change a policy. The zero value has the defaults.
type Options struct {
	// PreferClosest prefers nodes that are close to one another among sets of one size.
	PreferClosest bool
	// MaxNodes is how many nodes a machine may have; 0: [DefaultMaxNodes].
	MaxNodes int
}

// ParseOptions reads the field topologyManagerPolicyOptions of a KubeletConfiguration.
func ParseOptions(options map[string]string) (Options, error) {
	var o Options
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		var err error
		switch name {
		case OptionPreferClosest:
			o.PreferClosest, err = strconv.ParseBool(value)
		case OptionMaxNodes:
			o.MaxNodes, err = strconv.Atoi(value)
			if err == nil && o.MaxNodes < DefaultMaxNodes {
				err = fmt.Errorf("want at least %d", DefaultMaxNodes)
			}
		default:
			return Options{}, fmt.Errorf("topology manager policy option %q: want %s or %s", name, OptionPreferClosest, OptionMaxNodes)
		}
		if err != nil {
			return Options{}, fmt.Errorf("topology manager policy option %s is %q: %w", name, value, err)
		}
	}
	return o, nil
}
