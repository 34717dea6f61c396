package proxier_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/proxier"
)

var update = flag.Bool("update", false, "rewrite the wanted output in testdata; review the difference")

// TestTrackerScenarios plays testdata/tracker/*.txtar, seen from node-a in zone a.
// The parts of a file are steps; the first word of a part's name says which:
//
//	set     objects to set, YAML documents
//	delete  lines "Service ns/name" or "EndpointSlice ns/name"
//	zone    the zone of the node from now on
//	want    the delta since the last want, and the problems reported meanwhile
func TestTrackerScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/tracker/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func play(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	var reported strings.Builder
	tr := proxier.NewTracker(proxier.TrackerConfig{
		Node:   proxier.Node{Name: "node-a", Zone: "a"},
		Report: func(p proxier.Problem) { fmt.Fprintf(&reported, "! %s\n", p) },
	})
	for i, part := range archive.Files {
		verb, _, _ := strings.Cut(part.Name, " ")
		data := strings.TrimSpace(string(part.Data))
		switch verb {
		case "set":
			for doc := range strings.SplitSeq(data, "\n---\n") {
				set(t, tr, doc)
			}
		case "delete":
			for line := range strings.SplitSeq(data, "\n") {
				remove(t, tr, line)
			}
		case "zone":
			tr.SetZone(data)
		case "want":
			got := tr.Delta().String() + reported.String()
			reported.Reset()
			if diff := cmp.Diff(string(part.Data), got); diff != "" && !*update {
				t.Errorf("part %d, %q (-want +got):\n%s", i+1, part.Name, diff)
			}
			archive.Files[i].Data = []byte(got)
		default:
			t.Fatalf("part %d: unknown step %q", i+1, part.Name)
		}
	}
}

func set(t *testing.T, tr *proxier.Tracker, doc string) {
	t.Helper()
	svc, es := &corev1.Service{}, &discoveryv1.EndpointSlice{}
	if strings.Contains(doc, "kind: Service\n") {
		if err := yaml.UnmarshalStrict([]byte(doc), svc); err != nil {
			t.Fatal(err)
		}
		tr.SetService(svc)
		return
	}
	if err := yaml.UnmarshalStrict([]byte(doc), es); err != nil {
		t.Fatal(err)
	}
	tr.SetEndpointSlice(es)
}

func remove(t *testing.T, tr *proxier.Tracker, line string) {
	t.Helper()
	kind, full, _ := strings.Cut(line, " ")
	namespace, name, ok := strings.Cut(full, "/")
	if !ok {
		t.Fatalf("cannot delete %q", line)
	}
	n := types.NamespacedName{Namespace: namespace, Name: name}
	if kind == "Service" {
		tr.DeleteService(n)
		return
	}
	tr.DeleteEndpointSlice(n)
}
