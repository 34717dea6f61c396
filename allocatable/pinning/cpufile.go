package pinning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// cpuEntries are the CPUs of containers, by pod and name.
type cpuEntries map[string]map[string]string

// cpuData is the state as text. The kubelet has more in it for features that are off by
// default; without them it leaves that out, too.
type cpuData struct {
	PolicyName    string     `json:"policyName"`
	DefaultCPUSet string     `json:"defaultCpuSet"`
	Entries       cpuEntries `json:"entries,omitempty"`
}

// cpuDocument is the file.
type cpuDocument struct {
	cpuData
	envelope
}

// readCPUState reads the file; nil if there is none.
func readCPUState(path string, p Policy) (*cpuState, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing is known
	}
	raw, err := readFile(path)
	if err != nil || raw == nil {
		return nil, err
	}
	st, policy, err := parseCPUState(raw)
	if err == nil {
		err = checkPolicy(policy, p.String())
	}
	if err != nil {
		return nil, useless(path, err)
	}
	return st, nil
}

func writeCPUState(path string, p Policy, st *cpuState) error {
	raw, err := formatCPUState(p.String(), st)
	if err != nil {
		return err
	}
	return writeFile(path, raw)
}

// parseCPUState reads a file of any version, and the policy that it was written under.
func parseCPUState(raw []byte) (*cpuState, string, error) {
	var d cpuDocument
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, "", err
	}
	data := d.cpuData
	if d.isOld() {
		if err := d.checkOld(data.legacy("CPUManagerCheckpoint", ""), data.legacy("CPUManagerCheckpointV2", ""),
			data.legacy("CPUManagerCheckpoint", emptyPods), data.legacy("CPUManagerCheckpointV3", emptyPods)); err != nil {
			return nil, "", err
		}
	} else {
		data = cpuData{}
		if err := d.open(&data); err != nil {
			return nil, "", err
		}
	}
	st, err := data.state()
	return st, data.PolicyName, err
}

func formatCPUState(policy string, st *cpuState) ([]byte, error) {
	d := cpuDocument{cpuData: cpuData{PolicyName: policy, DefaultCPUSet: st.shared.String(), Entries: cpuEntries{}}}
	for uid, containers := range st.exclusive {
		own := map[string]string{}
		for name, cpus := range containers {
			own[name] = cpus.String()
		}
		d.Entries[string(uid)] = own
	}
	if err := d.seal(d.cpuData, d.legacy("CPUManagerCheckpoint", "")); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

func (d *cpuData) state() (*cpuState, error) {
	st := &cpuState{exclusive: map[types.UID]map[string]CPUSet{}}
	var err error
	if st.shared, err = ParseCPUSet(d.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("defaultCpuSet: %w", err)
	}
	for uid, containers := range d.Entries {
		own := make(map[string]CPUSet, len(containers))
		for name, list := range containers {
			if own[name], err = ParseCPUSet(list); err != nil {
				return nil, fmt.Errorf("container %s of pod %s: %w", name, uid, err)
			}
		}
		if len(own) > 0 {
			st.exclusive[types.UID(uid)] = own
		}
	}
	return st, nil
}

// emptyPods is the field that version 3 has beside those of version 2.
const emptyPods = "PodEntries:(state.PodCPUAssignments)map[] "

// legacy prints the fields of an earlier version as the kubelet does for their checksum.
func (d *cpuData) legacy(kind, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(*state.%s){PolicyName:(string)%s DefaultCPUSet:(string)%s Entries:(map[string]map[string]string)map[", kind, d.PolicyName, d.DefaultCPUSet)
	for i, uid := range slices.Sorted(maps.Keys(d.Entries)) {
		fmt.Fprintf(&b, "%s%s:map[", blank(i), uid)
		for j, name := range slices.Sorted(maps.Keys(d.Entries[uid])) {
			fmt.Fprintf(&b, "%s%s:%s", blank(j), name, d.Entries[uid][name])
		}
		b.WriteString("]")
	}
	fmt.Fprintf(&b, "] %sChecksum:(checksum.Checksum)0}", more)
	return b.String()
}

// blank separates all but the first item.
func blank(i int) string {
	if i == 0 {
		return ""
	}
	return " "
}
