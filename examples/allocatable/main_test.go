package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

var update = flag.Bool("update", false, "rewrite what is expected in testdata")

// TestRun runs each archive of testdata: its comment is the command line, in which
// DIR is the directory that holds its files.
func TestRun(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("archives %v, %v", paths, err)
	}
	codes := map[int]string{good: "good", refused: "refused", unusable: "unusable"}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			expected := map[string]string{}
			var kept []txtar.File
			for _, f := range a.Files {
				if f.Name == "stdout" || f.Name == "stderr" {
					expected[f.Name] = string(f.Data)
					continue
				}
				kept = append(kept, f)
				write(t, filepath.Join(dir, f.Name), f.Data)
			}
			command, outcome, _ := strings.Cut(strings.TrimSpace(string(a.Comment)), " => ")
			var stdout, stderr bytes.Buffer
			code := run(strings.Fields(strings.ReplaceAll(command, "DIR", dir)), &stdout, &stderr)
			if codes[code] != outcome {
				t.Errorf("%s, want %s", codes[code], outcome)
			}
			got := map[string]string{}
			for name, b := range map[string]*bytes.Buffer{"stdout": &stdout, "stderr": &stderr} {
				if b.Len() > 0 {
					got[name] = strings.ReplaceAll(b.String(), dir, "DIR")
				}
			}
			if *update {
				for _, name := range []string{"stdout", "stderr"} {
					if got[name] != "" {
						kept = append(kept, txtar.File{Name: name, Data: []byte(got[name])})
					}
				}
				a.Files = kept
				write(t, path, txtar.Format(a))
				return
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunOnThisMachine(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-o", "json"}, &stdout, &stderr); code != good {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var got struct{ Capacity, Allocatable map[string]string }
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "pods"} {
		if got.Capacity[name] == "" || got.Allocatable[name] == "" {
			t.Errorf("%s: capacity %q, allocatable %q", name, got.Capacity[name], got.Allocatable[name])
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"extra"},
		{"-o", "yaml"},
		{"--capacity", "cpu"},
		{"--capacity", "=4"},
		{"--capacity", "cpu=x"},
		{"--capacity", "cpu=-1"},
		{"--capacity", "cpu=1,cpu=2"},
		{"--capacity", "cpu=1000000"},
		{"--capacity", "cpu=1", "--root-dir", "/x"},
		{"--bogus"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != unusable || !strings.Contains(stderr.String(), "allocatable: ") || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--help"}, &stdout, &stderr); code != good || !strings.Contains(stderr.String(), "--capacity like") {
		t.Errorf("--help: exit code %d: %s", code, stderr.String())
	}
}
