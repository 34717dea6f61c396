package podspec

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Extra is what one container is given of the node beside what its spec says: the
// devices that it asks for by number only, the CPUs that nobody else may use. It is
// decided elsewhere and used as it is. The zero value is nothing.
//
// Variables and mounts come before those of the spec, so that the container has the
// last word; of annotations the agent has it.
type Extra struct {
	Envs        []*runtimeapi.KeyValue
	Mounts      []*runtimeapi.Mount
	Devices     []*runtimeapi.Device
	CDIDevices  []*runtimeapi.CDIDevice
	Annotations map[string]string
	// CPUs and MemoryNodes are those on which the container may run and have memory, as
	// lists of cpuset(7) such as "2-3,6"; empty: all of its cgroup.
	CPUs, MemoryNodes string
	// NoCPUQuota lifts the quota that a limit of CPU is, for a container with CPUs of its
	// own.
	NoCPUQuota bool
}

// apply sets what the container is given among its resources.
func (e *Extra) apply(r *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	r.CpusetCpus, r.CpusetMems = e.CPUs, e.MemoryNodes
	if e.NoCPUQuota {
		r.CpuQuota, r.CpuPeriod = 0, 0
	}
	return r
}
