package proxier_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestTrackerReadsHowToBalance(t *testing.T) {
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		want        proxier.Balance
		problem     string
	}{
		{name: "nothing"},
		{name: "a scheduler", annotations: map[string]string{proxier.AnnotationScheduler: "lc"}, want: proxier.Balance{Scheduler: "lc"}},
		{
			name:        "weights",
			annotations: map[string]string{proxier.AnnotationWeights: "local=100, other=3"},
			want:        proxier.Balance{LocalWeight: 100, OtherWeight: 3},
		},
		{name: "one weight", annotations: map[string]string{proxier.AnnotationWeights: "local=2"}, want: proxier.Balance{LocalWeight: 2}},
		{name: "no name", annotations: map[string]string{proxier.AnnotationScheduler: "round robin"}, problem: "not the name of a scheduler"},
		{name: "empty", annotations: map[string]string{proxier.AnnotationScheduler: ""}, problem: "not the name of a scheduler"},
		{name: "weight 0", annotations: map[string]string{proxier.AnnotationWeights: "local=0"}, problem: "not in 1..65535"},
		{name: "weight of whom", annotations: map[string]string{proxier.AnnotationWeights: "far=1"}, problem: "neither local=N nor other=N"},
		{name: "no weight", annotations: map[string]string{proxier.AnnotationWeights: ""}, problem: "not in 1..65535"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said []string
			tr := proxier.NewTracker(proxier.TrackerConfig{Report: func(p proxier.Problem) { said = append(said, p.String()) }})
			svc := clusterService(1)
			tr.SetService(svc)
			tr.Delta()
			svc = svc.DeepCopy()
			svc.Annotations = tt.annotations
			changed := tr.SetService(svc)
			if changed != (tt.want != proxier.Balance{}) {
				t.Errorf("SetService = %v for %v", changed, tt.want)
			}
			got := tr.State().Ports[0].Balance
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("balance (-want +got):\n%s", diff)
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, tt.problem) || tt.problem == "" && all != "" {
				t.Errorf("reported %q, want %q", all, tt.problem)
			}
		})
	}
}

func TestBalanceWeighsEndpoints(t *testing.T) {
	here, there := proxier.Endpoint{Local: true}, proxier.Endpoint{}
	for _, tt := range []struct {
		balance     proxier.Balance
		here, there uint16
		text        string
	}{
		{proxier.Balance{}, 1, 1, ""},
		{proxier.Balance{Scheduler: "fo", LocalWeight: 9}, 9, 1, "fo local=9,other=1"},
		{proxier.Balance{OtherWeight: 3}, 1, 3, "local=1,other=3"},
	} {
		if got := tt.balance.Weight(here); got != tt.here {
			t.Errorf("%v: weight here = %d, want %d", tt.balance, got, tt.here)
		}
		if got := tt.balance.Weight(there); got != tt.there {
			t.Errorf("%v: weight elsewhere = %d, want %d", tt.balance, got, tt.there)
		}
		if got := tt.balance.String(); got != tt.text {
			t.Errorf("String() = %q, want %q", got, tt.text)
		}
	}
}
