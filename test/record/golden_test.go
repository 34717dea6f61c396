package record_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/record"
)

// reports counts errors.
type reports struct {
	testing.TB
	n int
}

func (r *reports) Errorf(string, ...any) { r.n++ }

func TestGoldenFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.golden")
	if err := os.WriteFile(file, []byte("# Why.\nold\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := &reports{TB: t}
	record.CheckGolden(r, file, []string{"a", "b"}, false)
	if r.n != 1 {
		t.Errorf("%d complaints about other lines, want 1", r.n)
	}
	record.CheckGolden(t, file, []string{"a", "b"}, true)
	record.CheckGolden(t, file, []string{"a", "b"}, false)
	if err := os.WriteFile(file, []byte("# Why.\na\n? b\n? c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	record.CheckGolden(t, file, []string{"a", "b"}, false)
	record.CheckGolden(t, file, []string{"a", "b"}, true)
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "# Why.\na\n? b\n? c\n" {
		t.Errorf("file = %q, %v", content, err)
	}
}

func TestMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.golden")
	if err := os.WriteFile(file, []byte("# a comment\na\nb\n? c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, record.Missing(file, []string{"a", "d"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if missing := record.Missing(file+".none", nil); missing != nil {
		t.Errorf("of a file that is not there %q is missing", missing)
	}
}
