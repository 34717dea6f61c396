package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/staticpods"
)

// podSet is what all sources together have delivered.
type podSet struct {
	pods []*corev1.Pod
	// complete is true when every source has delivered: only then does absence mean
	// anything.
	complete bool
}

// sources puts the sets of several sources together.
type sources struct {
	wake chan struct{}

	mu sync.Mutex // guards sets
	// sets has what each source delivered last; nil: nothing yet.
	sets map[string][]*corev1.Pod
}

// newSources waits for the sources of these names.
func newSources(names ...string) *sources {
	s := &sources{wake: make(chan struct{}, 1), sets: map[string][]*corev1.Pod{}}
	for _, name := range names {
		s.sets[name] = nil
	}
	return s
}

// set takes the whole set of a source.
func (s *sources) set(name string, pods []*corev1.Pod) {
	s.mu.Lock()
	s.sets[name] = append([]*corev1.Pod{}, pods...) // not nil, also if it is empty
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// all returns the sets put together. Of two pods of one UID that of the first source in
// alphabetical order counts.
func (s *sources) all() podSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := podSet{complete: true}
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		pods := s.sets[name]
		if pods == nil {
			out.complete = false
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(out.pods, func(o *corev1.Pod) bool { return o.UID == pod.UID }) {
				out.pods = append(out.pods, pod)
			}
		}
	}
	return out
}

// run hands the sets to deliver, one at a time, until ctx ends.
func (s *sources) run(ctx context.Context, deliver func(podSet)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			deliver(s.all())
		}
	}
}

// The names of the sources.
const (
	fromFiles   = "files"
	fromCluster = "cluster"
)

// read reads the sources until ctx ends.
func (a *agent) read(ctx context.Context, g *errgroup.Group) {
	names := []string{fromFiles}
	if a.cluster != nil {
		names = append(names, fromCluster)
	}
	s := newSources(names...)
	g.Go(func() error { return s.run(ctx, a.deliver) })
	g.Go(func() error {
		err := a.source.Run(ctx, func(set staticpods.Set) {
			a.objects.replace(set)
			s.set(fromFiles, set.Pods)
		})
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		return nil
	})
	if a.cluster != nil {
		g.Go(func() error { return a.cluster.run(ctx, func(pods []*corev1.Pod) { s.set(fromCluster, pods) }) })
	}
}
