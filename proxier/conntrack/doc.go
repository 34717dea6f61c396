// Package conntrack makes the kernel forget UDP flows that lead to where nobody
// answers any more.
//
// The kernel keeps sending the packets of a UDP flow to the endpoint that its first
// packet got, for as long as the client does not pause: also when the endpoint is
// gone, or when there was none at first. A Cleaner follows a proxier and deletes
// the flows of those frontends whose endpoints went or came, that are new, or that
// are gone. It asks the kernel for these flows alone, streams the answer and runs
// beside the proxier, so that a table of a million flows delays no rule.
//
// It is not for TCP and SCTP, whose clients notice by themselves.
//
//	c, err := conntrack.New(conntrack.Config{})
//	p, err := proxier.New(backend, proxier.Config{Followers: []proxier.Follower{c}})
//	...
//	err = c.Run(ctx)
//
// With proxier/ipvs set Config.Delay to its FlowsLeave: endpoints that are gone may answer
// for a while there.
//
// A Cleaner is safe for concurrent use. It needs CAP_NET_ADMIN in the network
// namespace, and is fast from Linux 5.8 on, whose dumps can be filtered. The
// package builds for Linux only.
package conntrack
