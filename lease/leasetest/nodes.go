package leasetest

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func nodeResource() schema.GroupResource { return schema.GroupResource{Resource: "nodes"} }

func (s *Server) getNode(r *http.Request) (any, error) {
	name := r.PathValue("name")
	n, ok := s.nodes[name]
	if !ok {
		return nil, apierrors.NewNotFound(nodeResource(), name)
	}
	return n, nil
}

func (s *Server) createNode(r *http.Request) (any, error) {
	n := &corev1.Node{}
	if err := decode(r, n); err != nil {
		return nil, err
	}
	if _, ok := s.nodes[n.Name]; ok {
		return nil, apierrors.NewAlreadyExists(nodeResource(), n.Name)
	}
	s.meta(&n.ObjectMeta)
	s.nodes[n.Name] = n
	return n, nil
}

// patchNode takes a strategic merge patch of metadata and status.
func (s *Server) patchNode(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if !isStrategic(r) {
		return nil, apierrors.NewBadRequest("the patch is not a strategic merge patch")
	}
	var patch map[string]any
	if err := decode(r, &patch); err != nil {
		return nil, err
	}
	old, ok := s.nodes[name]
	if !ok {
		return nil, apierrors.NewNotFound(nodeResource(), name)
	}
	if _, ok := patch["spec"]; ok {
		return nil, apierrors.NewBadRequest("the patch of the status changes the spec")
	}
	changed, err := patched(old, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if changed.UID != old.UID {
		return nil, apierrors.NewConflict(nodeResource(), name, errUID)
	}
	s.written(&changed.ObjectMeta)
	s.nodes[name] = changed
	return changed, nil
}

// patched returns a Node with a patch applied.
func patched(old *corev1.Node, patch map[string]any) (*corev1.Node, error) {
	data, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if data, err = json.Marshal(merge(object, patch)); err != nil {
		return nil, err
	}
	changed := &corev1.Node{}
	return changed, json.Unmarshal(data, changed)
}

// Node returns a Node as it is stored, nil if there is none.
func (s *Server) Node(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name].DeepCopy()
}

// SetNode changes a Node as another client would; it makes one if there is none.
func (s *Server) SetNode(name string, change func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name].DeepCopy()
	if n == nil {
		n = &corev1.Node{}
		n.Name = name
		s.meta(&n.ObjectMeta)
	} else {
		s.written(&n.ObjectMeta)
	}
	change(n)
	s.nodes[name] = n
}

// DeleteNode deletes a Node, if there is one, and, as the garbage collector does, the
// Leases that it owns.
func (s *Server) DeleteNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[name]
	if !ok {
		return
	}
	delete(s.nodes, name)
	for key, l := range s.leases {
		for _, ref := range l.OwnerReferences {
			if ref.UID == n.UID {
				delete(s.leases, key)
			}
		}
	}
}

// NodeUID returns the UID of a Node, empty if there is none.
func (s *Server) NodeUID(name string) types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.nodes[name]; ok {
		return n.UID
	}
	return ""
}
