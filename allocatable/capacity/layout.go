package capacity

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable"
)

// CPU says where a logical CPU is.
type CPU struct {
	ID int
	// Core is the lowest number of a CPU on the same core, Socket the package.
	Core, Socket int
	// Node is the NUMA node; 0 on a kernel without NUMA.
	Node int
	// Cache is the last-level cache if a part of the CPUs of a NUMA node share one; else
	// the socket.
	Cache int
}

// ReadLayout tells where the CPUs of a machine are that are online, in their order. Where
// the kernel does not tell, as in some containers, each is a core of its own.
// (https://docs.kernel.org/admin-guide/cputopology.html)
func ReadLayout(cfg Config, m Machine) ([]CPU, error) {
	t := tree{root: cfg.Root}
	nodeOf := map[int]int{}
	for _, n := range m.NUMA {
		for _, cpu := range n.CPUs {
			nodeOf[cpu] = n.ID
		}
	}
	type core struct{ node, socket, id int }
	first, onNode := map[core]int{}, map[int]int{}
	var cpus []CPU
	for _, id := range m.CPUs {
		dir := path.Join("/sys/devices/system/cpu", "cpu"+strconv.Itoa(id))
		socket, _, err := t.integer(path.Join(dir, "topology/physical_package_id"))
		if err != nil {
			return nil, fmt.Errorf("read the layout of CPUs: %w", err)
		}
		coreID, known, err := t.integer(path.Join(dir, "topology/core_id"))
		if err != nil {
			return nil, fmt.Errorf("read the layout of CPUs: %w", err)
		}
		c := CPU{ID: id, Core: id, Socket: socket, Node: nodeOf[id], Cache: socket}
		onNode[c.Node]++
		if known {
			key := core{c.Node, socket, coreID}
			if lowest, ok := first[key]; ok {
				c.Core = lowest
			} else {
				first[key] = id
			}
		}
		cpus = append(cpus, c)
	}
	return cpus, readCaches(t, cpus, onNode)
}

// readCaches finds the last-level caches that a part of a node shares.
func readCaches(t tree, cpus []CPU, onNode map[int]int) error {
	for i := range cpus {
		dir := path.Join("/sys/devices/system/cpu", "cpu"+strconv.Itoa(cpus[i].ID), "cache")
		names, err := t.names(dir)
		if err != nil {
			return fmt.Errorf("read the caches of CPUs: %w", err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "index") {
				continue // other files stand beside the caches
			}
			cache, shared, err := readCache(t, path.Join(dir, name))
			if err != nil {
				return fmt.Errorf("read the caches of CPUs: %w", err)
			}
			if shared > 0 && shared != onNode[cpus[i].Node] {
				cpus[i].Cache = cache
			}
		}
	}
	return nil
}

// lastLevel is the lowest level of a cache that several cores may share.
const lastLevel = 3

// readCache returns the number of a cache of the last level and how many CPUs share it; 0
// if it is another one.
func readCache(t tree, dir string) (id, shared int, err error) {
	level, known, err := t.integer(path.Join(dir, "level"))
	if err != nil || !known || level < lastLevel {
		return 0, 0, err
	}
	list, err := t.optional(path.Join(dir, "shared_cpu_list"))
	if err != nil {
		return 0, 0, err
	}
	cpus, err := allocatable.ParseCPUs(list)
	if err != nil || len(cpus) == 0 {
		return 0, 0, err
	}
	id, known, err = t.integer(path.Join(dir, "id"))
	if !known {
		id = slices.MinFunc(cpus, cmp.Compare[int])
	}
	return id, len(cpus), err
}

// integer reads a file that holds one number, which may be negative.
func (t tree) integer(name string) (n int, known bool, err error) {
	s, err := t.optional(name)
	if err != nil || s == "" {
		return 0, false, err
	}
	if n, err = strconv.Atoi(s); err != nil {
		return 0, false, fmt.Errorf("%s: %q must be a whole number", t.path(name), s)
	}
	return n, true, nil
}
