package podsync

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// lastRites is a preStop hook that runs.
type lastRites struct {
	cancel context.CancelFunc
	// done is closed when it has ended.
	done chan struct{}
	// handover cancels it unless the next call takes it over.
	handover *time.Timer
}

// end cuts the hook off, and waits for that.
func (l *lastRites) end() {
	l.cancel()
	<-l.done
}

// preStop runs the hook of a container that goes before its end and waits for it, for as
// long as there is time. A hook that takes longer goes on until its container ends; the
// function returned then ends it. It runs once, also when the stop has to be repeated:
// the next call, which may have less time, goes on to wait for it.
func (st *stopper) preStop(ctx context.Context, stop *Stop, left time.Duration) (end func()) {
	hook := st.record.resumeHook(stop.ID)
	if hook == nil {
		hook = st.beginHook(ctx, stop)
	}
	if hook == nil {
		return func() {}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-hook.done:
	case <-timer.C:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), podworker.ErrInterrupted) {
			st.record.leaveHook(stop.ID, hook)
			return func() {}
		}
	}
	return hook.end
}

// beginHook starts the hook of a container, nil if it has none or had its turn.
func (st *stopper) beginHook(ctx context.Context, stop *Stop) *lastRites {
	h := hook{
		syncer: st.syncer, pod: st.pod, container: stop.Name, id: stop.ID,
		ip: st.syncer.address(st.pod, st.seen), ended: st.record.ending(stop.ID),
	}
	handler := st.handler(ctx, &h)
	if handler == nil || !st.record.once(ranPreStop, stop.ID) {
		return nil
	}
	during, cancel := context.WithCancel(context.WithoutCancel(ctx))
	running := &lastRites{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(running.done)
		// The text of the error may have what a server answered, which is not for everybody.
		err := guarded(func() error { return h.run(during, handler) })
		if err != nil && during.Err() == nil {
			st.syncer.log.Debug("preStop hook failed", "pod", st.pod.Namespace+"/"+st.pod.Name, "container", stop.Name, "err", err)
			st.syncer.warning(st.pod, stop.Name, "FailedPreStopHook", "PreStopHook failed")
		}
	}()
	return running
}

// leaveHook leaves a hook that runs to the next call for the pod. One that nobody takes
// over soon, as when its container has ended or the agent goes, is cut off.
func (p *progress) leaveHook(id string, hook *lastRites) {
	hook.handover = time.AfterFunc(callGrace, hook.cancel)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks[id] = hook
}

// resumeHook takes over the hook of a container that an earlier call has begun, nil if
// there is none.
func (p *progress) resumeHook(id string) *lastRites {
	p.mu.Lock()
	defer p.mu.Unlock()
	hook := p.hooks[id]
	delete(p.hooks, id)
	if hook != nil {
		hook.handover.Stop()
	}
	return hook
}

// handler returns the preStop hook of a container by its spec or, where that is not
// known any more, by what the runtime was told of it. It fills in the ports that the
// hook may name.
func (st *stopper) handler(ctx context.Context, h *hook) *corev1.LifecycleHandler {
	if c := container(st.pod, h.container); c != nil {
		h.ports = c.Ports
		if c.Lifecycle == nil {
			return nil
		}
		return c.Lifecycle.PreStop
	}
	handler, ports := st.syncer.remembered(ctx, h.id)
	h.ports = ports
	return handler
}

// remembered returns the preStop hook and the ports that a container was made with, as
// the kubelet writes them down with the runtime. Without them there is no hook to run.
func (s *Syncer) remembered(ctx context.Context, id string) (*corev1.LifecycleHandler, []corev1.ContainerPort) {
	resp, err := s.runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		return nil, nil
	}
	annotations := resp.GetStatus().GetAnnotations()
	var handler corev1.LifecycleHandler
	if json.Unmarshal([]byte(annotations[podspec.AnnotationPreStopHandler]), &handler) != nil {
		return nil, nil
	}
	var ports []corev1.ContainerPort
	if json.Unmarshal([]byte(annotations[podspec.AnnotationPorts]), &ports) != nil {
		ports = nil
	}
	return &handler, ports
}
