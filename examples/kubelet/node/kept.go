package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// keptObjects are the ConfigMaps and Secrets of the pod store: what the API server has
// told is kept there, and pods of an earlier process get what is kept while it is away. A
// nil keptObjects keeps nothing.
type keptObjects struct {
	log      *slog.Logger
	store    *podstore.Store
	recalled func(types.UID) bool
}

// newKeptObjects returns the objects of a pod store, nil without one.
func newKeptObjects(a *agent) *keptObjects {
	if a.cluster == nil || a.cluster.standby == nil {
		return nil
	}
	return &keptObjects{log: a.log, store: a.cluster.standby.store, recalled: a.catalog.isRecalled}
}

// keptTimeout is how long the API server is waited for when there is something in its
// place.
const keptTimeout = time.Second

// timeout is how long the API server is waited for, for the objects of a pod.
func (k *keptObjects) timeout(pod *corev1.Pod) time.Duration {
	if k != nil && k.recalled(pod.UID) {
		return keptTimeout
	}
	return objectTimeout
}

// configMap returns what the API server has told, or what is kept if it told nothing.
func (k *keptObjects) configMap(pod *corev1.Pod, name string, told *corev1.ConfigMap, err error) (*corev1.ConfigMap, error) {
	switch {
	case k == nil:
	case err == nil:
		k.noted(pod, "configmap", name, k.store.KeepConfigMap(told))
	case k.recalled(pod.UID) && !apierrors.IsNotFound(err):
		if kept, keptErr := k.store.ConfigMap(pod.Namespace, name); keptErr == nil {
			return kept, nil
		}
	}
	return told, err
}

// secret is configMap for a Secret.
func (k *keptObjects) secret(ctx context.Context, pod *corev1.Pod, name string, told *corev1.Secret, err error) (*corev1.Secret, error) {
	switch {
	case k == nil:
	case err == nil:
		k.noted(pod, "secret", name, k.store.KeepSecret(ctx, told))
	case k.recalled(pod.UID) && !apierrors.IsNotFound(err):
		kept, keptErr := k.store.Secret(ctx, pod.Namespace, name)
		if keptErr == nil {
			return kept, nil
		}
		return nil, errors.Join(err, keptErr)
	}
	return told, err
}

// noted tells of an object that could not be kept. That Secrets are not kept without a
// seal is how it is meant.
func (k *keptObjects) noted(pod *corev1.Pod, kind, name string, err error) {
	if err != nil && !errors.Is(err, podstore.ErrNoSealer) {
		k.log.Error("an object could not be stored; after a reboot without the API server a pod lacks it",
			"pod", fullName(pod), "kind", kind, "name", name, "err", err)
	}
}
