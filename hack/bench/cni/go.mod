// The benchmark of package cni against containerd's go-cni. The module is apart so
// that users of nodekit do not list what only it needs.
module github.com/nodekit-go/nodekit/hack/bench/cni

go 1.26.0

require (
	github.com/containerd/go-cni v1.1.15
	github.com/containernetworking/cni v1.3.1
	github.com/nodekit-go/nodekit v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/petermattis/goid v0.0.0-20240813172612-4fcff4a6cae7 // indirect
	github.com/sasha-s/go-deadlock v0.3.5 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.45.0 // indirect
	go.opentelemetry.io/otel/metric v1.45.0 // indirect
	go.opentelemetry.io/otel/trace v1.45.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/nodekit-go/nodekit => ../../..
