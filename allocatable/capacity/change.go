package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Change is something that two readings of a machine tell differently.
type Change struct {
	// What is the name of a property, like "memory" or "boot ID".
	What string
	// Old and New are its values as text; "" where there was or is none.
	Old, New string
}

// String returns text like "memory: 8141816Ki, was 4070908Ki".
func (c Change) String() string { return fmt.Sprintf("%s: %q, was %q", c.What, c.New, c.Old) }

// BootID is the property whose change says that the machine booted again.
const BootID = "boot ID"

// Changes returns what differs from an earlier reading, in the order of names. It
// is empty when nothing a node reports has changed.
func (m Machine) Changes(since Machine) []Change {
	before, now := since.properties(), m.properties()
	names := maps.Clone(before)
	maps.Copy(names, now)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != now[name] {
			changes = append(changes, Change{What: name, Old: before[name], New: now[name]})
		}
	}
	return changes
}

// properties are all values of the machine as text.
func (m Machine) properties() map[string]string {
	p := map[string]string{
		"swap":           resource.NewQuantity(m.Swap, resource.BinarySI).String(),
		"CPUs online":    fmt.Sprint(m.CPUs),
		"kernel version": m.Info.KernelVersion,
		BootID:           m.Info.BootID,
		"machine ID":     m.Info.MachineID,
		"system UUID":    m.Info.SystemUUID,
		"OS image":       m.Info.OSImage,
		"AppArmor":       strconv.FormatBool(m.AppArmor),
		"cgroups":        fmt.Sprint(m.Cgroups.Mode, " ", m.Cgroups.Controllers),
	}
	resources := m.Resources(0)
	delete(resources, corev1.ResourcePods) // is no property of the machine
	for name, quantity := range resources {
		p[string(name)] = quantity.String()
	}
	for _, n := range m.NUMA {
		p["NUMA node "+strconv.Itoa(n.ID)] = fmt.Sprint("CPUs ", n.CPUs, " memory ", n.Memory, " pages ", n.HugePages, " distances ", n.Distances)
	}
	return p
}
