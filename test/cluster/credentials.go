package cluster

import (
	"fmt"
	"os"
)

const (
	// frontProxyUser is as whom the API server asks other API servers.
	frontProxyUser = "front-proxy-client"
	// kubeletClientUser is as whom the API server asks kubelets; see manifests/access.yaml.
	kubeletClientUser = "kube-apiserver-kubelet-client"
)

// The users and groups are those that Kubernetes' built-in roles are bound to, see
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings.

// writeCredentials makes the authorities and the credentials of the control plane.
func (c *Cluster) writeCredentials() error {
	dir := c.plane.Dir("pki")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	var err error
	if c.ca, err = newAuthority(dir, "ca"); err != nil {
		return err
	}
	if c.front, err = newAuthority(dir, "front-proxy-ca"); err != nil {
		return err
	}
	if err := writeKeyPair(c.pki("service-accounts")); err != nil {
		return err
	}
	if _, err := c.front.issue(c.pki("front-proxy"), subject{user: frontProxyUser}); err != nil {
		return err
	}
	servers := map[string]subject{
		"apiserver": {user: "kube-apiserver", hosts: []string{
			hubAddress, apiServiceAddress, "127.0.0.1", "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + ClusterDomain,
		}},
		"apiserver-kubelet": {user: kubeletClientUser},
	}
	for name, who := range servers {
		if _, err := c.ca.issue(c.pki(name), who); err != nil {
			return err
		}
	}
	clients := map[string]subject{
		"admin":              {user: "admin", groups: []string{"system:masters"}},
		"controller-manager": {user: "system:kube-controller-manager"},
		"scheduler":          {user: "system:kube-scheduler"},
	}
	for name, who := range clients {
		if err := c.writeClient(c.pki(name), c.plane.Dir(name+".kubeconfig"), who); err != nil {
			return err
		}
	}
	return nil
}

// writeClient issues a client's certificate and writes its kubeconfig.
func (c *Cluster) writeClient(base, kubeconfig string, who subject) error {
	files, err := c.ca.issue(base, who)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(kubeconfig, files)
}

// writeNodeCredentials makes what a node's parts need: the kubelet's identity towards
// the API server and its serving certificate, kube-proxy's identity, and the
// authority's certificate. All of it is in the node's folder: it sees no other.
func (c *Cluster) writeNodeCredentials(n *Node) error {
	if err := os.Mkdir(n.pki(), 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	ca, err := os.ReadFile(c.ca.certFile())
	if err == nil {
		err = os.WriteFile(n.pki("ca.crt"), ca, 0o600)
	}
	if err != nil {
		return fmt.Errorf("copy the authority's certificate: %w", err)
	}
	return c.issueNode(n)
}

// issueNode issues a node's certificates into its folder of certificates.
func (c *Cluster) issueNode(n *Node) error {
	kubelet := subject{user: "system:node:" + n.name, groups: []string{"system:nodes"}}
	if err := c.writeClient(n.pki("kubelet-client"), n.Dir("kubelet.kubeconfig"), kubelet); err != nil {
		return err
	}
	proxy := subject{user: "system:kube-proxy"}
	if err := c.writeClient(n.pki("kube-proxy-client"), n.Dir("kube-proxy.kubeconfig"), proxy); err != nil {
		return err
	}
	serving := kubelet
	serving.hosts = []string{n.name, n.Address().String()}
	_, err := c.ca.issue(n.pki("kubelet-serving"), serving)
	return err
}

func (n *Node) pki(elem ...string) string { return n.Dir(append([]string{"pki"}, elem...)...) }
