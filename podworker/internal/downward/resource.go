package downward

import (
	"fmt"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Supported reports whether a resourceFieldRef can name a resource, such as
// "limits.memory".
func Supported(name string) bool {
	kind, rest, _ := strings.Cut(name, ".")
	return (kind == "limits" || kind == "requests") && (hasDefault(corev1.ResourceName(rest)) || IsHugePages(corev1.ResourceName(rest)))
}

// IsHugePages reports whether a resource is huge pages of one size, such as
// hugepages-2Mi.
func IsHugePages(name corev1.ResourceName) bool {
	_, ok := HugePageSize(name)
	return ok
}

// HugePageSize returns the size in bytes of the pages that a resource is.
func HugePageSize(name corev1.ResourceName) (int64, bool) {
	text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	return q.Value(), err == nil
}

// hasDefault reports whether the limit of a resource is what the node can give where
// a container has none.
func hasDefault(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// Resource returns a request or limit of a container, or of the one that ref names, in
// units of the divisor, rounded up. A limit that is not set is that of the pod, or what
// the node can give. A nil container is none: then ref has to name one.
func Resource(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if !Supported(ref.Resource) {
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}
	if c == nil || ref.ContainerName != "" && ref.ContainerName != c.Name {
		if c = container(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	kind, rest, _ := strings.Cut(ref.Resource, ".")
	name := corev1.ResourceName(rest)
	q := c.Resources.Requests[name]
	if kind == "limits" {
		q = c.Resources.Limits[name]
		if q.IsZero() && hasDefault(name) {
			q = defaultLimit(pod, name, allocatable)
		}
	}
	return inUnits(q, ref.Divisor), nil
}

func defaultLimit(pod *corev1.Pod, name corev1.ResourceName, allocatable corev1.ResourceList) resource.Quantity {
	if resourcehelper.IsPodLevelLimitsSet(pod) && resourcehelper.IsSupportedPodLevelResource(name) {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return allocatable[name]
}

// inUnits divides exactly and rounds up. A divisor of zero means one.
func inUnits(q, divisor resource.Quantity) string {
	if divisor.Sign() <= 0 {
		divisor = resource.MustParse("1")
	}
	ratio := new(big.Rat).Quo(rational(q), rational(divisor))
	whole, rest := new(big.Int).QuoRem(ratio.Num(), ratio.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.String()
}

func rational(q resource.Quantity) *big.Rat {
	d := q.AsDec() // q is a copy
	out := new(big.Rat).SetInt(d.UnscaledBig())
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.Scale(), -d.Scale()))), nil)
	if d.Scale() >= 0 {
		return out.Quo(out, new(big.Rat).SetInt(scale))
	}
	return out.Mul(out, new(big.Rat).SetInt(scale))
}

// container returns the container or init container of a name, nil if there is none.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Limited reports whether a resource of the pod is limited as a whole: by a limit of
// the pod, or of every container in it.
func Limited(pod *corev1.Pod, name corev1.ResourceName) bool {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Limits[name]; q.IsZero() {
				return false
			}
		}
	}
	return true
}
