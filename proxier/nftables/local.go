package nftables

import (
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Local says which traffic comes from pods of the cluster.
type Local = proxier.Local

// foreign matches packets that do not come from pods. It must not be called for
// a family that is not detected.
func foreign(l Local, a *assembler) rule {
	if m := iface(l, expr.CmpOpNeq); m != nil {
		return m
	}
	var r rule
	for _, p := range proxier.PrefixesOf(a.family, l.ClusterCIDRs) {
		r = r.then(inPrefix(a.source(reg), p, expr.CmpOpNeq)...)
	}
	return r
}

// fromPods returns the alternatives of which one matches each packet from a pod.
func fromPods(l Local, a *assembler) []rule {
	if m := iface(l, expr.CmpOpEq); m != nil {
		return []rule{m}
	}
	var out []rule
	for _, p := range proxier.PrefixesOf(a.family, l.ClusterCIDRs) {
		out = append(out, inPrefix(a.source(reg), p, expr.CmpOpEq))
	}
	return out
}

// iface compares the name of the incoming interface: all sixteen bytes, or as
// many as the prefix has. Packets of the node itself have none.
func iface(l Local, op expr.CmpOp) rule {
	var name []byte
	switch {
	case l.BridgeInterface != "":
		name = make([]byte, unix.IFNAMSIZ)
		copy(name, l.BridgeInterface)
	case l.InterfaceNamePrefix != "":
		name = []byte(l.InterfaceNamePrefix)
	default:
		return nil
	}
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg}, &expr.Cmp{Op: op, Register: reg, Data: name}}
}
