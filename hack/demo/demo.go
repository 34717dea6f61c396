package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

const (
	// outDir is where binaries and logs go, below the working directory.
	outDir = "_out"
	// virtualIP is the Service's address in manifests/service.yaml.
	virtualIP = "10.96.0.10"
	// patience bounds each wait. What is waited for takes a second or two on an idle
	// machine.
	patience = 45 * time.Second
	// requests is how many requests a table of answers is made of.
	requests = 60
)

// demo is the demonstration: what it runs and what it remembers between steps.
type demo struct {
	report *report
	keep   bool // What the user wants.
	kept   bool // What became of the node.
	logs   string

	node      *testnode.Node
	kubelet   *testnode.Kubelet
	kubeProxy *testnode.Process
	binaries  binaries
	stranger  testnode.StrangerIDs
	manifests string // The kubelet's table of manifests, for the end.
}

type binaries struct{ kubelet, kubeProxy string }

func newDemo(out io.Writer, keep bool) *demo {
	return &demo{report: newReport(out), keep: keep, logs: filepath.Join(outDir, fmt.Sprintf("demo-logs-%d", os.Getpid()))}
}

// step is a part of the demonstration. It prints what it does, expects and saw,
// and returns an error when it did not see what it expected.
type step struct {
	title string
	run   func(context.Context) error
}

func (d *demo) steps() []step {
	return []step{
		{"Prepare a private node", d.prepareNode},
		{"Build the images without a registry", d.importImages},
		{"Build kubelet and kube-proxy from this repository", d.buildPrograms},
		{"A stranger's pod on the same runtime", d.runStranger},
		{"Start kubelet and kube-proxy", d.startPrograms},
		{"Three web pods beside a broken manifest", d.runPods},
		{"A Service in front of them", d.serve},
		{"Kill a container", d.killContainer},
		{"Remove a manifest", d.removeManifest},
		{"kill -9 the kubelet and start it again", d.crashKubelet},
		{"The stranger's pod at the end", d.checkStranger},
	}
}

// run goes through the steps until one fails, and cleans up whatever happened,
// unless the node is to be kept.
func (d *demo) run(ctx context.Context) error {
	err := d.runSteps(ctx, d.steps())
	switch {
	case d.node == nil:
		return err
	case d.keep && !errors.Is(err, errInterrupted):
		keepErr := d.node.Keep()
		d.kept = keepErr == nil
		return errors.Join(err, keepErr)
	case err != nil:
		return errors.Join(err, d.discard(ctx))
	}
	if err := d.runSteps(ctx, []step{{"Stop and clean up", d.cleanUp}}); err != nil {
		return err
	}
	return os.RemoveAll(d.logs) // Nobody needs to know why all went well.
}

func (d *demo) runSteps(ctx context.Context, steps []step) error {
	for _, step := range steps {
		d.report.begin(step.title)
		err := step.run(ctx)
		if ctx.Err() != nil {
			err = errInterrupted // Whatever broke, this is why.
		}
		d.report.end(err)
		if err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// discard removes the node after a failed step or an interrupt.
func (d *demo) discard(ctx context.Context) error {
	d.report.begin("Clean up")
	err := d.node.Stop(ctx)
	d.report.end(err)
	return err
}
