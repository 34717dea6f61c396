// Package iptables programs Services into the Linux kernel through the commands of
// iptables, in the chains that kube-proxy's iptables mode has: the same names, the
// same rules, the same order, for all who look them up or jump to them.
//
//	backend, err := iptables.New(iptables.Config{Local: iptables.Local{BridgeInterface: "cni0"}})
//	...
//	err = backend.Reset(ctx, &proxier.State{Ports: ports})
//	err = backend.Apply(ctx, proxier.Delta{Update: changed, Remove: gone})
//
// A proxier.Proxier calls these. Run Watch beside it: it notices what others change.
//
// Apply runs iptables-restore once per family, of iptables-legacy once per table, with
// the chains of the ServicePorts in its Delta that differ and the lines of theirs in the
// chains of all. It lists nothing. Reset lists once, compares, and writes what differs: it takes over the
// rules of a running kube-proxy without a gap. Whether the host uses iptables-nft
// or iptables-legacy is found out at the first Reset.
//
// It is not for rules of one's own: the chains belong to the Backend and go with
// Cleanup. It does not remove conntrack entries and sets no kernel parameter but
// route_localnet, for node ports at 127.0.0.1.
//
// A Backend is used by one goroutine at a time; Watch alone runs beside. It needs
// root or CAP_NET_ADMIN and CAP_NET_RAW in the network namespace that it programs,
// CAP_SYS_ADMIN to enter another than its own, and iptables 1.8 or later.
package iptables
