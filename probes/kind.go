package probes

import "fmt"

// Kind says which question a probe answers about its container. The zero value
// is Startup.
type Kind uint8

// The kinds of probe, in the order in which a container needs them.
const (
	// Startup asks whether the container has finished starting. Until it has, the
	// other two kinds do not run; when it fails, the container is restarted.
	Startup Kind = iota
	// Liveness asks whether the container must be restarted.
	Liveness
	// Readiness asks whether the container may get traffic. It never restarts one.
	Readiness
)

// kinds is the number of kinds, for arrays with one place for each.
const kinds = 3

// String returns the word that events and metrics use for the kind: "Startup",
// "Liveness" or "Readiness".
func (k Kind) String() string {
	switch k {
	case Startup:
		return "Startup"
	case Liveness:
		return "Liveness"
	case Readiness:
		return "Readiness"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// initial returns the value of a probe of a container that has just started:
// not ready, but alive, and not known to have started.
func (k Kind) initial() Outcome {
	switch k {
	case Liveness:
		return Success
	case Readiness:
		return Failure
	}
	return Unknown
}
