// Package ipvs programs Services into the Linux kernel through IPVS, over netlink:
// virtual servers with real servers behind them, the addresses of Services on the
// device kube-ipvs0, and a small nftables table for what IPVS does not do. No command
// is run.
//
//	backend, err := ipvs.New(ipvs.Config{Scheduler: "lc"})
//	...
//	err = backend.Reset(ctx, &proxier.State{Ports: ports})
//	err = backend.Apply(ctx, proxier.Delta{Update: changed, Remove: gone})
//
// It is for those who need the schedulers of IPVS; proxier/nftables serves all others
// with less. A removed endpoint gets weight 0: one of TCP or SCTP keeps its connections
// until they are over, for Config.DrainTimeout at most, one of UDP its flows for a second.
// Watch, which is to run beside, removes it then, and notices what others change.
//
// It is not for virtual servers of one's own: those at addresses of kube-ipvs0, and
// those that it remembers to have made, are the Backend's, and all of the table is.
// Others stay.
//
// A Backend is used by one goroutine at a time, Watch aside. It needs CAP_NET_ADMIN in
// the network namespace it programs, CAP_SYS_ADMIN to enter another than its own, to
// write kernel parameters there, and Linux 5.13 or later with the modules ip_vs, dummy
// and nf_tables. The package builds for Linux only.
package ipvs
