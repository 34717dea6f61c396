package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
)

// Reserved returns what a configuration keeps from pods: kubeReserved,
// systemReserved, reservedSystemCPUs and the hard eviction thresholds in force,
// for allocatable.Compute. Without evictionHard the defaults of the kubelet are in
// force, as after SetDefaults.
//
// The error names each entry that cannot be read; what could be read is in the
// result. Whether the amounts make sense together is for Compute to say.
func Reserved(c *kubeletv1beta1.KubeletConfiguration) (allocatable.Reserved, error) {
	var r allocatable.Reserved
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var err error
	r.Kube, err = quantities("kubeReserved", c.KubeReserved)
	note(err)
	r.System, err = quantities("systemReserved", c.SystemReserved)
	note(err)
	cpus, err := allocatable.ParseCPUs(c.ReservedSystemCPUs)
	if err != nil {
		note(fmt.Errorf("reservedSystemCPUs: %w", err))
	}
	r.SystemCPUs = len(cpus)
	hard := hardThresholds(c)
	r.MemoryAvailable, err = threshold(hard, memoryAvailable)
	note(err)
	r.NodefsAvailable, err = threshold(hard, nodefsAvailable)
	note(err)
	return r, errors.Join(errs...)
}

// Pods returns how many pods a machine with so many CPUs takes: maxPods, and no
// more than podsPerCore for each CPU if that is set. A maxPods of 0 is the default
// of 110.
func Pods(c *kubeletv1beta1.KubeletConfiguration, cpus int) int64 {
	pods := int64(c.MaxPods)
	if pods == 0 {
		pods = defaultMaxPods
	}
	if c.PodsPerCore > 0 {
		pods = min(pods, int64(c.PodsPerCore)*int64(cpus))
	}
	return pods
}

// CheckCPUs says whether the machine has the CPUs that reservedSystemCPUs names;
// machine are those online. Without any named there is nothing to say.
func CheckCPUs(c *kubeletv1beta1.KubeletConfiguration, machine []int) error {
	cpus, err := allocatable.ParseCPUs(c.ReservedSystemCPUs)
	if err != nil {
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	for _, cpu := range cpus {
		if !slices.Contains(machine, cpu) {
			return fmt.Errorf("reservedSystemCPUs is %q, but the machine has no CPU %d online", c.ReservedSystemCPUs, cpu)
		}
	}
	return nil
}

func quantities(field string, amounts map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		q, err := resource.ParseQuantity(amounts[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q must be a quantity like 100m or 1Gi", at(field, name), amounts[name]))
			continue
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, errors.Join(errs...)
}

func threshold(hard map[string]string, signal string) (allocatable.Threshold, error) {
	value, ok := hard[signal]
	if !ok {
		return allocatable.Threshold{}, nil
	}
	t, err := allocatable.ParseThreshold(value)
	if err != nil {
		return allocatable.Threshold{}, fmt.Errorf("%s: %w", at("evictionHard", signal), err)
	}
	return t, nil
}

// MemoryByNode returns the memory that the field reservedMemory keeps on each NUMA node, by
// its number. Together it has to be what is kept of the node's memory otherwise: by
// kubeReserved, systemReserved and the hard eviction threshold
// (https://kubernetes.io/docs/tasks/administer-cluster/memory-manager). Huge pages are not
// kept otherwise, so that none can be here.
func MemoryByNode(reserved []kubeletv1beta1.MemoryReservation, kept resource.Quantity) (map[int]map[corev1.ResourceName]uint64, error) {
	byNode := map[int]map[corev1.ResourceName]uint64{}
	sums := map[corev1.ResourceName]*resource.Quantity{corev1.ResourceMemory: {}}
	for _, r := range reserved {
		node := byNode[int(r.NumaNode)]
		if node == nil {
			node = map[corev1.ResourceName]uint64{}
			byNode[int(r.NumaNode)] = node
		}
		for name, q := range r.Limits {
			if q.Sign() < 0 {
				return nil, fmt.Errorf("reservedMemory: %s of NUMA node %d is %s, must not be negative", name, r.NumaNode, &q)
			}
			node[name] += uint64(q.Value()) //nolint:gosec // not negative
			if sums[name] == nil {
				sums[name] = &resource.Quantity{}
			}
			sums[name].Add(q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		want := resource.Quantity{}
		if name == corev1.ResourceMemory {
			want = kept
		}
		if sum := sums[name]; sum.Cmp(want) != 0 {
			return nil, fmt.Errorf("reservedMemory: the total amount %q of type %q is not equal to the value %q that is reserved of the node; change one of them", sum, name, &want)
		}
	}
	return byNode, nil
}
