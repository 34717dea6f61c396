package proxy

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/source/informer"
)

// errNoSource is what New returns when nothing says where Services come from.
var errNoSource = errors.New("there is no source of Services: set --kubeconfig (or clientConnection.kubeconfig) for an API server, or --source-dir to a directory of manifests")

// client returns how to reach the API server that the configuration names, nil if it
// names none: by kubeconfig, by its address alone, or as a pod.
func (c *Config) client() (*rest.Config, error) {
	if c.Client != nil {
		return c.Client, nil
	}
	from := c.Proxy.ClientConnection
	if from.Kubeconfig == "" && c.Master == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, nil
	}
	client, err := clientcmd.BuildConfigFromFlags(c.Master, from.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	client.AcceptContentTypes, client.ContentType = from.AcceptContentTypes, from.ContentType
	client.QPS, client.Burst = from.QPS, int(from.Burst)
	return client, nil
}

// informers are the sources of an API server.
func (c *Config) informers(client *rest.Config, p *proxier.Proxier, n *node, m *metrics) ([]Runner, error) {
	s, err := informer.New(client, m.counted(p.Feed("API server "+client.Host)), informer.Config{
		NodeName: c.NodeName, OnNode: n.set, OnServiceCIDRs: n.setServiceCIDRs, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	return []Runner{s}, nil
}

// needsNode reports whether the configuration needs the Node of an API server.
func needsNode(c *config.Config) bool { return c.DetectLocalMode == config.NodeCIDR }
