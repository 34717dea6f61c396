package podsync

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestWhatAContainerStatusTells of its mounts, and of its end beside its own words.
func TestWhatAContainerStatusTells(t *testing.T) {
	mounts := []*runtimeapi.Mount{{Readonly: true}, {Readonly: true, RecursiveReadOnly: true}}
	if !instanceFrom(&runtimeapi.ContainerStatus{Mounts: mounts}).RecursiveReadOnly || instanceFrom(&runtimeapi.ContainerStatus{Mounts: mounts[:1]}).RecursiveReadOnly {
		t.Error("mounts are recursively read-only where none is, or not where one is")
	}
	for _, tt := range []struct{ runtime, own, want string }{
		{}, {own: "bye", want: "bye"}, {runtime: "killed", want: "killed"}, {runtime: "killed", own: "bye", want: "killed: bye"},
	} {
		if got := lastWords(tt.runtime, tt.own); got != tt.want {
			t.Errorf("message is %q, want %q", got, tt.want)
		}
	}
}
