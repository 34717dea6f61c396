package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/netip"
	goruntime "runtime"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// hollow is a node that is not there.
type hollow struct {
	name     string
	keeper   *lease.Keeper
	reporter *nodestatus.Reporter
}

// newHollow returns a node of a name.
func newHollow(name string, client kubernetes.Interface, o *options, t *tally, log *slog.Logger) (*hollow, error) {
	status := statusOf(name, o.resources)
	reporter, err := nodestatus.New(client.CoreV1().Nodes(), nodestatus.Config{
		Name:         name,
		Registration: &o.registration,
		Facts:        func(context.Context) (nodestatus.Facts, error) { return nodestatus.Facts{Status: status}, nil },
		Hooks: nodestatus.Hooks{
			Registered: func(*corev1.Node) { t.registered.Add(1) },
			Failed:     func(int, error) { t.failures.Add(1) },
		},
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	keeper, err := lease.New(client.CoordinationV1().Leases(lease.DefaultNamespace), lease.Config{
		Name:     name,
		Duration: o.leaseDuration,
		Node:     reporter.UID,
		Hooks:    lease.Hooks{Renewed: t.renewed, Failed: func(lease.Failure) { t.failures.Add(1) }},
		Log:      log,
	})
	if err != nil {
		return nil, err
	}
	return &hollow{name: name, keeper: keeper, reporter: reporter}, nil
}

// run keeps the node until ctx ends.
func (h *hollow) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.reporter.Run(ctx) })
	g.Go(func() error { return h.keeper.Run(ctx) })
	return g.Wait()
}

// statusOf is what a node of a name tells. Its address is one for tests of networks
// (RFC 2544), at which nobody answers.
func statusOf(name string, resources corev1.ResourceList) corev1.NodeStatus {
	sum := fnv.New32a()
	sum.Write([]byte(name))
	n := sum.Sum32()
	address := netip.AddrFrom4([4]byte{198, 18 + byte(n>>16&1), byte(n >> 8), byte(n)})
	id := fmt.Sprintf("%08x", n)
	return corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address.String()},
			{Type: corev1.NodeHostName, Address: name},
		},
		Capacity:        resources,
		Allocatable:     resources,
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: id, SystemUUID: id, BootID: id,
			KernelVersion: "hollow", OSImage: "hollow", ContainerRuntimeVersion: "hollow://0",
			KubeletVersion: program.Version(), OperatingSystem: goruntime.GOOS, Architecture: goruntime.GOARCH,
		},
	}
}

// clean deletes the nodes; their Leases go with them.
func clean(ctx context.Context, clients []kubernetes.Interface, nodes []*hollow, out io.Writer) error {
	var errs []error
	for i, n := range nodes {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		err := clients[i%len(clients)].CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{})
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete node %s: %w", n.name, err))
		}
	}
	fmt.Fprintf(out, "%d nodes deleted\n", len(nodes)-len(errs))
	return errors.Join(errs...)
}
