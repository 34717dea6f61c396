package node

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podsource"
	"github.com/nodekit-go/nodekit/staticpods"
)

// fromFiles and fromURL are the names of the manifests as sources, in the kubelet's words.
// That of the API server is [podsource.API].
const (
	fromFiles = "file"
	fromURL   = "http"
)

// newMerger puts the sources of an agent together.
func (a *agent) newMerger() (*podsource.Merger, error) {
	names := []string{fromFiles}
	if a.remote != nil {
		names = append(names, fromURL)
	}
	if a.cluster != nil {
		names = append(names, podsource.API)
	}
	return podsource.NewMerger(podsource.MergerConfig{Log: a.log, Conflict: a.leftOut}, names...)
}

// read reads the sources until ctx ends.
func (a *agent) read(ctx context.Context, g *errgroup.Group, m *podsource.Merger) {
	g.Go(func() error { return m.Run(ctx, func(set podsource.Merged) { a.deliver(ctx, set) }) })
	g.Go(func() error {
		err := a.source.Run(ctx, func(set staticpods.Set) {
			a.volumes.objects.replace(set)
			a.putBack.add(set.PutBack)
			a.put(m.Set(fromFiles, set.Pods))
		})
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		return nil
	})
	if a.remote != nil {
		g.Go(func() error {
			return a.remote.Run(ctx, func(set staticpods.Set) { a.put(m.Set(fromURL, set.Pods)) })
		})
	}
	if a.cluster != nil {
		g.Go(func() error { return a.cluster.run(ctx, m, a.put) })
	}
}

// put takes what a Merger says to a set.
func (a *agent) put(err error) {
	if err != nil {
		a.log.Error("pods of a source are lost", "err", err)
	}
}

// leftOut tells of a pod that another one keeps from running.
func (a *agent) leftOut(c podsource.Conflict) {
	a.events.Record(events.OfPod(c.Pod, ""), corev1.EventTypeWarning, podsource.ReasonFailedValidation, c.String())
}
