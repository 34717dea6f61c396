package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
)

// resourceRef returns why a resourceFieldRef is not supported, empty if it is.
func resourceRef(ref corev1.ResourceFieldSelector) string {
	if downward.Supported(ref.Resource) {
		return ""
	}
	return fmt.Sprintf("resource %q is not supported", ref.Resource)
}
