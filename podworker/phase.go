package podworker

// Phase is where a pod stands in its life. Phases are ordered: a later one
// compares greater.
type Phase uint8

// The phases of a pod. The diagram in the package documentation shows how they
// follow each other.
const (
	// Unknown is the phase of a pod the Pool has not heard of, or has forgotten.
	Unknown Phase = iota
	// Waiting pods are static pods whose full name still belongs to a
	// predecessor. Nothing of them was started.
	Waiting
	// Syncing pods are kept running as their spec asks.
	Syncing
	// Terminating pods are being stopped; their containers may still run.
	Terminating
	// Terminated pods have no running container; the rest is being cleaned up.
	Terminated
	// Finished pods have left nothing behind but this memory, which keeps them
	// from being started again while their source still names them.
	Finished
)

// phases lists every phase in order.
func phases() []Phase {
	return []Phase{Unknown, Waiting, Syncing, Terminating, Terminated, Finished}
}

// String returns the name of the constant.
func (p Phase) String() string {
	switch p {
	case Unknown:
		return "Unknown"
	case Waiting:
		return "Waiting"
	case Syncing:
		return "Syncing"
	case Terminating:
		return "Terminating"
	case Terminated:
		return "Terminated"
	case Finished:
		return "Finished"
	}
	return "invalid phase"
}

// legal is the one place that says which phase may follow which.
func legal(from, to Phase) bool {
	switch to {
	case Unknown:
		return from == Finished
	case Waiting:
		return from == Unknown || from == Finished
	case Syncing:
		return from == Waiting
	case Terminating:
		return from == Unknown || from == Waiting || from == Syncing
	case Terminated:
		return from == Terminating
	case Finished:
		return from == Terminated
	}
	return false
}

// holdsName reports whether a pod in phase p keeps other pods of its full name
// from starting.
func (p Phase) holdsName() bool {
	return p == Syncing || p == Terminating || p == Terminated
}

// calls reports whether a pod in phase p has a method of the Syncer to be called.
func (p Phase) calls() bool {
	return p == Syncing || p == Terminating || p == Terminated
}
