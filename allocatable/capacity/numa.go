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

// NUMANode is memory and the CPUs next to it.
type NUMANode struct {
	ID   int
	CPUs []int // those next to it, online or not; none for a node of memory alone
	// Memory is in bytes, huge pages included.
	Memory    int64
	HugePages []HugePages
	// Distances tell how far the nodes are, in their order; 10 is here.
	Distances []int
}

// readNUMA reads the nodes that are there
// (https://docs.kernel.org/admin-guide/mm/numaperf.html).
func readNUMA(t tree) ([]NUMANode, error) {
	const dir = "/sys/devices/system/node"
	names, err := t.names(dir)
	if err != nil {
		return nil, err
	}
	var nodes []NUMANode
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "node")
		id, err := strconv.Atoi(number)
		if !ok || err != nil || id < 0 {
			continue // other files stand beside the nodes
		}
		node, err := readNode(t, path.Join(dir, name), id)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, nil
}

func readNode(t tree, dir string, id int) (NUMANode, error) {
	node := NUMANode{ID: id}
	cpus, err := t.optional(path.Join(dir, "cpulist"))
	if err != nil {
		return NUMANode{}, err
	}
	if node.CPUs, err = allocatable.ParseCPUs(cpus); err != nil {
		return NUMANode{}, fmt.Errorf("%s: %w", t.path(path.Join(dir, "cpulist")), err)
	}
	meminfo, err := t.optional(path.Join(dir, "meminfo"))
	if err != nil {
		return NUMANode{}, err
	}
	if node.Memory, err = kilobytes(meminfo, "MemTotal"); err != nil {
		return NUMANode{}, fmt.Errorf("%s: %w", t.path(path.Join(dir, "meminfo")), err)
	}
	if node.HugePages, err = readHugePages(t, path.Join(dir, "hugepages")); err != nil {
		return NUMANode{}, err
	}
	distances, err := t.optional(path.Join(dir, "distance"))
	if err != nil {
		return NUMANode{}, err
	}
	for field := range strings.FieldsSeq(distances) {
		d, err := strconv.Atoi(field)
		if err != nil {
			return NUMANode{}, fmt.Errorf("%s: %q must be a number", t.path(path.Join(dir, "distance")), field)
		}
		node.Distances = append(node.Distances, d)
	}
	return node, nil
}
