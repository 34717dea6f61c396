package pinning

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// cpuState is who has which CPUs.
type cpuState struct {
	// shared are those of all containers that have none to themselves.
	shared CPUSet
	// exclusive are those of containers that have, by pod and name.
	exclusive map[types.UID]map[string]CPUSet
}

func (s *cpuState) clone() cpuState {
	out := cpuState{shared: s.shared, exclusive: make(map[types.UID]map[string]CPUSet, len(s.exclusive))}
	for uid, containers := range s.exclusive {
		out.exclusive[uid] = maps.Clone(containers)
	}
	return out
}

// give gives a container CPUs that are shared or that another one of its pod leaves to it.
func (s *cpuState) give(uid types.UID, container string, cpus CPUSet) {
	if s.exclusive[uid] == nil {
		s.exclusive[uid] = map[string]CPUSet{}
	}
	s.exclusive[uid][container] = cpus
	s.shared = s.shared.Without(cpus)
}

// release returns what a pod has.
func (s *cpuState) release(uid types.UID) {
	for _, cpus := range s.exclusive[uid] {
		s.shared = s.shared.Union(cpus)
	}
	delete(s.exclusive, uid)
}

// given returns the CPUs that are not shared.
func (s *cpuState) given() CPUSet {
	var all CPUSet
	for _, containers := range s.exclusive {
		for _, cpus := range containers {
			all = all.Union(cpus)
		}
	}
	return all
}
