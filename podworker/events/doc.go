// Package events tells what happens to pods and to their node: it turns a reason and a
// message into the Event objects of Kubernetes, counts what repeats instead of telling
// it again, and brings them to an API server if there is one.
//
// It decides nothing: who does something says so. Which reasons and messages a kubelet
// uses is in the [Catalog].
//
//	r, err := events.New(events.Config{Host: "node-a", API: api, Told: log})
//	go r.Run(ctx) // brings them to the API server until ctx ends
//	r.Record(events.OfPod(pod, "app"), corev1.EventTypeNormal, "Started", "Container started")
//
// Events are for people. They may be lost: when more come than can be told, and when the
// API server is away for longer than two minutes.
//
// A Recorder is safe for use by many goroutines, and Record does not wait. It needs no
// privileges.
package events
