package source

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod is what decides whether and how a pod is an endpoint.
type pod struct {
	name        types.NamespacedName
	uid         types.UID
	labels      map[string]string
	ips         []netip.Addr
	ports       []corev1.ContainerPort // the named ones
	known       bool                   // whether its status is known
	ready       bool
	terminating bool
	finished    bool // it has succeeded or failed and will not run again
}

func (p pod) compare(o pod) int {
	return cmp.Or(strings.Compare(p.name.Namespace, o.name.Namespace),
		strings.Compare(p.name.Name, o.name.Name), strings.Compare(string(p.uid), string(o.uid)))
}

func newPod(in *corev1.Pod) pod {
	out := pod{
		name:        types.NamespacedName{Namespace: in.Namespace, Name: in.Name},
		uid:         in.UID,
		labels:      in.Labels,
		known:       in.Status.Phase != "",
		terminating: in.DeletionTimestamp != nil,
		finished:    in.Status.Phase == corev1.PodSucceeded || in.Status.Phase == corev1.PodFailed,
	}
	for _, c := range in.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, s := range podIPs(&in.Status) {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" && !slices.Contains(out.ips, a.Unmap()) {
			out.ips = append(out.ips, a.Unmap())
		}
	}
	for _, c := range in.Spec.Containers {
		out.addPorts(c.Ports)
	}
	for _, c := range in.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out.addPorts(c.Ports) // a sidecar, which serves as long as the pod runs
		}
	}
	return out
}

// remember completes pods whose status the kubelet does not know yet, since it has
// just started, by what it said of the same pods before. Both lists are sorted.
func remember(now, before []pod) {
	for i := range now {
		if now[i].known {
			continue
		}
		j, found := slices.BinarySearchFunc(before, now[i], pod.compare)
		if found && before[j].known {
			now[i].known, now[i].ready = true, before[j].ready
			now[i].ips, now[i].finished = before[j].ips, before[j].finished
		}
	}
}

func podIPs(st *corev1.PodStatus) []string {
	ips := make([]string, 0, len(st.PodIPs)+1)
	for _, ip := range st.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 && st.PodIP != "" {
		ips = append(ips, st.PodIP)
	}
	return ips
}

func (p *pod) addPorts(ports []corev1.ContainerPort) {
	for _, cp := range ports {
		if cp.Name != "" {
			p.ports = append(p.ports, cp)
		}
	}
}

// matches reports whether the labels of p have all that selector asks for.
func (p *pod) matches(namespace string, selector map[string]string) bool {
	if p.name.Namespace != namespace {
		return false
	}
	for k, v := range selector {
		if got, ok := p.labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// targetPort returns the number of the port of p that sp means.
func (p *pod) targetPort(sp corev1.ServicePort) (int32, bool) {
	protocol := cmp.Or(sp.Protocol, corev1.ProtocolTCP)
	if sp.TargetPort.Type == intstr.Int {
		n := cmp.Or(sp.TargetPort.IntVal, sp.Port)
		return n, n > 0 && n <= 65535
	}
	if sp.TargetPort.StrVal == "" {
		return sp.Port, true
	}
	for _, cp := range p.ports {
		if cp.Name == sp.TargetPort.StrVal && cmp.Or(cp.Protocol, corev1.ProtocolTCP) == protocol {
			return cp.ContainerPort, true
		}
	}
	return 0, false
}
