// Package stats tells what the pods of a node use: as the Summary that kubelets serve on
// /stats/summary, and as samples of metrics for /metrics/resource and /metrics/cadvisor.
//
//	c, err := stats.New(stats.Config{Node: "node-a", Pods: pods, Groups: reader, Runtime: client})
//	go c.Run(ctx)
//	mux.Handle("/stats/summary", c.Handler())
//	families := c.Resource(ctx) // for an exporter of the caller's choice
//
// CPU and memory are read from the control groups of pods and containers (package
// cgroupstat); the container runtime is asked for what it alone knows, such as the layer
// that a container writes, and for containers whose groups this machine does not show.
// What volumes take up comes through an interface.
//
// # Cost and age
//
// Nothing is read while nobody asks, and no timer runs. What was read is served again for
// ten seconds, volumes for a minute, and carries the time of its reading. Sources that may
// hang (the runtime, disks, each pod's volumes) are read beside the request: it waits for
// them a second, and is then answered with what they said last.
//
// A rate, usageNanoCores, is between two readings that are at least ten seconds and at most
// a few minutes apart: the first answer has none.
//
// # What it is not for
//
// It keeps no history, writes no exposition format and has no registry: an exporter turns a
// [Family] into what it needs. It knows no API server and no Prometheus.
//
// # Safety
//
// A Collector may be used by several goroutines at once. It reads control groups, the
// directories of logs, and /proc/PID/net/dev of sandboxes, which needs the privileges for
// these files. [Config.Log] gets what could not be read; the answer leaves it out.
package stats
