package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// create makes a mirror. If there is an object of that name already, that is what the
// API server has.
func (k *Keeper) create(ctx context.Context, name types.NamespacedName, mirror *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	pod, err := k.cfg.Pods(name.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	switch {
	case err == nil:
		k.with(name, func(e *entry) { e.take(pod, time.Now()) })
		k.cfg.Log.Info("mirror pod made", "pod", name.String(), "uid", string(pod.UID), "hash", hashOf(pod))
		if hook := k.cfg.Hooks.Created; hook != nil {
			hook(pod)
		}
		return nil
	case !apierrors.IsAlreadyExists(err):
		return &callError{"create mirror pod", err}
	}
	err = k.look(ctx, name)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; it is not this node's: %w", errTaken, err)
	}
	return err
}

// verify finds out whether the API server still has the object that the watch does not
// show. The Node authorizer forbids a node to read a pod that does not exist.
func (k *Keeper) verify(ctx context.Context, name types.NamespacedName) error {
	err := k.look(ctx, name)
	if apierrors.IsForbidden(err) {
		k.with(name, (*entry).vanish)
		return nil
	}
	return err
}

// look finds out what the API server has of a name.
func (k *Keeper) look(ctx context.Context, name types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	pod, err := k.cfg.Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		k.with(name, (*entry).vanish)
		return nil
	case err != nil:
		return &callError{"get the pod that has the name of a mirror pod", err}
	}
	k.with(name, func(e *entry) { e.take(pod, time.Now()) })
	return nil
}

// remove removes a mirror, if it is still the same object, at once: there is nothing to
// wait for, as its containers are the static pod's.
func (k *Keeper) remove(ctx context.Context, name types.NamespacedName, mirror *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	now := int64(0)
	err := k.cfg.Pods(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      metav1.NewUIDPreconditions(string(mirror.UID)),
	})
	gone := apierrors.IsNotFound(err) || apierrors.IsConflict(err) // another object has the name
	if err != nil && !gone {
		return &callError{"delete mirror pod " + string(mirror.UID), err}
	}
	k.with(name, func(e *entry) { e.drop(mirror.UID) })
	if gone {
		return nil
	}
	k.cfg.Log.Info("mirror pod removed", "pod", name.String(), "uid", string(mirror.UID), "hash", mirror.Annotations[corev1.MirrorPodAnnotationKey])
	if hook := k.cfg.Hooks.Deleted; hook != nil {
		hook(mirror)
	}
	return nil
}

// errTaken says that another pod has the name.
var errTaken = errors.New("the API server has another pod of the name of this static pod; remove or rename one of them")

// callError is a call to the API server that failed.
type callError struct {
	op  string
	err error
}

func (e *callError) Error() string { return e.op + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// unreachable reports whether the API server does not answer, or not now.
func unreachable(err error) bool {
	call, ok := errors.AsType[*callError](err)
	if !ok {
		return false
	}
	err = call.err
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}
