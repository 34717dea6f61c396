// Package mirror shows the static pods of a node at its API server: one mirror pod for
// each, which people, schedulers and controllers see beside the other pods.
//
// A Keeper is told what static pods there are and what the API server has, and makes
// the second follow the first: a mirror is made when it is missing, made anew when it
// was deleted, belongs to another version of the manifest or to a Node that is no more,
// and removed when its static pod has ended.
//
//	keeper, err := mirror.New(mirror.Config{
//		Pods: func(ns string) mirror.Pods { return client.CoreV1().Pods(ns) },
//		Node: nodeUID,                        // asked before a mirror is made
//		Name: "node-a",
//	})
//	go keeper.Run(ctx)                        // until ctx ends
//	keeper.Want(mirror.Set{Pods: staticPods}) // the whole set, after each change
//	keeper.Have(mirrors)                      // what a watch on the node's pods shows, whole
//
// Project is the pure half: a static pod to the object that the API server gets.
//
// The package watches nothing, runs no pods and writes no statuses: a mirror is made
// with the status Pending, and whoever reports statuses writes that of the static pod
// into it.
//
// A Keeper is safe for use by many goroutines. It needs no privileges on the machine; at
// the API server it has to get, create and delete pods of its node, which the Node
// authorizer and the admission plugin NodeRestriction allow a node.
package mirror
