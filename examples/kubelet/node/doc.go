// Package node is a kubelet as a value: it takes pods from a directory of manifests, and
// from an API server if it is given a client, runs them on a container runtime and keeps
// them running. The program examples/kubelet is a main around it.
//
// It is the wiring of nodekit's packages, and shows that their types fit:
// allocatable for the configuration and the machine's resources, staticpods for the
// manifests, podworker with podsync and admission for the pods, probes for their
// probes, runtime for CRI and images, statuswriter and events for what is told. Every
// part can be replaced in Config. RunOnce runs one pod to its end; Plan says what would
// be done for one.
//
//	n, err := node.New(node.Config{Kubelet: kubelet, Name: "node-a"})
//	if err != nil {
//		return err
//	}
//	return n.Run(ctx) // until ctx ends; the pods keep running
//
// What it keeps in the root directory: instance-id, which marks what this agent
// made; node-state.json, what it took over from others; pod-status/, what it told of
// pods last and nobody else knows; kubelet.lock, held while it runs; kubelet.sock,
// its local API for root; terminal-statuses/, how pods ended that the API server does not
// know yet; image_manager/, who pulled what; device-plugins/ and pod-resources/, the sockets
// of device plugins and of those who ask who has which devices; pki/, its certificates;
// and the data of pods.
//
// A Node is run once, by one goroutine. It needs to be root: for the runtime's
// socket, the root directory and the cgroups.
package node
