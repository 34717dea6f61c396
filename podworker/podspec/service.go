package podspec

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceVariables returns the variables by which the containers of a pod find
// Services: all of the pod's namespace, unless it wants no links, and always the one
// of the API server
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
// They are sorted by the name of the Service.
func serviceVariables(pod *corev1.Pod, services []*corev1.Service) []variable {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	visible := map[string]*corev1.Service{}
	for _, s := range services {
		master := s.Namespace == corev1.NamespaceDefault && s.Name == "kubernetes"
		switch {
		case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0:
		case master && visible[s.Name] == nil, !master && links && s.Namespace == pod.Namespace:
			visible[s.Name] = s
		}
	}
	sorted := make([]*corev1.Service, 0, len(visible))
	for _, s := range visible {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	var out []variable
	for _, s := range sorted {
		out = appendService(out, s)
	}
	return out
}

// appendService appends the variables of one Service that has an address and ports.
func appendService(out []variable, s *corev1.Service) []variable {
	prefix := variableName(s.Name)
	out = append(
		out,
		variable{prefix + "_SERVICE_HOST", s.Spec.ClusterIP},
		variable{prefix + "_SERVICE_PORT", number(s.Spec.Ports[0].Port)},
	)
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.Name != "" {
			out = append(out, variable{prefix + "_SERVICE_PORT_" + variableName(p.Name), number(p.Port)})
		}
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		protocol := strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP)))
		url := protocol + "://" + net.JoinHostPort(s.Spec.ClusterIP, number(p.Port))
		if i == 0 {
			out = append(out, variable{prefix + "_PORT", url})
		}
		name := prefix + "_PORT_" + number(p.Port) + "_" + strings.ToUpper(protocol)
		out = append(
			out,
			variable{name, url},
			variable{name + "_PROTO", protocol},
			variable{name + "_PORT", number(p.Port)},
			variable{name + "_ADDR", s.Spec.ClusterIP},
		)
	}
	return out
}

// variableName turns a DNS label into the name of a variable.
func variableName(label string) string {
	return strings.ToUpper(strings.ReplaceAll(label, "-", "_"))
}

func number(n int32) string { return strconv.FormatInt(int64(n), 10) }
