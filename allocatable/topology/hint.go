package topology

import "fmt"

// Hint is one way to fulfil a request.
type Hint struct {
	// Nodes are those from which it is fulfilled. Empty: it does not matter which.
	Nodes Nodes
	// Preferred says that no way needs fewer nodes, now or on an idle machine.
	Preferred bool
}

// String returns text like "0,1 preferred" or "any".
func (h Hint) String() string {
	if h.Preferred {
		return fmt.Sprint(h.Nodes, " preferred")
	}
	return h.Nodes.String()
}

// Hints are the ways to fulfil a request for several resources, by their names. No entry,
// or one that is nil, says that it does not matter from where the resource comes; an
// empty one that there is no way.
type Hints map[string][]Hint
