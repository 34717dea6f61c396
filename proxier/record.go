package proxier

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// service is one Service and its slices, either of which may be unknown.
type service struct {
	name     types.NamespacedName
	spec     *serviceSpec
	problems []Problem
	slices   []namedSlice // sorted by name
	ports    []*port      // of the spec last computed
	dirty    bool
	respec   bool // spec is newer than ports
}

type namedSlice struct {
	name string
	*endpointSlice
	problems []Problem
}

func (s *service) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.slices, name, func(n namedSlice, name string) int {
		return strings.Compare(n.name, name)
	})
}

// slice returns the slice of a name, the zero value if there is none.
func (s *service) slice(name string) namedSlice {
	if i, ok := s.find(name); ok {
		return s.slices[i]
	}
	return namedSlice{}
}

func (s *service) put(n namedSlice) {
	if i, ok := s.find(n.name); ok {
		s.slices[i] = n
	} else {
		s.slices = slices.Insert(s.slices, i, n)
	}
}
