// Package nftables programs Services into the Linux kernel through nf_tables,
// over netlink: no nft command is run.
//
//	backend, err := nftables.New(nftables.Config{Local: nftables.Local{BridgeInterface: "cni0"}})
//	...
//	err = backend.Reset(ctx, &proxier.State{Ports: ports})
//	err = backend.Apply(ctx, proxier.Delta{Update: changed, Remove: gone})
//
// A proxier.Proxier calls these. Run Watch beside it: it notices what others change.
//
// All Services of a family share a few maps in one table, "ip nodekit-proxy" or
// "ip6 nodekit-proxy": address, protocol and port lead to a chain that draws a
// slot number, and these four to an endpoint. A changed endpoint is one changed
// element; there is no chain per Service. Apply costs what its Delta needs and
// lists nothing. Reset builds a new generation of the maps beside the one in
// force and puts it in force in one transaction.
//
// It is not for rules of one's own: everything in the table belongs to the
// Backend and goes with Cleanup. It does not open health check ports, change
// sysctls or remove conntrack entries.
//
// A Backend is used by one goroutine at a time. It needs CAP_NET_ADMIN in the
// network namespace it programs, CAP_SYS_ADMIN to enter another than its own,
// and Linux 5.13 or later; it is tested on 6.1 and 6.18. The package builds for
// Linux only.
package nftables
