// Package probes finds out how containers are: by HTTP, TCP, gRPC (in package
// probes/grpc) or a command, once or for as long as they run, with the meaning
// that the probes of a Kubernetes container have.
//
// Each prober is a plain value that works alone:
//
//	res, err := probes.HTTP{URL: "http://10.244.1.7:8080/healthz"}.Probe(ctx)
//
// An Engine runs the probes of many containers:
//
//	engine, err := probes.New(probes.Config{
//		Hooks: probes.Hooks{Changed: func(c probes.Change) { wake(c.Ref.UID) }},
//	})
//	go engine.Run(ctx)
//	containers, err := probes.FromPod(pod, probes.PodConfig{Clients: clients})
//	engine.Set(pod.UID, containers)
//	values, ok := engine.Values(containerID) // values.Ready(), values.Restart()
//
// A container is one life of it: when it is started again it has a new ID and is
// a new container, and the probes of the old one end with it. FromSpec and
// FromPod translate the types of the Kubernetes API; a Tracker holds the
// thresholds and can be used without the Engine.
//
// The package restarts nothing and writes no status: it says what the values are,
// and its user acts. It does not watch pods or containers either.
//
// The probers and the Engine are safe for use by several goroutines. Probers need
// no privileges beyond reaching the container; commands run through a function
// that the user supplies.
package probes
