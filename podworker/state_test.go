package podworker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers are the methods of State.
type answers struct {
	Requested, MayRun, ShouldStop, RemoveRuntime, RemoveContent, Done bool
}

// TestStateAnswers asks every method in every phase.
func TestStateAnswers(t *testing.T) {
	tests := []struct {
		name  string
		state State
		want  answers
	}{
		{name: "unknown before the sources were heard", want: answers{MayRun: true}},
		{
			name:  "unknown",
			state: State{sourcesSeen: true},
			want:  answers{ShouldStop: true, RemoveRuntime: true, RemoveContent: true, Done: true},
		},
		{name: "waiting", state: State{Phase: Waiting}, want: answers{MayRun: true}},
		{name: "syncing", state: State{Phase: Syncing}, want: answers{MayRun: true}},
		{
			name:  "terminating",
			state: State{Phase: Terminating, Deleted: true},
			want:  answers{Requested: true, MayRun: true, ShouldStop: true},
		},
		{
			name:  "terminated by itself",
			state: State{Phase: Terminated},
			want:  answers{Requested: true, ShouldStop: true, RemoveRuntime: true},
		},
		{
			name:  "terminated and deleted",
			state: State{Phase: Terminated, Deleted: true},
			want:  answers{Requested: true, ShouldStop: true, RemoveRuntime: true, RemoveContent: true},
		},
		{
			name:  "terminated and evicted",
			state: State{Phase: Terminated, Termination: Termination{Evicted: true}},
			want:  answers{Requested: true, ShouldStop: true, RemoveRuntime: true, RemoveContent: true},
		},
		{
			name:  "finished",
			state: State{Phase: Finished},
			want:  answers{Requested: true, ShouldStop: true, RemoveRuntime: true, Done: true},
		},
		{
			name:  "finished but put back",
			state: State{Phase: Finished, Restart: true},
			want:  answers{Requested: true, ShouldStop: true, RemoveRuntime: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.state
			got := answers{
				s.TerminationRequested(), s.MayRunContainers(), s.ShouldStopContainers(),
				s.MayRemoveRuntime(), s.MayRemoveContent(), s.Done(),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answers differ (-want +got):\n%s", diff)
			}
		})
	}
}
