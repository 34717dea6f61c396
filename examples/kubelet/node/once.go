package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/staticpods"
)

// RunOnce runs the pod of a manifest, with the objects beside it, to its end on the runtime
// of a configuration, writes the output of its containers to out, removes all that the pod
// left, and returns its exit code: that of the first of its containers that did not end
// with 0. Other pods on the runtime are left alone, whoever made them. A pod that would
// always be restarted is not.
//
// A pod that did not run, or whose end nobody knows, is an error. If ctx ends first the
// pod is stopped within its grace period, and the error is that of ctx. cfg.Root should
// be a directory of its own.
func RunOnce(ctx context.Context, cfg Config, m staticpods.Manifest, out io.Writer) (exitCode int32, err error) {
	if m.Pod == nil {
		return 0, errors.New("the manifest holds no pod")
	}
	pod := once(m.Pod)
	life := &single{pod: pod, manifest: m, changed: make(chan struct{}, 1)}
	cfg.TakeOver, cfg.Client, cfg.Heartbeat = false, nil, nil
	cfg.Source = func(AdoptUID) (Source, error) { return life, nil }
	n, err := New(cfg)
	if err != nil {
		return 0, err
	}
	n.watch, n.guest = life.set, true
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(running) }()
	prints := newOutput(running, out, &podspec.Node{Logs: n.cfg.Kubelet.PodLogsDir}, pod)
	err = life.wait(ctx, ended, prints)
	life.remove()
	err = errors.Join(err, n.untilGone(running, pod, ended))
	prints.wait()
	stop()
	if last := <-ended; err == nil && last != nil {
		err = last
	}
	if err != nil {
		return 0, err
	}
	return life.exitCode()
}

// once returns the pod as it is to be run: under a UID of its own, and not again for
// ever.
func once(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.UID = types.UID(rand.Text())
	if pod.Spec.RestartPolicy == "" || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	return pod
}

// single is the source of one pod.
type single struct {
	pod *corev1.Pod
	// manifest has the objects beside it.
	manifest staticpods.Manifest
	changed  chan struct{}

	mu      sync.Mutex // guards the fields below
	removed bool
	status  corev1.PodStatus
}

// Run implements Source.
func (s *single) Run(ctx context.Context, set func(staticpods.Set)) error {
	set(staticpods.Set{Pods: []*corev1.Pod{s.pod}, ConfigMaps: s.manifest.ConfigMaps, Secrets: s.manifest.Secrets})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.mu.Lock()
		removed := s.removed
		s.mu.Unlock()
		if removed {
			set(staticpods.Set{})
			<-ctx.Done()
			return nil
		}
	}
}

// Statuses implements Source.
func (s *single) Statuses() []staticpods.FileStatus { return nil }

// set takes a status of the pod.
func (s *single) set(status corev1.PodStatus) {
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *single) get() corev1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// remove takes the pod out of the set.
func (s *single) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
}

// wait returns nil when the pod has ended.
func (s *single) wait(ctx context.Context, ended chan error, prints *output) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			ended <- err
			return cmp.Or(err, errors.New("the node has stopped"))
		case <-s.changed:
		}
		st := s.get()
		prints.follow(&st) //nolint:contextcheck // its readers outlive ctx, to print what the pod says at its end
		if podstatus.IsTerminal(st.Phase) {
			return nil
		}
	}
}

// exitCode returns how the pod ended.
func (s *single) exitCode() (int32, error) {
	st := s.get()
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			t := list[i].State.Terminated
			if t != nil && t.ExitCode != 0 && list[i].ContainerID != "" {
				return t.ExitCode, nil
			}
		}
	}
	if st.Phase != corev1.PodSucceeded {
		return 0, fmt.Errorf("pod %s ended as %s: %s: %s", fullName(s.pod), st.Phase, st.Reason, st.Message)
	}
	return 0, nil
}

// goneLimit is how long the removal of what a pod left may take beyond its grace period.
const goneLimit = time.Minute

// untilGone waits until nothing is left of a pod that was taken out of the set.
func (n *Node) untilGone(ctx context.Context, pod *corev1.Pod, ended chan error) error {
	limit := goneLimit
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		limit += time.Duration(*g) * time.Second
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if a := n.agent.get(); a == nil || a.snapshot.Load() == nil || a.gone(pod.UID) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			ended <- err
			return err
		case <-timeout.C:
			return fmt.Errorf("pod %s is not gone %s after its end", fullName(pod), limit)
		case <-tick.C:
		}
	}
}

// gone reports whether nothing is left of a pod, and nobody wants it.
func (a *agent) gone(uid types.UID) bool {
	_, known := a.pool.State(uid)
	return !known && !a.catalog.wants(uid) && a.snapshot.Load().Pods[uid] == nil
}
