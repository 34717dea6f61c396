package staticpods

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// TestFileThatIsPutBackStartsItsPodAnew: as with the kubelet, to remove a manifest and
// put it back restarts its pod, however soon. Other replacements are what they were.
func TestFileThatIsPutBackStartsItsPodAnew(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		anew  bool
		pods  string
		state string
		sets  int
	}{
		{name: "as it was", text: web("a", "1"), anew: true, pods: "default/a-node-a GEN=1", state: "a.yaml ok", sets: 2},
		{name: "reworded", text: "# a comment\n" + web("a", "1"), anew: true, pods: "default/a-node-a GEN=1", state: "a.yaml ok", sets: 2},
		{name: "edited", text: web("a", "2"), pods: "default/a-node-a GEN=2", state: "a.yaml ok", sets: 2},
		{name: "broken", text: "kind: Pod\n", pods: "default/a-node-a GEN=1", state: "a.yaml invalid kept", sets: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{}, func(b *bench) {
					b.write("a.yaml", web("a", "1"))
					b.write("b.yaml", web("b", "1"))
				})
				b.after(time.Minute)
				var want []types.UID
				if tt.anew {
					want = []types.UID{b.delivered()[0].Pods[0].UID}
				}
				b.putBack("a.yaml", tt.text)
				b.after(time.Minute)
				b.wantPods(tt.pods, "default/b-node-a GEN=1")
				b.wantStates(tt.state, "b.yaml ok")
				sets := b.delivered()
				if len(sets) != tt.sets {
					t.Errorf("%d sets were delivered, want %d", len(sets), tt.sets)
				}
				if diff := cmp.Diff(want, sets[len(sets)-1].PutBack); diff != "" {
					t.Errorf("put back (-want +got):\n%s", diff)
				}
				b.write("c.yaml", web("c", "1"))
				b.after(time.Minute)
				if last := b.delivered()[len(sets)]; len(last.PutBack) > 0 {
					t.Errorf("the next set names %q again", last.PutBack)
				}
			})
		})
	}
}

// TestWatcherTellsWhatWasPutBack with the events of the kernel.
func TestWatcherTellsWhatWasPutBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write("removed.yaml", "")
	write("moved.yaml", "")
	write("replaced.yaml", "")
	w, err := newInotify(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	dev, ino := inode(info)
	if _, err := w.Follow(dev, ino); err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{
		os.Remove(filepath.Join(dir, "removed.yaml")),
		os.Rename(filepath.Join(dir, "moved.yaml"), filepath.Join(dir, ".moved")),
		os.Rename(filepath.Join(dir, ".moved"), filepath.Join(dir, "moved.yaml")),
		os.WriteFile(filepath.Join(dir, ".new"), nil, 0o600),
		os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "replaced.yaml")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	write("removed.yaml", "")
	var got []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for _, name := range w.Removed() {
			if name = filepath.Base(name); !strings.HasPrefix(name, ".") && !slices.Contains(got, name) {
				got = append(got, name)
			}
		}
		if len(got) >= 2 {
			break
		}
		select {
		case <-w.Wake():
		case <-time.After(100 * time.Millisecond):
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"moved.yaml", "removed.yaml"}) {
		t.Errorf("removed were %q", got)
	}
}
