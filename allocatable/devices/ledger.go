package devices

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// owner is a container that has devices of a resource.
type owner struct {
	pod       types.UID
	container string
	resource  string
}

// share is what an owner has.
type share struct {
	// places has the IDs by NUMA node.
	places map[int64][]string
	// answer is how the container gets at them; nil: the plugin has not answered yet,
	// and the devices are only kept.
	answer *deviceapi.ContainerAllocateResponse
	// admitted is true once the container could have them in this process: it is not
	// refused later on.
	admitted bool
	// nodes are those to which the devices should be close, as long as there is no answer.
	nodes topology.Nodes
}

// ids returns the devices of a share, in order.
func (s *share) ids() []string {
	var out []string
	for _, list := range s.places {
		out = append(out, list...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ledger says who has what. It is plain data; the Manager guards it.
type ledger struct {
	shares map[types.UID]map[string]map[string]*share // by pod, container, resource
	// taken counts the owners of each device by its resource: init containers share with
	// those after them.
	taken map[string]map[string]int
}

func newLedger() *ledger {
	return &ledger{shares: map[types.UID]map[string]map[string]*share{}, taken: map[string]map[string]int{}}
}

// get returns nil if the container has none.
func (l *ledger) get(o owner) *share { return l.shares[o.pod][o.container][o.resource] }

// put notes what an owner has from now on.
func (l *ledger) put(o owner, s *share) {
	l.drop(o)
	if l.shares[o.pod] == nil {
		l.shares[o.pod] = map[string]map[string]*share{}
	}
	if l.shares[o.pod][o.container] == nil {
		l.shares[o.pod][o.container] = map[string]*share{}
	}
	l.shares[o.pod][o.container][o.resource] = s
	if l.taken[o.resource] == nil {
		l.taken[o.resource] = map[string]int{}
	}
	for _, id := range s.ids() {
		l.taken[o.resource][id]++
	}
}

// drop takes back what an owner has.
func (l *ledger) drop(o owner) {
	s := l.get(o)
	if s == nil {
		return
	}
	for _, id := range s.ids() {
		if l.taken[o.resource][id]--; l.taken[o.resource][id] == 0 {
			delete(l.taken[o.resource], id)
		}
	}
	delete(l.shares[o.pod][o.container], o.resource)
	if len(l.shares[o.pod][o.container]) == 0 {
		delete(l.shares[o.pod], o.container)
	}
	if len(l.shares[o.pod]) == 0 {
		delete(l.shares, o.pod)
	}
	if len(l.taken[o.resource]) == 0 {
		delete(l.taken, o.resource)
	}
}

// release takes back what a pod has, and reports whether it was more than kept for it.
func (l *ledger) release(pod types.UID) bool {
	given := false
	for container, resources := range l.shares[pod] {
		for resource, s := range maps.Clone(resources) {
			given = given || s.answer != nil
			l.drop(owner{pod, container, resource})
		}
	}
	return given
}

// all yields every share, in no order.
func (l *ledger) all() iter.Seq2[owner, *share] {
	return func(yield func(owner, *share) bool) {
		for pod, containers := range l.shares {
			for container, resources := range containers {
				for resource, s := range resources {
					if !yield(owner{pod, container, resource}, s) {
						return
					}
				}
			}
		}
	}
}

// holders returns the pods that have devices of a resource, in order.
func (l *ledger) holders(resource string, counts func(id string) bool) []types.UID {
	var pods []types.UID
	for o, s := range l.all() {
		if o.resource == resource && slices.ContainsFunc(s.ids(), counts) {
			pods = append(pods, o.pod)
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}
