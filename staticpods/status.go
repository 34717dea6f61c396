package staticpods

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State is what became of a file.
type State uint8

// The states of a file. The last two belong to the path that is watched, not to
// a file in it.
const (
	// OK: the file's pod is in the set.
	OK State = iota + 1
	// Pending: the file is new and still being written.
	Pending
	// Invalid: the file holds no pod that could run, as one that refers to an object that
	// no manifest holds, or a broken object. What it once held stays in the set.
	Invalid
	// Duplicate: a file that sorts before this one has the pod's name or UID, or the
	// names of all objects of a file without a pod.
	Duplicate
	// Ignored: the name or the kind of the file keeps it from being a manifest.
	Ignored
	// Missing: the path does not exist, so that the set is empty.
	Missing
	// Unreadable: the path cannot be read; the last set stays in force.
	Unreadable
)

// String returns the word for a status page: "ok", "invalid" and so on.
func (s State) String() string {
	switch s {
	case OK:
		return "ok"
	case Pending:
		return "pending"
	case Invalid:
		return "invalid"
	case Duplicate:
		return "duplicate"
	case Ignored:
		return "ignored"
	case Missing:
		return "missing"
	case Unreadable:
		return "unreadable"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MarshalText returns the same as String, for JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// FileStatus says what became of one file.
type FileStatus struct {
	Path  string `json:"path"`
	State State  `json:"state"`
	// Pod is the full name, "namespace/name", of the pod that the file contributes
	// to the set, and UID its UID; both are empty when it contributes none.
	Pod string    `json:"pod,omitempty"`
	UID types.UID `json:"uid,omitempty"`
	// Objects are the ConfigMaps and Secrets that the file contributes, as "Secret
	// namespace/name".
	Objects []string `json:"objects,omitempty"`
	// Kept is true when what the file contributes comes from an earlier version of it,
	// or was possible before: it has become Invalid since.
	Kept bool `json:"kept,omitempty"`
	// Reason explains every state but OK, in one sentence.
	Reason string `json:"reason,omitempty"`
	// Line is the line of the first problem; 0 when none has one.
	Line int `json:"line,omitempty"`
	// Problems are all problems of an Invalid file, Warnings what a file holds in
	// vain; both in the order of lines.
	Problems []Problem `json:"problems,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
	// Since is when the file came into this state for this reason.
	Since time.Time `json:"since"`
}

// same reports whether two statuses differ in time at most.
func (s FileStatus) same(o FileStatus) bool {
	return s.Path == o.Path && s.State == o.State && s.Pod == o.Pod && s.UID == o.UID && s.Kept == o.Kept &&
		slices.Equal(s.Objects, o.Objects) && s.Reason == o.Reason && slices.Equal(s.Problems, o.Problems) && slices.Equal(s.Warnings, o.Warnings)
}
