package podsource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// follower is a Source at work.
type follower struct {
	*Source
	set func(Set)
	// known are the pods at a version of the API server's; empty: there was no list yet,
	// or the server has forgotten that version.
	known   map[types.UID]*corev1.Pod
	version string
	// pods and mirrors are those of known, in the order in which they are delivered.
	pods, mirrors ordered
	// seen is when each of them was first seen.
	seen map[types.UID]string
	// complained is true after a failure was logged, until there is an answer.
	complained bool
}

// errForgotten says that the server has forgotten where the watch was, which happens
// after a long outage.
var errForgotten = errors.New("the API server has forgotten what changed since the last list")

// follow lists the pods if it has to, and watches them until the watch ends. It returns
// nil if the server ended it.
func (f *follower) follow(ctx context.Context) error {
	if f.version == "" {
		if err := f.list(ctx); err != nil {
			return err
		}
	}
	err := f.watch(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		f.version = "" // the next round lists
		return errForgotten
	}
	return err
}

// list reads the whole set. An empty resourceVersion asks for the newest state.
func (f *follower) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	list, err := f.client.List(ctx, metav1.ListOptions{FieldSelector: f.selector})
	if err != nil {
		return fmt.Errorf("list the pods of node %s: %w", f.cfg.Node, err)
	}
	clear(f.known)
	f.pods, f.mirrors = nil, nil
	for i := range list.Items {
		f.take(&list.Items[i])
	}
	for uid := range f.seen {
		if f.known[uid] == nil {
			delete(f.seen, uid)
		}
	}
	f.version = list.ResourceVersion
	f.answered()
	f.deliver()
	return nil
}

// watch follows what changes.
func (f *follower) watch(ctx context.Context) error {
	lasts := f.cfg.Watch + rand.N(f.cfg.Watch)
	// A connection that has died without a word must not hold the watch for ever.
	ctx, cancel := context.WithTimeout(ctx, lasts+watchSlack)
	defer cancel()
	seconds := int64(lasts / time.Second)
	w, err := f.client.Watch(ctx, metav1.ListOptions{
		FieldSelector: f.selector, ResourceVersion: f.version, TimeoutSeconds: &seconds, AllowWatchBookmarks: true,
	})
	if err != nil {
		return fmt.Errorf("watch the pods of node %s: %w", f.cfg.Node, err)
	}
	defer w.Stop()
	f.recovered()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("watch the pods of node %s: %w", f.cfg.Node, ctx.Err())
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			if err := f.takeAll(e, w.ResultChan()); err != nil {
				return fmt.Errorf("watch the pods of node %s: %w", f.cfg.Node, err)
			}
		}
	}
}

// takeAll takes an event and all that are there by now, then delivers the set once.
func (f *follower) takeAll(e watch.Event, more <-chan watch.Event) error {
	changed := false
	defer func() {
		if changed {
			f.deliver()
		}
	}()
	for {
		did, err := f.takeEvent(e)
		changed = changed || did
		if err != nil {
			return err
		}
		f.answered()
		var ok bool
		select {
		case e, ok = <-more:
			if !ok {
				return nil // the next read says so again
			}
		default:
			return nil
		}
	}
}

// takeEvent reports whether the event changed the set.
func (f *follower) takeEvent(e watch.Event) (bool, error) {
	if e.Type == watch.Error {
		return false, apierrors.FromObject(e.Object)
	}
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return false, fmt.Errorf("an event %s has a %T, want a pod", e.Type, e.Object)
	}
	if pod.ResourceVersion != "" {
		f.version = pod.ResourceVersion
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		f.take(pod)
		return true, nil
	case watch.Deleted:
		f.drop(pod.UID)
		delete(f.seen, pod.UID)
		return true, nil
	case watch.Bookmark, watch.Error:
	}
	return false, nil
}

// take remembers a pod, with the annotations that a kubelet gives it and without what no
// node needs.
func (f *follower) take(pod *corev1.Pod) {
	if f.seen[pod.UID] == "" {
		f.seen[pod.UID] = time.Now().Format(time.RFC3339Nano)
	}
	f.drop(pod.UID)
	pod = stamp(pod, f.seen[pod.UID])
	f.known[pod.UID] = pod
	f.among(pod).add(pod)
}

// drop forgets a pod, if it is known.
func (f *follower) drop(uid types.UID) {
	if pod := f.known[uid]; pod != nil {
		f.among(pod).remove(pod)
		delete(f.known, uid)
	}
}

// among returns the list in which a pod is delivered.
func (f *follower) among(pod *corev1.Pod) *ordered {
	if IsMirror(pod) {
		return &f.mirrors
	}
	return &f.pods
}

// deliver calls set. What it hands over stays as it is: the lists change with the next event.
func (f *follower) deliver() {
	f.set(Set{Pods: slices.Clone(f.pods), Mirrors: slices.Clone(f.mirrors)})
}

// answered tells that what is known of the pods is as the API server has it.
func (f *follower) answered() {
	f.recovered()
	f.cfg.Hooks.Answered()
}

// recovered ends a complaint.
func (f *follower) recovered() {
	if f.complained {
		f.complained = false
		f.cfg.Log.Info("the API server tells of this node's pods again", "node", f.cfg.Node)
	}
}

// failed tells of an attempt that failed; the log once per outage.
func (f *follower) failed(err error) {
	if err == nil {
		err = errors.New("the API server ended the watch at once")
	}
	f.cfg.Hooks.Failed(err)
	if !f.complained {
		f.complained = true
		f.cfg.Log.Warn("pods of the API server are not read, what is known of them stays; trying again", "node", f.cfg.Node, "err", err)
	}
}
