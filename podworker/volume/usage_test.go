//go:build linux

package volume_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestUsageOfTheVolumesThatCanBeMeasured: a file is where the directory of a volume has to
// be, between two that are whole.
func TestUsageOfTheVolumesThatCanBeMeasured(t *testing.T) {
	dir := t.TempDir()
	m, err := volume.New(volume.Config{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	plugin := dir + "/pods/1/volumes/kubernetes.io~empty-dir/"
	for _, name := range []string{"a", "c"} {
		if err := os.MkdirAll(plugin+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(plugin+"b", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := m.Usage(t.Context(), "1")
	contains(t, err, "measure volume b: ")
	var got []string
	for _, u := range list {
		got = append(got, u.Volume)
	}
	if diff := cmp.Diff([]string{"a", "c"}, got); diff != "" {
		t.Errorf("volumes measured (-want +got):\n%s", diff)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := m.Usage(ended, "1"); list != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v (%v)", list, err)
	}
}
