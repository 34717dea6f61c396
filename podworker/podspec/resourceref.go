package podspec

import (
	"fmt"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resourceRef returns why a resourceFieldRef is not supported, empty if it is.
func resourceRef(ref corev1.ResourceFieldSelector) string {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	known := kind == "limits" || kind == "requests"
	switch n := corev1.ResourceName(name); {
	case known && (hasDefault(n) || isHugePages(n)):
		return ""
	}
	return fmt.Sprintf("resource %q is not supported", ref.Resource)
}

// hasDefault reports whether the limit of a resource is what the node can give where
// a container has none.
func hasDefault(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// resourceValue returns a request or limit of a container in units of the divisor,
// rounded up. A limit that is not set is that of the pod, or what the node can give.
func resourceValue(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector, node *Node) (string, error) {
	if why := resourceRef(*ref); why != "" {
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
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
			q = defaultLimit(pod, name, node)
		}
	}
	return inUnits(q, ref.Divisor), nil
}

func defaultLimit(pod *corev1.Pod, name corev1.ResourceName, node *Node) resource.Quantity {
	if resourcehelper.IsPodLevelLimitsSet(pod) && resourcehelper.IsSupportedPodLevelResource(name) {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return node.Allocatable[name]
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
