package devices

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckpointOfAKubelet reads a file that kubelet 1.37.2 has written, and writes the
// same one.
func TestCheckpointOfAKubelet(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", CheckpointFile))
	if err != nil {
		t.Fatal(err)
	}
	data, err := parseCheckpoint(raw)
	if err != nil {
		t.Fatal(err)
	}
	book := newLedger()
	if err := book.restore(data.PodDeviceEntries); err != nil {
		t.Fatal(err)
	}
	app := book.get(owner{"6c2bd8f5-1b6a-4c0e-9d1e-5a7a3f0c1d2e", "app", gpu})
	if app == nil {
		t.Fatal("container app has no devices")
	}
	if diff := cmp.Diff([]Device{{ID: "gpu-0", Nodes: []int{0}}, {ID: "gpu-1", Nodes: []int{1}}}, devicesOf(app.places)); diff != "" {
		t.Errorf("devices of app (-want +got):\n%s", diff)
	}
	if got := app.answer.GetEnvs()["GPU"]; got != "0,1" {
		t.Errorf("variable GPU is %q, want 0,1", got)
	}
	if diff := cmp.Diff([]string{"nic-1", "nic-3"}, book.get(owner{"0f9e8d7c-0000-4c0e-9d1e-5a7a3f0c1d2e", "init", nic}).ids()); diff != "" {
		t.Errorf("devices of init (-want +got):\n%s", diff)
	}
	again, err := data.format()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(raw), string(again)); diff != "" {
		t.Errorf("the file written again (-want +got):\n%s", diff)
	}
}

func TestChecksum(t *testing.T) {
	for _, tt := range []struct {
		name    string
		raw     string
		wantErr error
	}{
		{"without entries, as a kubelet writes it", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}`, nil},
		{"another sum", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`, errChecksum},
		{"an empty list is not null", `{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":3467439661}`, errChecksum},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseCheckpoint([]byte(tt.raw)); !errors.Is(err, tt.wantErr) {
				t.Errorf("error is %v, want %v", err, tt.wantErr)
			}
		})
	}
}

// FuzzCheckpoint has any bytes be read without harm, and what can be read be written so
// that it reads the same.
func FuzzCheckpoint(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join("testdata", CheckpointFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":{"-1":null},"AllocResp":"/w=="}]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		data, err := parseCheckpoint(raw)
		if err != nil && !errors.Is(err, errChecksum) {
			return
		}
		book := newLedger()
		_ = book.restore(data.PodDeviceEntries) // what makes no sense is left out
		entries, err := book.entries()
		if err != nil {
			t.Fatal(err)
		}
		for resource, devices := range book.taken {
			for id, n := range devices {
				if n <= 0 {
					t.Errorf("device %s of %s has %d owners", id, resource, n)
				}
			}
		}
		first, err := checkpointData{PodDeviceEntries: entries, RegisteredDevices: data.RegisteredDevices}.format()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCheckpoint(first)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		second, err := again.format()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("written twice it differs: %v\n%s\n%s", err, first, second)
		}
	})
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	f := &diskFile{path: filepath.Join(dir, "plugins", CheckpointFile)}
	if raw, err := f.load(); raw != nil || err != nil {
		t.Errorf("a file that is not there is %q, %v, want nothing", raw, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := f.save([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if raw, err := f.load(); string(raw) != text || err != nil {
			t.Errorf("the file is %q, %v, want %q", raw, err, text)
		}
	}
	f.broken()
	if err := f.save([]byte("three")); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(f.path + ".broken"); string(raw) != "two" || err != nil {
		t.Errorf("the file that could not be read is %q, %v, want it kept", raw, err)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("the file has mode %v, %v, want %o", info.Mode(), err, fileMode)
	}
}

// TestCheckpointThatCannotBeRead is kept when the next one is written.
func TestCheckpointThatCannotBeRead(t *testing.T) {
	file := &memoryFile{raw: []byte("what was there"), err: errors.New("input/output error")}
	cfg, err := Config{Dir: "/plugins"}.validate()
	if err != nil {
		t.Fatal(err)
	}
	m := newWith(cfg, nil, file)
	file.fail(nil)
	m.unsaved = true
	if err := m.save(); err != nil {
		t.Fatal(err)
	}
	if got := string(file.moved); got != "what was there" {
		t.Errorf("kept aside is %q, want the file that could not be read", got)
	}
}

// TestDamagedCheckpoint starts with files that are not as they were written.
func TestDamagedCheckpoint(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", CheckpointFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		raw       []byte
		wantTaken int
		wantMoved bool
	}{
		{"as written", raw, 2, false},
		{"wrong checksum: what it says counts", bytes.Replace(raw, []byte(`"Checksum":1`), []byte(`"Checksum":2`), 1), 2, false},
		{"cut off", raw[:len(raw)/2], 0, true},
		{"empty", []byte{}, 0, true},
		{"an answer that is none", bytes.Replace(raw, []byte(`"AllocResp":"Cg`), []byte(`"AllocResp":"//`), 1), 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := &memoryFile{raw: tt.raw}
			cfg, err := Config{Dir: "/plugins"}.validate()
			if err != nil {
				t.Fatal(err)
			}
			m := newWith(cfg, nil, file)
			if got := len(m.book.taken[gpu]); got != tt.wantTaken {
				t.Errorf("%d GPUs are taken, want %d", got, tt.wantTaken)
			}
			m.unsaved = true
			if err := m.save(); err != nil {
				t.Fatal(err)
			}
			if moved := file.moved != nil; moved != tt.wantMoved {
				t.Errorf("the old file was kept aside: %t, want %t", moved, tt.wantMoved)
			}
			if !json.Valid(file.raw) {
				t.Errorf("what was written is %q", file.raw)
			}
		})
	}
}
