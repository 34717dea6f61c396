package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// What could not be written is tried again after firstWrite, twice as long each time,
	// up to lastWrite.
	firstWrite = 100 * time.Millisecond
	lastWrite  = 30 * time.Second
	// writeTimeout bounds one attempt.
	writeTimeout = 30 * time.Second
	// lookPause is how often the objects are looked at although nothing has changed here:
	// a CSINode is deleted with its Node, or by somebody.
	lookPause = 5 * time.Minute
)

// errNoCSINode is the kubelet's reason for a node that is not ready yet.
var errNoCSINode = errors.New("CSINode is not yet initialized")

// publisher keeps what the API server knows about the drivers of the node: the CSINode,
// and an annotation and labels of the Node.
type publisher struct {
	node     string
	nodes    Nodes
	csiNodes CSINodes
	log      *slog.Logger
	wake     chan struct{}

	mu sync.Mutex // guards the fields below
	// drivers are those that have been registered since the start, nil for one that is
	// not any more. What else the API server knows was written by an agent before, and
	// stays: its drivers may yet come.
	drivers map[string]*nodeInfo
	// problem is why the API server does not know all of it, nil if it does.
	problem error
	// exists: the CSINode has been seen.
	exists bool
}

func newPublisher(cfg *Config, log *slog.Logger) *publisher {
	return &publisher{
		node: cfg.Node, nodes: cfg.API.Nodes, csiNodes: cfg.API.CSINodes, log: log,
		wake: make(chan struct{}, 1), drivers: map[string]*nodeInfo{}, problem: errNoCSINode,
	}
}

// set notes what a driver says about the node, nil for one that has gone.
func (p *publisher) set(driver string, info *nodeInfo) {
	p.mu.Lock()
	p.drivers[driver] = info
	p.mu.Unlock()
	p.soon()
}

// recount notes how many volumes of a driver can be attached to the node. What else the
// driver says about the node is fixed: a CSINode does not take a change of it.
func (p *publisher) recount(driver string, count int64) {
	p.mu.Lock()
	now := p.drivers[driver]
	if now == nil || now.max == count {
		p.mu.Unlock()
		return
	}
	to := *now
	to.max = count
	p.drivers[driver] = &to
	p.mu.Unlock()
	p.soon()
}

// soon has run look at the objects.
func (p *publisher) soon() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// ready returns why the CSINode may not exist, nil when it does.
func (p *publisher) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exists {
		return nil
	}
	return p.problem
}

// run writes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	pause, told := firstWrite, ""
	for {
		select {
		case <-p.wake: // a driver has come or gone, or the Node was made anew
			pause = firstWrite
		case <-again.C: // at the start, after a while, or something failed before
		case <-ctx.Done():
			return
		}
		again.Stop()
		err := p.write(ctx)
		if err == nil {
			pause, told = firstWrite, ""
			again.Reset(lookPause)
			continue
		}
		if text := err.Error(); text != told && ctx.Err() == nil {
			p.log.Warn("drivers of the node not published, it is tried again", "in", pause, "err", err)
			told = text
		}
		again.Reset(pause)
		pause = min(2*pause, lastWrite)
	}
}

// write makes the objects say what is known. The Node comes first: with the CSINode pods
// are scheduled, by labels of the Node.
func (p *publisher) write(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	p.mu.Lock()
	drivers := maps.Clone(p.drivers)
	p.mu.Unlock()
	node, err := p.nodes.Get(bounded, p.node, metav1.GetOptions{})
	if err != nil {
		return p.note(false, fmt.Errorf("read Node %s: %w", p.node, err))
	}
	err = p.writeNode(bounded, node, drivers)
	exists, csiErr := p.writeCSINode(bounded, node, drivers)
	return p.note(exists, errors.Join(err, csiErr))
}

// note remembers how it went.
func (p *publisher) note(exists bool, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exists = p.exists || exists
	p.problem = nil
	if err != nil {
		p.problem = fmt.Errorf("%w: %w", errNoCSINode, err)
	}
	return err
}

// writeNode patches the Node where it says something else.
func (p *publisher) writeNode(ctx context.Context, node *corev1.Node, drivers map[string]*nodeInfo) error {
	patch, collisions := nodePatch(node, drivers)
	if patch == nil {
		return collisions
	}
	if _, err := p.nodes.Patch(ctx, p.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return errors.Join(collisions, fmt.Errorf("patch Node %s: %w", p.node, err))
	}
	return collisions
}

// writeCSINode creates or updates the CSINode. One of a Node of before, with the same
// name, is deleted first. It returns whether the CSINode exists.
func (p *publisher) writeCSINode(ctx context.Context, node *corev1.Node, drivers map[string]*nodeInfo) (exists bool, err error) {
	now, err := p.csiNodes.Get(ctx, p.node, metav1.GetOptions{})
	if err == nil && !ownedBy(now, node) {
		p.log.Info("CSINode belongs to a Node of before, it is made anew", "csinode", p.node)
		if err := p.csiNodes.Delete(ctx, p.node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &now.UID}}); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("delete CSINode %s of a Node of before: %w", p.node, err)
		}
		now, err = nil, apierrors.NewNotFound(storagev1.Resource("csinodes"), p.node)
	}
	switch {
	case apierrors.IsNotFound(err):
		if _, err := p.csiNodes.Create(ctx, newCSINode(node, drivers), metav1.CreateOptions{}); err != nil {
			return false, fmt.Errorf("create CSINode %s: %w", p.node, err)
		}
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read CSINode %s: %w", p.node, err)
	}
	want := now.DeepCopy()
	want.Spec.Drivers = mergeDrivers(now.Spec.Drivers, drivers)
	if equalDrivers(now.Spec.Drivers, want.Spec.Drivers) {
		return true, nil
	}
	if _, err := p.csiNodes.Update(ctx, want, metav1.UpdateOptions{}); err != nil {
		return true, fmt.Errorf("update CSINode %s: %w", p.node, err)
	}
	return true, nil
}

// ownedBy reports whether a CSINode goes with a Node.
func ownedBy(c *storagev1.CSINode, node *corev1.Node) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == node.Name && o.UID == node.UID
	})
}
