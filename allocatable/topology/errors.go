package topology

import (
	"errors"
	"fmt"
)

// Why a pod is refused: status.reason of a kubelet's pods.
const (
	ReasonAffinity   = "TopologyAffinityError"
	ReasonSMT        = "SMTAlignmentError"
	ReasonUnexpected = "UnexpectedAdmissionError"
)

// AffinityError says that no nodes suit what a pod asks for.
type AffinityError struct {
	// Container is the name of the one that could not be placed; empty: the pod as a
	// whole.
	Container string
	// Hints are those of each provider, Best is what they come to.
	Hints []Hints
	Best  Hint
}

// Error returns the kubelet's text, which names no details; see Explain.
func (e *AffinityError) Error() string { return "Resources cannot be allocated with Topology locality" }

// Reason returns [ReasonAffinity].
func (e *AffinityError) Reason() string { return ReasonAffinity }

// Explain says which resource could have come from which nodes.
func (e *AffinityError) Explain() string {
	who := "the pod"
	if e.Container != "" {
		who = "container " + e.Container
	}
	return fmt.Sprintf("%s: best nodes are %s, of the hints %v", who, e.Best, e.Hints)
}

// SMTError says that whole cores cannot be given to a container.
type SMTError struct {
	// Requested is how many CPUs the container asks for, PerCore how many a core has.
	Requested, PerCore int
	// Available is how many CPUs of whole cores are free; negative: it is Requested that
	// does not come to whole cores.
	Available int
}

// Error returns the kubelet's text.
func (e *SMTError) Error() string {
	if e.Available >= 0 {
		return fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d",
			e.Available, e.Requested, e.PerCore)
	}
	return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.Requested, e.PerCore)
}

// Reason returns [ReasonSMT].
func (e *SMTError) Reason() string { return ReasonSMT }

// Reason returns what a pod that was refused with this error shows: the reason of the first
// error in the chain that has one, as the method Reason() string, with its text; else
// [ReasonUnexpected].
func Reason(err error) (reason, message string) {
	type reasoned interface {
		error
		Reason() string
	}
	if known, ok := errors.AsType[reasoned](err); ok {
		return known.Reason(), known.Error()
	}
	return ReasonUnexpected, fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)
}
