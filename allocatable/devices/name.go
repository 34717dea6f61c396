package devices

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// isExtended reports whether a name is that of an extended resource: it has a domain that
// is not Kubernetes' own
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers).
func isExtended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(domain+"/", corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}
