package allocatable

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ShortageError says that a configuration keeps more of a resource from pods than the
// node has.
type ShortageError struct {
	Resource corev1.ResourceName
	Capacity resource.Quantity
	// Terms are what is reserved of the resource and what hard eviction keeps free. What
	// else is subtracted, such as huge pages, is not among them.
	Terms []Term
}

// Error names the resource, what there is of it, and each term.
func (e *ShortageError) Error() string {
	terms := make([]string, len(e.Terms))
	for i, t := range e.Terms {
		terms[i] = t.String()
	}
	return fmt.Sprintf("%s: the capacity of %s is less than what is kept of it: %s; reserve less",
		e.Resource, e.Capacity.String(), strings.Join(terms, " + "))
}

func invalid(list string, name corev1.ResourceName, format string, args ...any) error {
	return fmt.Errorf("%s: %s: "+format, append([]any{list, name}, args...)...)
}
