package cluster

import (
	"context"
	"fmt"
	"io"
	"os/exec"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// packages are the Debian packages of a cluster, besides those of a test node, by a
// program of each: conntrack and ipset are called by kube-proxy.
func packages() map[string]string {
	return map[string]string{"etcd": "etcd-server", "conntrack": "conntrack", "ipset": "ipset"}
}

// Prepare installs the packages that are missing here, by hack/install.sh, which
// prints to out what it does.
func Prepare(ctx context.Context, out io.Writer) error {
	if err := testnode.Install(ctx, out); err != nil {
		return err
	}
	var missing []string
	for program, name := range packages() {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, name)
		}
	}
	if err := testnode.InstallPackages(ctx, out, missing...); err != nil {
		return fmt.Errorf("prepare the machine for clusters: %w", err)
	}
	return nil
}
