package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

// node is a node whose configuration has the defaults, and whose files are in a directory of
// the test.
func node(t *testing.T, edit func(n *Node)) *Node {
	t.Helper()
	dir := t.TempDir()
	k := &kubeletconfig.KubeletConfiguration{ContainerRuntimeEndpoint: "unix://" + filepath.Join(dir, "cri.sock")}
	config.SetDefaults(k)
	n := Node{
		Kubelet: k, Name: "node-a", Root: filepath.Join(dir, "kubelet"), CNI: CNI{ConfDir: filepath.Join(dir, "net.d"), BinDirs: []string{filepath.Join(dir, "bin")}},
		Timeout: time.Minute,
	}
	if edit != nil {
		edit(&n)
	}
	return n.withDefaults()
}

// write writes a file below a directory, and returns its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// look runs one check.
func look(t *testing.T, n *Node, name string) []Finding {
	t.Helper()
	for _, c := range checks() {
		if c.name == name {
			return n.run(t.Context(), c)
		}
	}
	t.Fatalf("there is no check %q", name)
	return nil
}

// want says that a check finds one thing of a status, and that its message has some words.
// Each problem has an advice.
func want(t *testing.T, found []Finding, status Status, words ...string) {
	t.Helper()
	if len(found) != 1 || found[0].Status != status {
		t.Fatalf("found %+v, want one %s", found, status)
	}
	for _, w := range words {
		if !strings.Contains(found[0].Message, w) {
			t.Errorf("message is %q, want %q in it", found[0].Message, w)
		}
	}
	if (found[0].Advice != "") != (status == Problem) {
		t.Errorf("advice is %q with status %s", found[0].Advice, status)
	}
}

// TestExamineTellsOfEveryCheck: on a machine without anything each check has its say, in
// order.
func TestExamineTellsOfEveryCheck(t *testing.T) {
	n := node(t, nil)
	findings := Examine(t.Context(), *n)
	var order []string
	for _, f := range findings {
		if len(order) == 0 || order[len(order)-1] != f.Check {
			order = append(order, f.Check)
		}
		if f.Message == "" || (f.Advice != "") != (f.Status == Problem) {
			t.Errorf("the finding %+v is no help", f)
		}
	}
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	if diff := cmp.Diff(names, order); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if Problems(findings) == 0 {
		t.Error("there is no problem on a machine without a runtime")
	}
}

// TestACheckThatHangs delays no other, and is a problem itself.
func TestACheckThatHangs(t *testing.T) {
	release := make(chan struct{})
	gone := make(chan struct{})
	n := node(t, func(n *Node) { n.Timeout = 10 * time.Millisecond })
	found := n.examine(t.Context(), []check{
		{"hung", func(context.Context, *Node, *report) { defer close(gone); <-release }},
		{"fine", func(_ context.Context, _ *Node, r *report) { r.ok("looked") }},
	})
	close(release)
	<-gone
	if len(found) != 2 || found[0].Status != Problem || !strings.Contains(found[0].Message, "did not end within 10ms") || found[1].Status != OK {
		t.Errorf("found %+v", found)
	}
}

func TestWriteText(t *testing.T) {
	findings := []Finding{
		{Check: "swap", Status: OK, Message: "off"},
		{Check: "API server", Status: Problem, Message: "nobody\nlistens", Advice: "look whether it runs"},
		{Check: "Lease", Status: Skipped, Message: "no kubeconfig"},
	}
	var text bytes.Buffer
	if err := WriteText(&text, findings); err != nil {
		t.Fatal(err)
	}
	want := "ok       swap        off\nproblem  API server  nobody listens → look whether it runs\nskipped  Lease       no kubeconfig\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestWriteJSON(t *testing.T) {
	findings := []Finding{{Check: "swap", Status: OK, Message: "a < b"}, {Check: "Lease", Status: Problem, Message: "old", Advice: "look"}}
	var text bytes.Buffer
	if err := WriteJSON(&text, findings); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "a < b") {
		t.Errorf("the text is not as it was written: %s", &text)
	}
	var got []Finding
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(findings, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	text.Reset()
	if err := WriteJSON(&text, nil); err != nil || strings.TrimSpace(text.String()) != "[]" {
		t.Errorf("nothing is %q, %v; want []", &text, err)
	}
}
