// Package statuswriter brings the statuses of a node's pods to the API server: the
// newest of each pod, terminal ones first, several pods at a time, and never a phase
// that goes back from a terminal one. It deletes the object of a pod that was deleted
// once the node has finished with it.
//
// It computes no status, which is the business of podworker/podstatus, and watches no
// API server: tell it with Observe what a watch delivers.
//
//	w, err := statuswriter.Open(statuswriter.Config{
//		Pods: func(ns string) statuswriter.Pods { return client.CoreV1().Pods(ns) },
//		Dir:  "/var/lib/kubelet/terminal-statuses",
//	})
//	go w.Run(ctx)                // until ctx ends
//	err = w.Set(pod, status)     // for each new status; never waits for the network
//	w.Finished(pod)              // containers, volumes and cgroup are gone
//	ok := w.Acknowledged(pod.UID) // may the last dead container be removed?
//	w.Forget(pod.UID)            // the pod is in no source any more
//
// A terminal status is on the disk before Set returns and stays there until the API
// server has it: neither an outage nor a crash loses how a pod ended.
//
// A Writer is safe for use by many goroutines; calls for one pod are made one after
// the other. It needs no privileges but to write in its directory.
package statuswriter
