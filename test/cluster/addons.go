package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

//go:embed manifests/access.yaml
var accessManifest string

//go:embed manifests/coredns.yaml
var dnsManifest string

// applyManifests makes the objects that a cluster has besides those that the API
// server makes itself.
func (c *Cluster) applyManifests(ctx context.Context) error {
	manifests := []string{accessManifest}
	if !c.cfg.NoDNS {
		manifests = append(manifests, dnsManifest)
	}
	text, err := renderManifests(manifests...)
	if err != nil {
		return err
	}
	// Without validation kubectl need not read the description of the whole API.
	_, err = c.Kubectl(ctx, text, "create", "--validate=false", "-f", "-")
	return err
}

func renderManifests(manifests ...string) (string, error) {
	values := map[string]string{
		"KubeletClient": kubeletClientUser, "DNSAddress": DNSAddress,
		"ClusterDomain": ClusterDomain, "CoreDNS": images.CoreDNSRef,
	}
	var text strings.Builder
	for _, manifest := range manifests {
		parsed, err := template.New("manifest").Option("missingkey=error").Parse(manifest)
		if err == nil {
			err = parsed.Execute(&text, values)
		}
		if err != nil {
			return "", fmt.Errorf("write manifest: %w", err)
		}
		text.WriteString("---\n")
	}
	return text.String(), nil
}

// WaitDNS waits until the cluster's DNS serves.
func (c *Cluster) WaitDNS(ctx context.Context) error {
	const path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
	err := testnode.Eventually(ctx, startLimit, "CoreDNS is available", func(ctx context.Context) error {
		var d appsv1.Deployment
		err := c.api.get(ctx, path, &d)
		if err == nil && d.Status.AvailableReplicas == 0 {
			err = errors.New("no replica is available")
		}
		return err
	})
	if err == nil {
		c.cfg.Progress("CoreDNS is available")
	}
	return err
}
