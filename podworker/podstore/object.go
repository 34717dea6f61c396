package podstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNotKept is the error of an object that the Store does not have.
var ErrNotKept = errors.New("not in the pod store")

// ErrNoSealer is the error of Secrets when the Store has no [Sealer].
var ErrNoSealer = errors.New("no Secret is kept without a Sealer")

// KeepConfigMap keeps a ConfigMap as long as a pod of the Store refers to it.
func (s *Store) KeepConfigMap(cm *corev1.ConfigMap) error {
	kept := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name},
		Data:       cm.Data, BinaryData: cm.BinaryData,
	}
	return s.keep(kindConfigMap, object{Namespace: cm.Namespace, Name: cm.Name, ConfigMap: kept})
}

// ConfigMap returns a ConfigMap that was kept, else ErrNotKept.
func (s *Store) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	o, err := s.object(kindConfigMap, namespace, name)
	if err != nil {
		return nil, err
	}
	return o.ConfigMap, nil
}

// KeepSecret keeps a Secret, sealed, as long as a pod of the Store refers to it. Without a
// [Sealer] it is ErrNoSealer. Tokens are not kept, which is no error: after a reboot the
// API server gives new ones or none.
func (s *Store) KeepSecret(ctx context.Context, sec *corev1.Secret) error {
	if s.cfg.Sealer == nil {
		return ErrNoSealer
	}
	if sec.Type == corev1.SecretTypeServiceAccountToken || sec.Type == corev1.SecretTypeBootstrapToken {
		return nil
	}
	plain, err := json.Marshal(secret{Namespace: sec.Namespace, Name: sec.Name, Type: sec.Type, Data: sec.Data})
	if err != nil {
		return fmt.Errorf("keep Secret %s/%s: %w", sec.Namespace, sec.Name, err)
	}
	defer clear(plain)
	if old, err := s.Secret(ctx, sec.Namespace, sec.Name); err == nil && sameSecret(old, sec) {
		return nil // a seal differs each time
	}
	sealed, err := s.cfg.Sealer.Seal(ctx, objectFile(kindSecret, sec.Namespace, sec.Name), plain)
	if err != nil {
		return fmt.Errorf("seal Secret %s/%s: %w", sec.Namespace, sec.Name, err)
	}
	return s.keep(kindSecret, object{Namespace: sec.Namespace, Name: sec.Name, Sealed: sealed})
}

// Secret returns a Secret that was kept, else ErrNotKept.
func (s *Store) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if s.cfg.Sealer == nil {
		return nil, ErrNoSealer
	}
	o, err := s.object(kindSecret, namespace, name)
	if err != nil {
		return nil, err
	}
	plain, err := s.cfg.Sealer.Open(ctx, objectFile(kindSecret, namespace, name), o.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open the seal of Secret %s/%s: %w", namespace, name, err)
	}
	defer clear(plain)
	found, err := decodeSecret(plain, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("open the seal of Secret %s/%s: %w", namespace, name, err)
	}
	return found, nil
}

func sameSecret(a, b *corev1.Secret) bool {
	if a.Type != b.Type || len(a.Data) != len(b.Data) {
		return false
	}
	for key, value := range a.Data {
		if other, ok := b.Data[key]; !ok || string(other) != string(value) {
			return false
		}
	}
	return true
}

// keep writes an object.
func (s *Store) keep(kind string, o object) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("keep %s %s/%s: %w", kind, o.Namespace, o.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := objectFile(kind, o.Namespace, o.Name)
	s.kept[name] = time.Now()
	return s.writeLocked(name, payload)
}

// object returns the payload of an object.
func (s *Store) object(kind, namespace, name string) (*object, error) {
	s.mu.Lock()
	payload := s.written[objectFile(kind, namespace, name)]
	s.mu.Unlock()
	if payload == nil {
		return nil, fmt.Errorf("%s %s/%s: %w", kind, namespace, name, ErrNotKept)
	}
	return decodeObject(payload)
}
