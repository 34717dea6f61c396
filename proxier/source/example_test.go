package source_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/source"
)

const service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.1.5], nodeName: node-a}]
`

func ExampleDir() {
	path, err := os.MkdirTemp("", "services")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	if err := os.WriteFile(filepath.Join(path, "web.yaml"), []byte(service), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	p, err := proxier.New(printer{stop: cancel}, proxier.Config{Node: proxier.Node{Name: "node-a"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := source.NewDir(path, p.Feed("manifests"), source.DirConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- dir.Run(ctx) }()
	fmt.Println(p.Run(ctx), <-done)
	// Output:
	// default/web:http TCP IPv4; at ClusterIP 10.96.0.10:80; to 10.244.1.5:8080(here)
	// <nil> <nil>
}

// printer is a Backend that prints what is to be in force.
type printer struct{ stop func() }

func (p printer) Reset(_ context.Context, s *proxier.State) error {
	for _, sp := range s.Ports {
		fmt.Fprintln(os.Stdout, sp)
	}
	p.stop()
	return nil
}

func (p printer) Apply(context.Context, proxier.Delta) error { return nil }

func (p printer) Cleanup(context.Context) error { return nil }
