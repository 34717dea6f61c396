package podstore

import (
	"context"
	"crypto/sha256"
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
	name, sum := objectFile(kindSecret, sec.Namespace, sec.Name), sha256.Sum256(plain)
	if s.isSealed(name, sum) {
		return nil // a seal differs each time, and costs time
	}
	sealed, err := s.cfg.Sealer.Seal(ctx, name, plain)
	if err != nil {
		return fmt.Errorf("seal Secret %s/%s: %w", sec.Namespace, sec.Name, err)
	}
	if err := s.keep(kindSecret, object{Namespace: sec.Namespace, Name: sec.Name, Sealed: sealed}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain[name] = sum
	return nil
}

// isSealed reports whether a Secret was kept as it is, by this process.
func (s *Store) isSealed(name string, sum [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.plain[name]
	return ok && was == sum && s.written[name] != nil
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
