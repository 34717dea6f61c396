package pinning

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// CPUOptions change how exclusive CPUs are chosen. The zero value packs them.
// (https://kubernetes.io/docs/concepts/policy/node-resource-managers/#cpu-policy-static--options)
type CPUOptions struct {
	// FullCores gives containers whole cores only, and refuses those that ask for a part
	// of one: full-pcpus-only.
	FullCores bool
	// DistributeAcrossNUMA takes CPUs evenly from NUMA nodes if one has not enough:
	// distribute-cpus-across-numa.
	DistributeAcrossNUMA bool
	// AlignBySocket takes all NUMA nodes of a socket for close: align-by-socket.
	AlignBySocket bool
	// DistributeAcrossCores takes CPUs of different cores: distribute-cpus-across-cores.
	DistributeAcrossCores bool
	// StrictReservation keeps also other containers from the reserved CPUs:
	// strict-cpu-reservation.
	StrictReservation bool
	// AlignByCache takes CPUs that share a last-level cache:
	// prefer-align-cpus-by-uncorecache.
	AlignByCache bool
}

// fields returns the options by their names in a KubeletConfiguration.
func (o *CPUOptions) fields() map[string]*bool {
	return map[string]*bool{
		"full-pcpus-only":                  &o.FullCores,
		"distribute-cpus-across-numa":      &o.DistributeAcrossNUMA,
		"align-by-socket":                  &o.AlignBySocket,
		"distribute-cpus-across-cores":     &o.DistributeAcrossCores,
		"strict-cpu-reservation":           &o.StrictReservation,
		"prefer-align-cpus-by-uncorecache": &o.AlignByCache,
	}
}

// ParseCPUOptions reads the field cpuManagerPolicyOptions of a KubeletConfiguration, and
// refuses options that exclude each other.
func ParseCPUOptions(options map[string]string) (CPUOptions, error) {
	var o CPUOptions
	fields := o.fields()
	for _, name := range slices.Sorted(maps.Keys(options)) {
		field, known := fields[name]
		if !known {
			return CPUOptions{}, fmt.Errorf("CPU manager policy option %q: want one of %q", name, slices.Sorted(maps.Keys(fields)))
		}
		value, err := strconv.ParseBool(options[name])
		if err != nil {
			return CPUOptions{}, fmt.Errorf("CPU manager policy option %s is %q: want true or false", name, options[name])
		}
		*field = value
	}
	return o, o.validate()
}

func (o *CPUOptions) validate() error {
	for _, pair := range [][2]string{
		{"full-pcpus-only", "distribute-cpus-across-cores"},
		{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
	} {
		if fields := o.fields(); *fields[pair[0]] && *fields[pair[1]] {
			return fmt.Errorf("CPU manager policy options %s and %s exclude each other", pair[0], pair[1])
		}
	}
	return nil
}

// suit reports whether the options suit the machine and the topology manager.
func (o *CPUOptions) suit(l *Layout, p topology.Policy) error {
	if !o.AlignBySocket {
		return nil
	}
	if p == topology.SingleNode {
		return fmt.Errorf("CPU manager policy option align-by-socket excludes the topology manager policy %s", p)
	}
	if len(l.sockets) > len(l.nodes) {
		return errors.New("CPU manager policy option align-by-socket: the machine has more sockets than NUMA nodes")
	}
	return nil
}
