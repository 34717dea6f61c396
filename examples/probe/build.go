package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/grpc"
	"github.com/nodekit-go/nodekit/runtime"
)

// clients returns what runs commands and speaks gRPC, and a function that ends it.
func (o *options) clients(ctx context.Context) (probes.Clients, func(), error) {
	c := probes.Clients{Exec: runHere, GRPC: grpc.New}
	if o.runtime == "" {
		return c, func() {}, nil
	}
	client, err := runtime.Dial(ctx, o.runtime, runtime.Config{})
	if err != nil {
		return c, nil, err
	}
	c.Exec = probes.ExecIn(client)
	// Nothing is under way when the probe is over.
	return c, func() { _ = client.Close() }, nil
}

// build returns the container to probe, with its one probe.
func (o *options) build(clients probes.Clients) (probes.Container, error) {
	c := probes.Container{Ref: probes.Ref{ID: cmp.Or(o.containerID, "here")}}
	p, err := o.probe(clients, &c)
	switch o.kind {
	case probes.Startup:
		c.Startup = &p
	case probes.Liveness:
		c.Liveness = &p
	case probes.Readiness:
		c.Readiness = &p
	}
	return c, err
}

// probe returns the probe, and fills in what the pod says about c.
func (o *options) probe(clients probes.Clients, c *probes.Container) (probes.Probe, error) {
	if o.file != "" {
		return o.fromFile(clients, c)
	}
	p := probes.Probe{Schedule: o.schedule}
	switch {
	case o.http != "":
		header, err := o.header()
		if err != nil {
			return p, err
		}
		p.Prober = probes.HTTP{URL: o.http, Header: header, HTTP2: o.http2}
	case o.tcp != "":
		p.Prober = probes.TCP{Addr: o.tcp}
	case o.grpc != "":
		p.Prober = grpc.Prober{Addr: o.grpc, Service: o.service, TLS: o.tls}
	default:
		p.Prober = probes.Exec{Run: clients.Exec, ContainerID: o.containerID, Command: o.command}
	}
	return p, nil
}

// fromFile returns the probe of a container in a pod file.
func (o *options) fromFile(clients probes.Clients, c *probes.Container) (probes.Probe, error) {
	data, err := os.ReadFile(o.file)
	if err != nil {
		return probes.Probe{}, fmt.Errorf("read the pod: %w", err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		return probes.Probe{}, fmt.Errorf("read the pod in %s: %w", o.file, err)
	}
	spec, err := choose(&pod, o.container)
	if err != nil {
		return probes.Probe{}, fmt.Errorf("%s: %w", o.file, err)
	}
	c.Ref.Name, c.Ref.Namespace, c.Ref.Pod, c.Ref.UID = spec.Name, pod.Namespace, pod.Name, pod.UID
	p, err := probes.FromSpec(o.kind, probeOf(spec, o.kind), probes.Target{
		Host:        cmp.Or(o.host, pod.Status.PodIP, "127.0.0.1"),
		ContainerID: o.containerID,
		Ports:       spec.Ports,
		Env:         spec.Env,
		Clients:     clients,
	})
	if err != nil {
		return probes.Probe{}, fmt.Errorf("%s: container %s: %w", o.file, spec.Name, err)
	}
	return p, nil
}

// choose returns the container of a name, or the only one.
func choose(pod *corev1.Pod, name string) (*corev1.Container, error) {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	var names []string
	for _, c := range all {
		if c.Name == name || name == "" && len(all) == 1 {
			return c, nil
		}
		names = append(names, c.Name)
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("there is no pod with containers")
	case name == "":
		return nil, fmt.Errorf("there are %d containers: choose one of %s with --container", len(all), strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("there is no container %q: it has %s", name, strings.Join(names, ", "))
}

// probeOf returns the probe of a kind, nil if there is none.
func probeOf(c *corev1.Container, k probes.Kind) *corev1.Probe {
	switch k {
	case probes.Startup:
		return c.StartupProbe
	case probes.Liveness:
		return c.LivenessProbe
	}
	return c.ReadinessProbe
}
