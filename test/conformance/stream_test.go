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

func TestStream(t *testing.T) {
	specs := []string{"[sig-node] Pods should run", "[sig-node] Pods should run twice", "[sig-node] Pods should end"}
	want := []Result{
		{Spec: specs[0], State: Passed, Time: 2300 * time.Millisecond},
		{Spec: specs[1], State: Passed, Time: 12 * time.Second},
	}
	for _, size := range []int{1, 7, len(streamText)} {
		var got []Result
		stream := NewStream(specs, func(r Result) { got = append(got, r) })
		for rest := streamText; rest != ""; {
			n := min(size, len(rest))
			if wrote, err := stream.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in pieces of %d bytes (-want +got):\n%s", size, diff)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(streamText, 5)
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
