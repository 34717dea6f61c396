package proxier

import (
	"fmt"
	"strings"
)

// String returns "ns/name:port TCP IPv4".
func (k Key) String() string { return fmt.Sprintf("%s %s %s", k.PortName, k.Protocol, k.Family) }

// String returns the kind and where it answers: "ClusterIP 10.96.0.1:80",
// "NodePort 30080".
func (f Frontend) String() string {
	if !f.Addr.IsValid() {
		return fmt.Sprintf("%s %d", f.Kind, f.Port)
	}
	if f.Addr.Is6() {
		return fmt.Sprintf("%s [%s]:%d", f.Kind, f.Addr, f.Port)
	}
	return fmt.Sprintf("%s %s:%d", f.Kind, f.Addr, f.Port)
}

// String returns the address, with a mark on endpoints of this node.
func (e Endpoint) String() string {
	if e.Local {
		return e.Addr.String() + "(here)"
	}
	return e.Addr.String()
}

// String returns a on one line for logs and tests, each part only if it is set.
func (a *ServicePort) String() string {
	var b strings.Builder
	b.WriteString(a.Key.String())
	list(&b, "at", a.Frontends)
	list(&b, "to", a.Cluster)
	list(&b, "local", a.Local)
	flag := func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(&b, "; "+format, args...)
		}
	}
	flag(a.LocalDraining, "draining here")
	list(&b, "serving", a.Serving)
	flag(!a.HasEndpoints, "no endpoints")
	flag(a.ExternalLocal, "external local")
	flag(a.InternalLocal, "internal local")
	list(&b, "from", a.SourceRanges)
	flag(a.Affinity > 0, "affinity %v", a.Affinity)
	flag(a.HealthCheckNodePort > 0, "health check %d", a.HealthCheckNodePort)
	flag(a.Balance != Balance{}, "balance %s", a.Balance)
	return b.String()
}

func list[T fmt.Stringer](b *strings.Builder, word string, items []T) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "; %s ", word)
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(item.String())
	}
}

// String returns d with a line for each change: "- key" or "+ ServicePort".
func (d Delta) String() string {
	var b strings.Builder
	for _, key := range d.Remove {
		fmt.Fprintf(&b, "- %s\n", key)
	}
	for _, sp := range d.Update {
		fmt.Fprintf(&b, "+ %s\n", sp)
	}
	return b.String()
}
