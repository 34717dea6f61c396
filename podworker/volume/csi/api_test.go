package csi

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// object is any object of the API.
type object[T any] interface {
	*T
	metav1.Object
	DeepCopy() *T
}

// kind is all objects of one kind, as an API server has them.
type kind[T any, P object[T]] struct {
	mu      sync.Mutex // guards the fields below
	version int
	byName  map[string]*T
	err     error // what every request fails with
	writes  []string
}

func (k *kind[T, P]) set(o *T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.storeLocked(o)
}

func (k *kind[T, P]) storeLocked(o *T) *T {
	if k.byName == nil {
		k.byName = map[string]*T{}
	}
	k.version++
	c := P(o).DeepCopy()
	P(c).SetResourceVersion(strconv.Itoa(k.version))
	k.byName[P(c).GetName()] = c
	return P(c).DeepCopy()
}

func (k *kind[T, P]) change(name string, f func(*T)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := P(k.byName[name]).DeepCopy()
	f(o)
	k.storeLocked(o)
}

func (k *kind[T, P]) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *kind[T, P]) log() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.writes...)
}

func (k *kind[T, P]) getLocked(name string) (*T, error) {
	if k.err != nil {
		return nil, k.err
	}
	o, ok := k.byName[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
	}
	return P(o).DeepCopy(), nil
}

func (k *kind[T, P]) Get(_ context.Context, name string, _ metav1.GetOptions) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.getLocked(name)
}

func (k *kind[T, P]) Create(_ context.Context, o *T, _ metav1.CreateOptions) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, k.err
	}
	if _, ok := k.byName[P(o).GetName()]; ok {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "objects"}, P(o).GetName())
	}
	k.writes = append(k.writes, "create "+P(o).GetName())
	return k.storeLocked(o), nil
}

func (k *kind[T, P]) Update(_ context.Context, o *T, _ metav1.UpdateOptions) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.getLocked(P(o).GetName())
	if err != nil {
		return nil, err
	}
	if P(now).GetResourceVersion() != P(o).GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, P(o).GetName(), nil)
	}
	k.writes = append(k.writes, "update "+P(o).GetName())
	return k.storeLocked(o), nil
}

func (k *kind[T, P]) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.getLocked(name); err != nil {
		return err
	}
	k.writes = append(k.writes, "delete "+name)
	delete(k.byName, name)
	return nil
}

// Patch applies merge patches (RFC 7396).
//
//nolint:revive // the arguments are client-go's
func (k *kind[T, P]) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.getLocked(name)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	var doc, patch map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	merge(doc, patch)
	if raw, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if P(out).GetResourceVersion() != P(now).GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, name, nil)
	}
	k.writes = append(k.writes, "patch "+name)
	return k.storeLocked(out), nil
}

func merge(doc, patch map[string]any) {
	for key, value := range patch {
		sub, ok := value.(map[string]any)
		switch before, has := doc[key].(map[string]any); {
		case value == nil:
			delete(doc, key)
		case ok && has:
			merge(before, sub)
		case ok:
			fresh := map[string]any{}
			merge(fresh, sub)
			doc[key] = fresh
		default:
			doc[key] = value
		}
	}
}

// server is an API server.
type server struct {
	claims      kind[corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaim]
	volumes     kind[corev1.PersistentVolume, *corev1.PersistentVolume]
	secrets     kind[corev1.Secret, *corev1.Secret]
	attachments kind[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
	drivers     kind[storagev1.CSIDriver, *storagev1.CSIDriver]
	nodes       kind[corev1.Node, *corev1.Node]
	csiNodes    kind[storagev1.CSINode, *storagev1.CSINode]
}

func (s *server) api() API {
	return API{
		Claims:      func(string) Claims { return &s.claims },
		Volumes:     &s.volumes,
		Secrets:     func(string) Getter[corev1.Secret] { return &s.secrets },
		Attachments: &s.attachments,
		Drivers:     &s.drivers,
		Nodes:       &s.nodes,
		CSINodes:    &s.csiNodes,
	}
}
