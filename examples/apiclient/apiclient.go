// Package apiclient makes the example programs' clients of an API server.
package apiclient

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease"
)

// Config reads a kubeconfig file for a program of a name. Its clients speak JSON, and
// their rate is not limited.
func Config(kubeconfig, name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	config.UserAgent = name + "/" + program.Version()
	config.ContentType = "application/json"
	config.QPS = -1
	return config, nil
}

// Own returns a client whose connections are its own, with the Link that drops them,
// and with a timeout for each request.
func Own(config *rest.Config, timeout time.Duration) (kubernetes.Interface, *lease.Link, error) {
	link := lease.NewLink(lease.LinkConfig{})
	own := rest.CopyConfig(config)
	own.Dial = link.DialContext
	own.Wrap(link.Wrap)
	own.Timeout = timeout
	own.QPS = -1
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	return client, link, nil
}
