package pinning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// nodeEntry is a NUMA node in the file.
type nodeEntry struct {
	Assignments int                            `json:"numberOfAssignments"`
	Tables      map[corev1.ResourceName]*table `json:"memoryMap"`
	Cells       []int                          `json:"cells"`
}

// blockEntry is a block in the file.
type blockEntry struct {
	Nodes []int               `json:"numaAffinity"`
	Type  corev1.ResourceName `json:"type"`
	Size  uint64              `json:"size"`
}

// memoryData is the state as text.
type memoryData struct {
	PolicyName   string                             `json:"policyName"`
	MachineState map[int]*nodeEntry                 `json:"machineState"`
	Entries      map[string]map[string][]blockEntry `json:"entries,omitempty"`
}

// memoryDocument is the file.
type memoryDocument struct {
	memoryData
	envelope
}

// readMemoryState reads the file; nil if there is none.
func readMemoryState(path string, p Policy) (*memoryState, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing is known
	}
	raw, err := readFile(path)
	if err != nil || raw == nil {
		return nil, err
	}
	st, policy, err := parseMemoryState(raw)
	if err == nil {
		err = checkPolicy(policy, p.capital())
	}
	if err != nil {
		return nil, useless(path, err)
	}
	return st, nil
}

func writeMemoryState(path string, p Policy, st *memoryState) error {
	raw, err := formatMemoryState(p.capital(), st)
	if err != nil {
		return err
	}
	return writeFile(path, raw)
}

// parseMemoryState reads a file of any version, and the policy that it was written under.
func parseMemoryState(raw []byte) (*memoryState, string, error) {
	var d memoryDocument
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, "", err
	}
	data := d.memoryData
	if d.isOld() {
		if err := d.checkOld(data.legacy("", ""), data.legacy("V1", ""), data.legacy("", emptyMemoryPods), data.legacy("V2", emptyMemoryPods)); err != nil {
			return nil, "", err
		}
	} else {
		data = memoryData{}
		if err := d.open(&data); err != nil {
			return nil, "", err
		}
	}
	st, err := data.state()
	return st, data.PolicyName, err
}

func formatMemoryState(policy string, st *memoryState) ([]byte, error) {
	d := memoryDocument{memoryData: memoryData{PolicyName: policy, MachineState: map[int]*nodeEntry{}, Entries: map[string]map[string][]blockEntry{}}}
	for id, n := range st.nodes {
		d.MachineState[id] = &nodeEntry{Assignments: n.assignments, Tables: n.tables, Cells: n.group.IDs()}
	}
	for uid, containers := range st.given {
		own := map[string][]blockEntry{}
		for name, blocks := range containers {
			for _, b := range blocks {
				own[name] = append(own[name], blockEntry{Nodes: b.Nodes.IDs(), Type: b.Type, Size: b.Size})
			}
		}
		d.Entries[string(uid)] = own
	}
	if err := d.seal(d.memoryData, d.legacy("", "")); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

func (d *memoryData) state() (*memoryState, error) {
	st := &memoryState{nodes: map[int]*memoryNode{}, given: map[types.UID]map[string][]Block{}}
	for id, e := range d.MachineState {
		if e == nil {
			return nil, fmt.Errorf("machineState of NUMA node %d is null", id)
		}
		group, err := topology.NodesOf(append(e.Cells, id)...)
		if err != nil {
			return nil, fmt.Errorf("machineState: %w", err)
		}
		n := &memoryNode{assignments: e.Assignments, group: group, tables: map[corev1.ResourceName]*table{}}
		for name, t := range e.Tables {
			if t == nil {
				return nil, fmt.Errorf("machineState of NUMA node %d: %s is null", id, name)
			}
			n.tables[name] = t
		}
		st.nodes[id] = n
	}
	for uid, containers := range d.Entries {
		own := map[string][]Block{}
		for name, blocks := range containers {
			for _, b := range blocks {
				nodes, err := topology.NodesOf(b.Nodes...)
				if err != nil {
					return nil, fmt.Errorf("container %s of pod %s: %w", name, uid, err)
				}
				own[name] = append(own[name], Block{Nodes: nodes, Type: b.Type, Size: b.Size})
			}
		}
		if len(own) > 0 {
			st.given[types.UID(uid)] = own
		}
	}
	return st, nil
}

// emptyMemoryPods is the field that version 2 has beside those of version 1.
const emptyMemoryPods = "PodEntries:(state.PodMemoryAssignments)map[] "

// legacy prints the fields of an earlier version as the kubelet does for their checksum.
func (d *memoryData) legacy(version, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(*state.MemoryManagerCheckpoint%s){PolicyName:(string)%s MachineState:(state.NUMANodeMap)map[", version, d.PolicyName)
	for i, id := range slices.Sorted(maps.Keys(d.MachineState)) {
		fmt.Fprintf(&b, "%s%d:%s", blank(i), id, d.MachineState[id].legacy())
	}
	b.WriteString("] Entries:(state.ContainerMemoryAssignments)map[")
	for i, uid := range slices.Sorted(maps.Keys(d.Entries)) {
		fmt.Fprintf(&b, "%s%s:map[", blank(i), uid)
		for j, name := range slices.Sorted(maps.Keys(d.Entries[uid])) {
			fmt.Fprintf(&b, "%s%s:[", blank(j), name)
			for k, e := range d.Entries[uid][name] {
				fmt.Fprintf(&b, "%s{NUMAAffinity:%s Type:(v1.ResourceName)%s Size:(uint64)%d}", blank(k), legacyInts(e.Nodes), e.Type, e.Size)
			}
			b.WriteString("]")
		}
		b.WriteString("]")
	}
	fmt.Fprintf(&b, "] %sChecksum:(checksum.Checksum)0}", more)
	return b.String()
}

func (n *nodeEntry) legacy() string {
	if n == nil {
		return "<nil>"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<*>{NumberOfAssignments:(int)%d MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[", n.Assignments)
	for i, name := range slices.Sorted(maps.Keys(n.Tables)) {
		fmt.Fprintf(&b, "%s%s:", blank(i), name)
		t := n.Tables[name]
		if t == nil {
			b.WriteString("<nil>")
			continue
		}
		fmt.Fprintf(&b, "<*>{TotalMemSize:(uint64)%d SystemReserved:(uint64)%d Allocatable:(uint64)%d Reserved:(uint64)%d Free:(uint64)%d}",
			t.Total, t.System, t.Allocatable, t.Reserved, t.Free)
	}
	fmt.Fprintf(&b, "] Cells:%s}", legacyInts(n.Cells))
	return b.String()
}

func legacyInts(list []int) string {
	if list == nil {
		return "([]int)<nil>"
	}
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return "([]int)[" + strings.Join(parts, " ") + "]"
}
