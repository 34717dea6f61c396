package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/examples/kubelet/identity"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// certificates are the flags about those that the node gets or makes.
type certificates struct{ bootstrap, certDir string }

// add defines the flags.
func (c *certificates) add(f *pflag.FlagSet) {
	f.StringVar(&c.bootstrap, "bootstrap-kubeconfig", "", "`file` with credentials to ask for the node's identity with, if --kubeconfig has none that is valid; --kubeconfig is written then")
	f.StringVar(&c.certDir, "cert-dir", "", "`directory` of the certificates that the node gets or makes; default: pki in --root-dir")
}

// dir is where certificates are.
func (c *certificates) dir(root string) string {
	if c.certDir != "" {
		return c.certDir
	}
	return filepath.Join(root, "pki")
}

// agent is what the API server's clients call this program.
const agent = "kubelet"

// link is how the API server is reached.
type link struct {
	// config makes configurations of clients whose connections dial opens; nil: as usual.
	config func(dial identity.DialFunc) (*rest.Config, error)
	// run asks for the identity and renews it; nil: there is nothing to do.
	run        func(ctx context.Context) error
	collectors []prometheus.Collector
}

// reach returns how the API server is reached: with the identity of the kubeconfig, or with
// one that is asked for or renewed.
func (r *registration) reach(cfg node.Config) (*link, error) {
	if r.kubeconfig == "" {
		return nil, errors.New("--bootstrap-kubeconfig needs --kubeconfig, the file that the node's identity is written to")
	}
	if r.look || !cfg.Kubelet.RotateCertificates && r.bootstrap == "" {
		config, err := apiclient.Config(r.kubeconfig, agent)
		if err != nil {
			return nil, err
		}
		return &link{config: func(dial identity.DialFunc) (*rest.Config, error) {
			own := rest.CopyConfig(config)
			own.Dial = dial
			return own, nil
		}}, nil
	}
	id, err := identity.Open(identity.Config{
		Kubeconfig: r.kubeconfig,
		Bootstrap:  r.bootstrap,
		Dir:        r.dir(cfg.Root),
		Node:       cfg.Name,
		Once:       !cfg.Kubelet.RotateCertificates,
		UserAgent:  agent + "/" + program.Version(),
		Log:        cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return &link{config: id.Config, run: id.Run, collectors: id.Collectors()}, nil
}

// beside is what runs beside the node for its identity; nil: nothing.
func (l *link) beside() func(context.Context, node.Tell) error {
	if l.run == nil {
		return nil
	}
	return func(ctx context.Context, _ node.Tell) error { return l.run(ctx) }
}
