// Package nodestatus tells the control plane of a node: it registers the Node object,
// and keeps its status, what the node has and whether it is ready.
//
//	reporter, err := nodestatus.New(clients.CoreV1().Nodes(), nodestatus.Config{
//		Name:         "node-a",
//		Registration: &nodestatus.Registration{Labels: map[string]string{"zone": "b"}},
//		Facts:        collect,           // addresses, capacity, versions, images
//		NotReady:     health.NotReady,   // why the node takes no pods; none: it is ready
//	})
//	if err != nil {
//		return err
//	}
//	return reporter.Run(ctx) // until ctx ends
//
// The decisions are pure functions that can be used alone: Registration.Node and
// Registration.Reconcile for the object, Update for the status with its conditions,
// Changed and Patch for what is sent, Health for why a node is not ready, in the
// kubelet's words, TopImages, AddressRules.
//
// A status is computed every 10 s and sent when something in it has changed, or has
// not been sent for 5 minutes. The sign of life in between is the node's Lease: package
// lease.
//
// The package measures nothing and evicts nothing: whether memory is short is asked of
// Pressures. Its sub-package shutdown ends the pods in order when the machine goes down.
//
// A Reporter is run once, by one goroutine, and calls Facts, NotReady and its hooks from
// there; Wake and UID may be called from any goroutine. On the machine it needs no
// privileges; on the server it needs create and get of nodes and patch of nodes/status,
// which the Node authorizer grants system:node:<name>.
package nodestatus
