package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

func (d *demo) prepareNode(ctx context.Context) error {
	if missing := testnode.Missing(); len(missing) > 0 {
		d.report.does("install %s", strings.Join(missing, " "))
		if err := testnode.Install(ctx, os.Stderr); err != nil {
			return err
		}
	}
	d.report.does("make a network namespace and start a containerd of its own in it")
	d.report.expects("runtime and pod network are ready; the host's runtime and rules are not touched")
	node, err := testnode.Start(ctx, testnode.Config{
		Name: "demo", Logs: d.logs,
		Progress: func(line string) { d.report.saw("%s", line) },
	})
	if err != nil {
		return err
	}
	d.node = node
	d.report.saw("%s is ready in %s", node.Name(), node.Dir())
	return nil
}

func (d *demo) importImages(ctx context.Context) error {
	d.report.does("compile static programs, wrap each one as an image, import it into containerd")
	d.report.expects("the runtime knows the images")
	rows := []string{"image\tfrom"}
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Web()} {
		if err := d.node.ImportImage(ctx, image); err != nil {
			return err
		}
		rows = append(rows, image.Ref+"\t./"+image.Program)
	}
	d.report.table(rows...)
	return nil
}

func (d *demo) buildPrograms(ctx context.Context) error {
	d.report.does("go build ./examples/kubelet ./examples/kube-proxy")
	var err error
	if d.binaries.kubelet, err = testnode.Build(ctx, outDir, "examples/kubelet"); err != nil {
		return err
	}
	if d.binaries.kubeProxy, err = testnode.Build(ctx, outDir, "examples/kube-proxy"); err != nil {
		return err
	}
	version, err := d.node.Command(ctx, d.binaries.kubelet, "--version").Output()
	if err != nil {
		return fmt.Errorf("ask the kubelet for its version: %w", err)
	}
	d.report.saw("%s", bytes.TrimSpace(version))
	return nil
}

func (d *demo) runStranger(ctx context.Context) error {
	d.report.does("run a pod over CRI, as crictl would, before there is a kubelet")
	d.report.expects("it outlives everything below")
	ids, err := d.node.RunStranger(ctx, testnode.Stranger{Name: "stranger", Image: testnode.Web().Ref})
	if err != nil {
		return err
	}
	d.stranger = ids
	pid, err := d.node.CRI().ContainerPID(ctx, ids.Container)
	if err != nil {
		return err
	}
	d.report.saw("container %s, process %d", short(ids.Container), pid)
	return nil
}

func (d *demo) startPrograms(ctx context.Context) error {
	d.report.does("start both on the node")
	d.report.expects("their health checks answer")
	if err := d.startKubelet(ctx); err != nil {
		return err
	}
	var err error
	started := time.Now()
	if d.kubeProxy, err = d.node.StartKubeProxy(ctx, d.binaries.kubeProxy); err != nil {
		return err
	}
	d.report.saw("kube-proxy is healthy after %s", since(started))
	return nil
}

func (d *demo) startKubelet(ctx context.Context) error {
	started := time.Now()
	kubelet, err := d.node.StartKubelet(ctx, d.binaries.kubelet)
	if err != nil {
		return err
	}
	d.kubelet = kubelet
	d.report.saw("kubelet is healthy after %s", since(started))
	return nil
}

func (d *demo) checkStranger(ctx context.Context) error {
	d.report.does("ask the runtime for the stranger's container")
	d.report.expects("it is the same container and it runs")
	status, err := d.node.CRI().ContainerStatus(ctx, d.stranger.Container)
	if err != nil {
		return err
	}
	if status.GetState() != running {
		return fmt.Errorf("the stranger's container is %s", status.GetState())
	}
	age := time.Since(time.Unix(0, status.GetStartedAt())).Round(time.Second)
	d.report.saw("container %s runs for %s", short(d.stranger.Container), age)
	d.report.fact("a stranger's pod on the same runtime was left alone")
	return nil
}

func short(id string) string { return id[:min(len(id), 12)] }

func since(t time.Time) string { return fmt.Sprintf("%.1f s", time.Since(t).Seconds()) }
