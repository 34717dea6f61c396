package flows

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// apiServer lists and watches what kube-proxy wants to know, and takes events. It
// knows no selectors and keeps all history: kube-proxy needs neither more nor less.
type apiServer struct {
	mu sync.Mutex
	// changed is closed, and made anew, with each change.
	changed chan struct{}
	history []change
	// now are the objects by resource and name, without their version.
	now map[string]map[string]string
}

// change is one event of a watch; its version is its place in the history, from 1 on.
type change struct {
	resource, name, kind string
	object               map[string]any
}

// kinds are the kinds of the resources, after their group versions.
func kinds() map[string][2]string {
	return map[string][2]string{
		"nodes":          {"v1", "Node"},
		"services":       {"v1", "Service"},
		"endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"},
		"servicecidrs":   {"networking.k8s.io/v1", "ServiceCIDR"},
	}
}

func newAPIServer(node *corev1.Node) *apiServer {
	a := &apiServer{changed: make(chan struct{}), now: map[string]map[string]string{}}
	a.replace("nodes", map[string]any{node.Name: node}, []string{node.Name})
	return a
}

// set makes o all that there is. The events come in the order of o.
func (a *apiServer) set(o proxiertest.Objects) {
	services, endpoints := map[string]any{}, map[string]any{}
	var order [2][]string
	for _, s := range o.Services {
		services[s.Name], order[0] = s, append(order[0], s.Name)
	}
	for _, s := range o.Slices {
		endpoints[s.Name], order[1] = s, append(order[1], s.Name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replace("services", services, order[0])
	a.replace("endpointslices", endpoints, order[1])
	close(a.changed)
	a.changed = make(chan struct{})
}

// replace notes what is different. The caller has the lock, or the only reference.
func (a *apiServer) replace(resource string, objects map[string]any, order []string) {
	old, now := a.now[resource], map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, stays := objects[name]; !stays {
			a.note(resource, name, "DELETED", old[name])
		}
	}
	for _, name := range order {
		text, err := json.Marshal(objects[name])
		if err != nil {
			panic(err) // API types have no such fields
		}
		now[name] = string(text)
		switch before, known := old[name]; {
		case !known:
			a.note(resource, name, "ADDED", now[name])
		case before != now[name]:
			a.note(resource, name, "MODIFIED", now[name])
		}
	}
	a.now[resource] = now
}

func (a *apiServer) note(resource, name, kind, text string) {
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		panic(err) // it was marshaled above
	}
	object["apiVersion"], object["kind"] = kinds()[resource][0], kinds()[resource][1]
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(len(a.history) + 1)
	a.history = append(a.history, change{resource, name, kind, object})
}

// ServeHTTP implements http.Handler.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, name := parts[len(parts)-1], ""
	if len(parts) > 2 && parts[len(parts)-2] == "nodes" {
		resource, name = "nodes", resource
	}
	_, known := kinds()[resource]
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{}}`)
	case !known:
		refuse(w, http.StatusNotFound, "NotFound")
	case query.Has("sendInitialEvents"):
		// Clients fall back to a list.
		refuse(w, http.StatusUnprocessableEntity, "Invalid")
	case query.Has("watch"):
		a.watch(w, r, resource)
	default:
		a.list(w, resource, name)
	}
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason,
	})
}

// list writes all objects of a resource, or the one called name.
func (a *apiServer) list(w http.ResponseWriter, resource, name string) {
	a.mu.Lock()
	version, latest := len(a.history), map[string]map[string]any{}
	for _, c := range a.history {
		if c.resource == resource {
			latest[c.name] = c.object
		}
	}
	items := []any{}
	for _, n := range slices.Sorted(maps.Keys(a.now[resource])) {
		items = append(items, latest[n])
	}
	a.mu.Unlock()
	if name != "" {
		_ = json.NewEncoder(w).Encode(latest[name])
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": kinds()[resource][0], "kind": kinds()[resource][1] + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}, "items": items,
	})
}

// watch writes what happens to a resource after the version that the client knows.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	seen, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest")
		return
	}
	events := json.NewEncoder(w)
	for {
		a.mu.Lock()
		news, changed := a.history[min(seen, len(a.history)):], a.changed
		seen = len(a.history)
		a.mu.Unlock()
		for _, c := range news {
			if c.resource != resource {
				continue
			}
			if err := events.Encode(map[string]any{"type": c.kind, "object": c.object}); err != nil {
				return
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
