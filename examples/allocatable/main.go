// Command allocatable prints what a node offers to pods, and how that comes about:
// for this machine, or for one that is described by its capacity.
//
//	allocatable --config /var/lib/kubelet/config.yaml
//	allocatable --config kubelet.yaml --capacity cpu=4,memory=8141816Ki -o json
//
// The exit code is 0 if a kubelet would start with the configuration, 1 if it would
// not, and 2 if there is nothing to compute from. It is meant for people, and for
// the tests of node images.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/config"
)

// The exit codes.
const (
	good     = 0
	refused  = 1
	unusable = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return good
	}
	var a answer
	if err == nil {
		a, err = o.compute(stderr)
	}
	if err == nil {
		err = a.print(o.output, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "allocatable:", err)
		return unusable
	case a.wrong != nil:
		fmt.Fprintf(stderr, "allocatable: a kubelet would not start:\n%v\n", a.wrong)
		return refused
	}
	return good
}

// answer is a result, and what of the input a kubelet would refuse.
type answer struct {
	allocatable.Result
	capacity corev1.ResourceList // with what no node reports
	wrong    error
}

// compute reads the input and does the sum. The error is about input that cannot be
// read; warnings go to stderr.
func (o *options) compute(stderr io.Writer) (answer, error) {
	cfg, problems, err := config.LoadFiles(o.config, o.configDir, config.AllFields())
	if err != nil {
		return answer{}, err
	}
	for _, p := range problems {
		if p.Severity == config.Warning {
			fmt.Fprintln(stderr, "allocatable: warning:", p)
		}
	}
	list, cpus, err := o.machine()
	if err != nil {
		return answer{}, err
	}
	if _, ok := list[corev1.ResourcePods]; !ok {
		list[corev1.ResourcePods] = *resource.NewQuantity(config.Pods(cfg, len(cpus)), resource.DecimalSI)
	}
	// What Reserved and Compute find wrong is the same in other words, or follows
	// from it, if the file is wrong.
	reserved, unreadable := config.Reserved(cfg)
	result, impossible := allocatable.Compute(list, reserved)
	wrong := config.Err(problems)
	if wrong == nil {
		wrong = errors.Join(unreadable, config.CheckCPUs(cfg, cpus), impossible)
	}
	return answer{Result: result, capacity: list, wrong: wrong}, nil
}

// machine returns the capacity that the flags describe, or that of the machine,
// without pods, and the CPUs.
func (o *options) machine() (corev1.ResourceList, []int, error) {
	if o.capacity != nil {
		cpus := make([]int, o.capacity.Cpu().Value())
		for i := range cpus {
			cpus[i] = i
		}
		return o.capacity, cpus, nil
	}
	m, err := capacity.Read(capacity.Config{Root: o.machineRoot, StorageDir: o.rootDir})
	if err != nil {
		return nil, nil, err
	}
	list := m.Resources(0)
	delete(list, corev1.ResourcePods)
	return list, m.CPUs, nil
}
