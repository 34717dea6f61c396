package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const streamText = `Running in parallel across 6 processes
------------------------------
• [2.302 seconds]
[sig-node] Pods should run [sig-node, Conformance]
k8s.io/kubernetes@v1.37.2/test/e2e/common/node/pods.go:1

  Timeline >>
  • [1.000 seconds]
  [sig-node] Pods should end
  << Timeline
------------------------------
------------------------------
• [FAILED] [60.001 seconds]
[sig-node] Pods [It] should end [sig-node]
k8s.io/kubernetes@v1.37.2/test/e2e/common/node/pods.go:2
------------------------------
SS•S• [12.000 seconds]
[sig-node] Pods should run twice
k8s.io/kubernetes@v1.37.2/test/e2e/common/node/pods.go:3
------------------------------
• [1.000 seconds]
[sig-node] Pods should run elsewhere
• [1.000 seconds]
`

// serialText is how one process tells of its specs.
const serialText = `------------------------------
[sig-node] Pods should run [Serial] [sig-node, Serial]
k8s.io/kubernetes@v1.37.2/test/e2e_node/pods.go:1
  STEP: Creating a pod @ 11/30/26 17:53:10.884
• [9.257 seconds]
------------------------------
[sig-node] Pods should end [Serial] [sig-node, Serial]
k8s.io/kubernetes@v1.37.2/test/e2e_node/pods.go:2
• [FAILED] [218.562 seconds]
[sig-node] Pods [It] should end [Serial] [sig-node, Serial]
------------------------------
• [1.000 seconds]
------------------------------
[sig-node] Pods should skip [Serial] [sig-node, Serial]
S [SKIPPED] [0.100 seconds]
------------------------------
[sig-node] Pods should run twice [Serial] [sig-node, Serial]
• [7.242 seconds]
------------------------------
`

func TestStream(t *testing.T) {
	const run, twice, end, skip = "[sig-node] Pods should run", "[sig-node] Pods should run twice", "[sig-node] Pods should end", "[sig-node] Pods should skip"
	passed := func(spec string, took time.Duration) Result { return Result{Spec: spec, State: Passed, Time: took} }
	for _, test := range []struct {
		name, text string
		want       []Result
	}{
		{"of several processes", streamText, []Result{passed(run, 2300*time.Millisecond), passed(twice, 12*time.Second)}},
		{"of one process", serialText, []Result{passed(run, 9300*time.Millisecond), passed(twice, 7200*time.Millisecond)}},
		{"of one after several", streamText + serialText, []Result{
			passed(run, 2300*time.Millisecond), passed(twice, 12*time.Second), passed(run, 9300*time.Millisecond), passed(twice, 7200*time.Millisecond),
		}},
	} {
		for _, size := range []int{1, 7, len(test.text)} {
			var got []Result
			stream := NewStream([]string{run, twice, end, skip}, func(r Result) { got = append(got, r) })
			for rest := test.text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := stream.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatalf("Write = %d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s, in pieces of %d bytes (-want +got):\n%s", test.name, size, diff)
			}
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(streamText, 5)
	f.Add("spec two [Serial]\n• [1.0 seconds]\n"+delimiter+"\n", 3)
	f.Add("• [1.0 seconds]\n"+strings.Repeat("x", 2*lineLimit)+"\nspec\n", 100)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(1, size%1000)
		var whole, pieces []Result
		if _, err := NewStream([]string{"spec", "spec two"}, func(r Result) { whole = append(whole, r) }).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		stream := NewStream([]string{"spec", "spec two"}, func(r Result) { pieces = append(pieces, r) })
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := stream.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("at once and in pieces (-whole +pieces):\n%s", diff)
		}
	})
}
