// Package lease keeps a Lease of the API coordination.k8s.io/v1 alive: the heartbeat
// by which the control plane knows that a node, or anything else, is there.
//
//	link := lease.NewLink(lease.LinkConfig{})
//	restConfig.Dial, restConfig.WrapTransport = link.DialContext, link.Wrap
//	clients := kubernetes.NewForConfigOrDie(restConfig)
//	keeper, err := lease.New(clients.CoordinationV1().Leases("kube-node-lease"), lease.Config{
//		Name: "node-a",
//		Link: link,
//	})
//	if err != nil {
//		return err
//	}
//	return keeper.Run(ctx) // until ctx ends
//
// A Keeper takes any client that has the three methods of Client. Each of its requests
// has a deadline of its own, well below the Lease's duration, and after one that
// failed a Link closes its connections, so that the next request opens a new one: a
// connection that died without a word, or a server that hangs, costs one attempt and
// not the heartbeat.
//
// The package elects no leaders: it renews a Lease whoever holds it, and warns. It does
// not delete the Lease in the end. The node's conditions are the matter of nodestatus,
// its sub-package.
//
// A Keeper is run once, by one goroutine, and calls its hooks from there. A Link is safe
// for use by several goroutines. No privileges are needed on the machine; on the server
// get, create and update of the one Lease.
package lease
