package pinning

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFilesAreTheKubelets reads the kubelet's files and writes them again with the same
// checksums.
func TestFilesAreTheKubelets(t *testing.T) {
	sums := func(raw []byte) (e envelope) {
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	for i, h := range readStock(t, *stockCPUs) {
		st, policy, err := parseCPUState(h.File)
		if err != nil || policy != "static" {
			t.Fatalf("history %d: policy %q, %v", i, policy, err)
		}
		raw, err := formatCPUState(policy, st)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sums(h.File), sums(raw)); diff != "" {
			t.Fatalf("history %d (-want +got):\n%s", i, diff)
		}
	}
	for i, h := range readStock(t, *stockMemory) {
		st, policy, err := parseMemoryState(h.File)
		if err != nil || policy != "Static" {
			t.Fatalf("history %d: policy %q, %v", i, policy, err)
		}
		raw, err := formatMemoryState(policy, st)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sums(h.File), sums(raw)); diff != "" {
			t.Fatalf("history %d (-want +got):\n%s", i, diff)
		}
	}
}

// withoutText turns a file into one of an earlier version.
func withoutText(tb testing.TB, raw []byte) []byte {
	tb.Helper()
	var d map[string]any
	if err := json.Unmarshal(raw, &d); err != nil {
		tb.Fatal(err)
	}
	delete(d, "data")
	delete(d, "dataChecksum")
	out, err := json.Marshal(d)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestFilesOfEarlierVersions(t *testing.T) {
	c := newCPUs(t, CPUConfig{Reserve: 1}, twoSockets)
	if err := admit(t, c, podOf("u1", "main:4")); err != nil {
		t.Fatal(err)
	}
	raw, err := formatCPUState("static", &c.state)
	if err != nil {
		t.Fatal(err)
	}
	old := withoutText(t, raw)
	st, _, err := parseCPUState(old)
	if err != nil {
		t.Fatal(err)
	}
	if !st.shared.Equal(c.state.shared) || !st.exclusive["u1"]["c0"].Equal(c.Exclusive("u1", "c0")) {
		t.Errorf("state %+v", st)
	}
	if _, _, err := parseCPUState([]byte(strings.Replace(string(old), `"u1"`, `"u2"`, 1))); err == nil {
		t.Error("a changed file is accepted")
	}
	if _, policy, err := parseCPUState([]byte(`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`)); err != nil || policy != "none" {
		t.Errorf("the file of a kubelet 1.30 without pinning: policy %q, %v", policy, err)
	}
}

func TestFilesThatMakeNoSense(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{name: "empty", want: "unexpected end of JSON input"},
		{name: "torn", text: `{"policyName":"static","def`, want: "unexpected end of JSON input"},
		{name: "changed text", text: `{"data":"{\"policyName\":\"static\"}","dataChecksum":1}`, want: "its checksum is 1, want 1132569682"},
		{name: "no list", text: `{"policyName":"static","defaultCpuSet":"0-x","checksum":0}`, want: `defaultCpuSet: list of CPUs "0-x": "x" must be the number of a CPU`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), CPUFile)
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := readCPUState(file, Static)
			if diff := cmp.Diff(useless(file, errText(tt.want)).Error(), errorText(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

type errText string

func (e errText) Error() string { return string(e) }

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"one", "another"} {
		if err := writeFile(filepath.Join(dir, CPUFile), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := readFile(filepath.Join(dir, CPUFile))
	if len(entries) != 1 || string(raw) != "another" || err != nil {
		t.Errorf("%v, %q, %v", entries, raw, err)
	}
}

func FuzzParseCPUState(f *testing.F) {
	raw, err := formatCPUState("static", &cpuState{shared: NewCPUSet(0, 1)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(withoutText(f, raw))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"u1":{"c0":"4-5"}},"checksum":0}`))
	f.Add([]byte(`{"data":"{}","dataChecksum":0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		st, policy, err := parseCPUState(raw)
		if err != nil {
			return
		}
		again, err := formatCPUState(policy, st)
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := parseCPUState(again)
		if err != nil || !back.shared.Equal(st.shared) || len(back.exclusive) != len(st.exclusive) {
			t.Fatalf("%s is read back as %+v, %v", again, back, err)
		}
	})
}

func FuzzParseMemoryState(f *testing.F) {
	st, err := newMemoryState([]MemoryNode{{ID: 0, Memory: 1 << 30}})
	if err != nil {
		f.Fatal(err)
	}
	raw, err := formatMemoryState("Static", &st)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(withoutText(f, raw))
	f.Add([]byte(`{"policyName":"Static","machineState":{"0":null},"checksum":0}`))
	f.Add([]byte(`{"machineState":{"70":{"cells":[0]}},"entries":{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":1}]}},"checksum":0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		st, policy, err := parseMemoryState(raw)
		if err != nil {
			return
		}
		fresh, err := newMemoryState([]MemoryNode{{ID: 0, Memory: 1 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		if fresh.replay(st.given) == nil && st.sameMachine(&fresh) == nil {
			st.releasePod("u")
		}
		if _, err := formatMemoryState(policy, st); err != nil {
			t.Fatal(err)
		}
	})
}
