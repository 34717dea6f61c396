// Package podsource brings the pods of an API server to a node, and puts the pods of
// several sources together: those of an API server, those of manifests, those of a store.
//
// It starts nothing and compares nothing: it delivers whole sets, and who takes them
// (podworker's Pool) finds out what is new. It reads no manifests and makes no mirrors.
//
//	source, err := podsource.New(client.CoreV1().Pods(metav1.NamespaceAll), podsource.Config{Node: "node-a"})
//	merger, err := podsource.NewMerger(podsource.MergerConfig{}, "file", podsource.API)
//	go source.Run(ctx, func(s podsource.Set) { merger.Set(podsource.API, s.Pods) })
//	go manifests.Run(ctx, func(pods []*corev1.Pod) { merger.Set("file", pods) })
//	err = merger.Run(ctx, func(m podsource.Merged) {
//		// m.Pods have to run. Only if m.Complete, those that run and are not among
//		// them have to end.
//	})
//
// A set is what is known at that moment, so that a delivery that is lost or late costs
// nothing but time. A source that does not answer keeps the set that it delivered last.
//
// A Source needs the permission to list and watch pods with spec.nodeName of its node,
// which the Node authorizer grants to system:node:<name>. The methods of a Merger may be
// called by many goroutines. Nothing needs privileges.
package podsource
