package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

func (d *demo) cleanUp(ctx context.Context) error {
	before, err := d.look(ctx)
	if err != nil {
		return errors.Join(err, d.node.Stop(ctx))
	}
	d.report.does("end kubelet and kube-proxy with SIGTERM")
	d.report.expects("both exit with 0 and the pods run on")
	if err := d.endPrograms(ctx, before); err != nil {
		return errors.Join(err, d.node.Stop(ctx))
	}
	d.report.does("remove the node")
	d.report.expects("no process, mount, control group or file of it is left")
	if err := d.node.Stop(ctx); err != nil {
		return err
	}
	left, err := testnode.Leftovers(d.node.Name())
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
	d.report.saw("nothing of %s is left", d.node.Name())
	d.report.fact("nothing is left behind")
	return nil
}

func (d *demo) endPrograms(ctx context.Context, before snapshot) error {
	for _, process := range []*testnode.Process{d.kubelet.Process, d.kubeProxy} {
		if err := process.Terminate(10 * time.Second); err != nil {
			return err
		}
	}
	after, err := d.look(ctx)
	if err != nil {
		return err
	}
	if changes := before.changes(after); changes != "" {
		return errors.New(changes)
	}
	d.report.saw("both exited with 0, %d containers run on", len(after))
	d.report.fact("kubelet and kube-proxy ended with exit code 0 and left the pods running")
	return nil
}

// explain prints how to look at a node that was kept.
func (d *demo) explain() {
	enter := "nsenter --net=" + d.node.Namespace()
	fmt.Fprintf(d.report.out, `
== The node %s stays (KEEP=1). Look at it as root:

   the Service     %s curl http://%s
   its rules       %s nft list ruleset
   pods            curl --unix-socket %s/kubelet.sock http://kubelet/pods
   manifests       curl --unix-socket %[5]s/kubelet.sock http://kubelet/manifests
   containers      $(hack/tool.sh crictl test/tools) --runtime-endpoint unix://%[6]s ps
                   ctr --address %[6]s --namespace k8s.io tasks list
   change things   edit the files in %s and %s
   logs            %s

   and remove it   go run ./hack/demo -cleanup
`, d.node.Name(), enter, virtualIP, enter, d.node.KubeletRoot(), d.node.Socket(),
		d.node.Manifests(), d.node.Services(), d.node.Logs())
}
