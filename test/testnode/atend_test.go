package testnode

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommandsAtTheEnd ends a node itself, and one whose program is gone, by the lock it
// held.
func TestCommandsAtTheEnd(t *testing.T) {
	if err := Prepare(t.Context()); err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		name string
		end  func(context.Context, *Node) error
	}{
		{"stopped", func(ctx context.Context, n *Node) error { return n.Stop(ctx) }},
		{"left by a killed program", func(ctx context.Context, n *Node) error {
			if err := n.lock.Close(); err != nil {
				return err
			}
			_, err := Clean(ctx, KeptStay, n.Name())
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, err := Start(t.Context(), Config{Name: "end", Logs: t.TempDir(), Bare: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := os.Stat(n.Dir()); err == nil {
					t.Error(n.Stop(context.WithoutCancel(t.Context())))
				}
			})
			file := filepath.Join(t.TempDir(), "said")
			const say = `echo "$1" >>"$2"; ip -o link show up | grep -c ': lo:' >>"$2"`
			for _, word := range []string{"first", "second", "first"} {
				if err := n.AtEnd("sh", "-c", say, "say", word, file); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.end(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("second\n1\nfirst\n1\n", string(got)); diff != "" {
				t.Errorf("what the commands said (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsTakenBackWithoutNamespaces(t *testing.T) {
	n := &Node{lay: layout{name: "gone", dir: t.TempDir()}}
	file := filepath.Join(t.TempDir(), "ran")
	if err := n.AtEnd("touch", file); err != nil {
		t.Fatal(err)
	}
	if err := n.lay.runAtEnd(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran outside the node's namespaces")
	}
}
