// Package leasetest has an API server in memory for tests of heartbeats: it keeps
// Leases and Nodes as a real one does, with resource versions, conflicts, UIDs and
// strategic merge patches of a node's status, and speaks HTTP.
//
//	server := leasetest.New()
//	http := httptest.NewServer(server)
//	client := leasetest.Client{Base: http.URL}
//	keeper, err := lease.New(client.Leases("kube-node-lease"), lease.Config{Name: "node-a"})
//
// It has no goroutines and no clock of its own, so that it works inside
// testing/synctest. Faults are made outside of it: by a handler around it that hangs
// or answers 500, or by connections that lose their bytes. Client is a small client
// for the two kinds of objects, for this server or a real one.
//
// The package checks no authorization and stores nothing but Leases and Nodes. All its
// types are safe for use by several goroutines.
package leasetest
