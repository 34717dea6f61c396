package podworker

import "time"

// State is what the Pool knows of one pod at one moment. The methods answer the
// questions other parts of a node ask; they are right for a pod the Pool does not
// know, too.
type State struct {
	// Phase is Unknown for a pod the Pool does not know.
	Phase Phase
	// Started is true once Sync has been called.
	Started bool
	// Termination is what was asked for, valid from phase Terminating on. Its
	// Grace is the shortest period so far.
	Termination Termination
	// Deleted is true when the pod was deleted in its source or vanished from it.
	Deleted bool
	// Restart is true when the same UID was put back while it was ending: it
	// starts anew once it has finished.
	Restart bool
	// BusySince is when the call to the Syncer that is out now began; zero when
	// none is out.
	BusySince time.Time
	// Err is the error of the last call that returned, nil after a success.
	Err error
	// sourcesSeen is true once Retain has named the whole set of wanted pods.
	sourcesSeen bool
	// birth tells two lives of the same UID apart.
	birth uint64
}

// TerminationRequested reports whether the pod has to end or has ended.
func (s State) TerminationRequested() bool { return s.Phase >= Terminating }

// MayRunContainers reports whether a container of the pod may be running. For an
// unknown pod that is so until the Pool has heard of every wanted pod.
func (s State) MayRunContainers() bool {
	if s.Phase == Unknown {
		return !s.sourcesSeen
	}
	return s.Phase <= Terminating
}

// ShouldStopContainers reports whether a container of the pod found running has
// no business there.
func (s State) ShouldStopContainers() bool {
	if s.Phase == Unknown {
		return s.sourcesSeen
	}
	return s.Phase >= Terminating
}

// MayRemoveRuntime reports whether the dead containers, the mounts and the
// cgroup of the pod may be removed.
func (s State) MayRemoveRuntime() bool {
	if s.Phase == Unknown {
		return s.sourcesSeen
	}
	return s.Phase >= Terminated
}

// MayRemoveContent reports whether the data of the pod on this node may be
// removed.
func (s State) MayRemoveContent() bool {
	if s.Phase == Unknown {
		return s.sourcesSeen
	}
	return s.Phase >= Terminated && (s.Deleted || s.Termination.Evicted)
}

// Done reports whether nothing more will happen to the pod.
func (s State) Done() bool {
	if s.Phase == Unknown {
		return s.sourcesSeen
	}
	return s.Phase == Finished && !s.Restart
}
