package leasetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxBody bounds what a request may bring, as the limit of a real server: 3 MiB.
const maxBody = 3 << 20

// Server is an API server that knows Leases and Nodes. Make one with New.
type Server struct {
	mux *http.ServeMux

	mu sync.Mutex // guards the fields below
	// version is the resource version of the last write.
	version int
	leases  map[types.NamespacedName]*coordinationv1.Lease
	nodes   map[string]*corev1.Node
	// writes are those of Leases, in their order.
	writes []Write
}

// Write is a Lease as it was stored.
type Write struct {
	// Time is when the server stored it.
	Time  time.Time
	Lease *coordinationv1.Lease
}

// New returns a server without objects.
func New() *Server {
	s := &Server{
		mux:    http.NewServeMux(),
		leases: map[types.NamespacedName]*coordinationv1.Lease{},
		nodes:  map[string]*corev1.Node{},
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
	const nodes = "/api/v1/nodes"
	s.handle("POST "+leases, s.createLease)
	s.handle("GET "+leases+"/{name}", s.getLease)
	s.handle("PUT "+leases+"/{name}", s.updateLease)
	s.handle("POST "+nodes, s.createNode)
	s.handle("GET "+nodes+"/{name}", s.getNode)
	s.handle("PATCH "+nodes+"/{name}/status", s.patchNode)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handle serves one kind of request: its object, or its error as a Status.
func (s *Server) handle(pattern string, h func(*http.Request) (any, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s.mu.Lock()
		object, err := h(r)
		data, encodeErr := json.Marshal(object)
		s.mu.Unlock()
		if err != nil || encodeErr != nil {
			status := statusOf(err, encodeErr)
			data, _ = json.Marshal(status) // a Status always encodes
			w.WriteHeader(int(status.Code))
		}
		_, _ = w.Write(data) // the client may be gone
	})
}

// statusOf returns the answer to a request that failed.
func statusOf(errs ...error) metav1.Status {
	for _, err := range errs {
		if err == nil {
			continue
		}
		if status, ok := err.(apierrors.APIStatus); ok {
			return status.Status()
		}
		return apierrors.NewInternalError(err).Status()
	}
	return metav1.Status{}
}

// meta fills in what the server decides of a new object.
func (s *Server) meta(m *metav1.ObjectMeta) {
	m.UID = types.UID(fmt.Sprintf("uid-%d", s.version+1))
	m.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	s.written(m)
}

// written gives an object its next version.
func (s *Server) written(m *metav1.ObjectMeta) {
	s.version++
	m.ResourceVersion = strconv.Itoa(s.version)
}

// decode reads the object of a request.
func decode(r *http.Request, into any) error {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func leaseResource() schema.GroupResource {
	return schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

func leaseKey(r *http.Request, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.PathValue("namespace"), Name: name}
}

func (s *Server) getLease(r *http.Request) (any, error) {
	key := leaseKey(r, r.PathValue("name"))
	l, ok := s.leases[key]
	if !ok {
		return nil, apierrors.NewNotFound(leaseResource(), key.Name)
	}
	return l, nil
}

func (s *Server) createLease(r *http.Request) (any, error) {
	l := &coordinationv1.Lease{}
	if err := decode(r, l); err != nil {
		return nil, err
	}
	key := leaseKey(r, l.Name)
	if _, ok := s.leases[key]; ok {
		return nil, apierrors.NewAlreadyExists(leaseResource(), key.Name)
	}
	l.Namespace = key.Namespace
	s.meta(&l.ObjectMeta)
	return s.store(key, l), nil
}

func (s *Server) updateLease(r *http.Request) (any, error) {
	key := leaseKey(r, r.PathValue("name"))
	l := &coordinationv1.Lease{}
	if err := decode(r, l); err != nil {
		return nil, err
	}
	old, ok := s.leases[key]
	if !ok || l.UID != "" && l.UID != old.UID {
		return nil, apierrors.NewNotFound(leaseResource(), key.Name)
	}
	if l.ResourceVersion != "" && l.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(leaseResource(), key.Name, fmt.Errorf("it has version %s, the update is of %s", old.ResourceVersion, l.ResourceVersion))
	}
	l.UID, l.CreationTimestamp = old.UID, old.CreationTimestamp
	s.written(&l.ObjectMeta)
	return s.store(key, l), nil
}

func (s *Server) store(key types.NamespacedName, l *coordinationv1.Lease) *coordinationv1.Lease {
	s.leases[key] = l
	s.writes = append(s.writes, Write{Time: time.Now(), Lease: l.DeepCopy()})
	return l
}

// Lease returns a Lease as it is stored, nil if there is none.
func (s *Server) Lease(namespace, name string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy()
}

// SetLease changes a Lease as another client would; it makes one if there is none.
func (s *Server) SetLease(namespace, name string, change func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	l := s.leases[key].DeepCopy()
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.meta(&l.ObjectMeta)
	} else {
		s.written(&l.ObjectMeta)
	}
	change(l)
	s.leases[key] = l
}

// DeleteLease deletes a Lease, if there is one.
func (s *Server) DeleteLease(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, types.NamespacedName{Namespace: namespace, Name: name})
}

// Writes returns all Leases that clients wrote, in their order.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Write(nil), s.writes...)
}

// Owned reports whether a Lease belongs to the Node of its name as it is now.
func (s *Server) Owned(namespace, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, node := s.leases[types.NamespacedName{Namespace: namespace, Name: name}], s.nodes[name]
	if l == nil || node == nil {
		return false
	}
	for _, ref := range l.OwnerReferences {
		if ref.APIVersion == "v1" && ref.Kind == "Node" && ref.Name == name && ref.UID == node.UID {
			return true
		}
	}
	return false
}

// isStrategic reports whether a request brings a strategic merge patch.
func isStrategic(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), string(types.StrategicMergePatchType))
}
