package probes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestTurns(t *testing.T) {
	tests := []struct {
		name string
		// in are the pods of the workers in the order in which they come; an upper-case
		// pod's worker has left before its turn.
		in, want string
	}{
		{"one pod", "aaa", "aaa"},
		{"pods take turns", "aaaabbc", "abcabaa"},
		{"whoever has left is passed over", "aAabB", "aba"},
		{"all have left", "AB", ""},
		{"nobody", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q turns
			for _, c := range tt.in {
				pod := strings.ToLower(string(c))
				w := &worker{entry: &entry{ref: Ref{UID: types.UID(pod)}}, state: queued}
				q.push(w)
				if pod != string(c) {
					w.state = stopped
				}
			}
			var got strings.Builder
			for w := q.pop(); w != nil; w = q.pop() {
				got.WriteString(string(w.entry.ref.UID))
			}
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if len(q.byPod) != 0 || len(q.ring) != 0 {
				t.Errorf("the queue is not empty: %+v", q)
			}
		})
	}
}
