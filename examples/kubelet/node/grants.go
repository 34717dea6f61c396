package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/userns"
)

// grants are what pods are given for their lives: the handler of their runtime class and
// users of their own.
type grants struct {
	users *userns.Allocator
	// class returns the handler of a runtime class; nil: there is no API server that
	// knows any.
	class func(ctx context.Context, name string) (string, error)
	// handlers asks the runtime what its handlers can.
	handlers func(ctx context.Context) ([]*runtimeapi.RuntimeHandler, error)

	mu sync.Mutex // guards given
	// given has the handlers of the pods' runtime classes. A pod keeps its own, also while
	// the API server is away: its containers have to be restarted then, too.
	given map[types.UID]string
}

func newGrants(ctx context.Context, n *Node, rt Runtime) (*grants, error) {
	cfg := userns.Config{Pods: filepath.Join(n.cfg.Root, "pods")}
	if u := n.cfg.Kubelet.UserNamespaces; u != nil && u.IDsPerPod != nil {
		if *u.IDsPerPod <= 0 || *u.IDsPerPod > math.MaxUint32 {
			return nil, fmt.Errorf("userNamespaces.idsPerPod is %d, want a multiple of 65536", *u.IDsPerPod)
		}
		cfg.PerPod = uint32(*u.IDsPerPod)
	}
	var err error
	if cfg.First, cfg.Length, err = subordinateIDs(ctx); err != nil {
		return nil, err
	}
	users, err := userns.New(cfg)
	if err != nil {
		return nil, err
	}
	g := &grants{users: users, handlers: func(ctx context.Context) ([]*runtimeapi.RuntimeHandler, error) {
		resp, err := rt.Status(ctx, false)
		return resp.GetRuntimeHandlers(), err
	}}
	if client := n.cfg.Client; client != nil {
		g.class = func(ctx context.Context, name string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, objectTimeout)
			defer cancel()
			class, err := client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "", fmt.Errorf("RuntimeClass %q not found", name)
			}
			if err != nil {
				return "", fmt.Errorf("get RuntimeClass %q: %w", name, err)
			}
			return class.Handler, nil
		}
	}
	return g, nil
}

// subordinateIDs returns the IDs that the machine keeps for the user kubelet, 0 if there
// is no such user or no getsubids(1).
func subordinateIDs(ctx context.Context) (first, length uint32, err error) {
	const name, program = "kubelet", "getsubids"
	if _, err := user.Lookup(name); errors.As(err, new(user.UnknownUserError)) {
		return 0, 0, nil
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("find %s: %w", program, err)
	}
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	users, err := exec.CommandContext(ctx, path, name).Output()
	if err != nil {
		return 0, 0, fmt.Errorf("ask %s for the user IDs of %s: %w", program, name, err)
	}
	groups, err := exec.CommandContext(ctx, path, "-g", name).Output()
	if err != nil {
		return 0, 0, fmt.Errorf("ask %s for the group IDs of %s: %w", program, name, err)
	}
	if !bytes.Equal(users, groups) {
		return 0, 0, fmt.Errorf("%s has other user IDs for %s than group IDs", program, name)
	}
	return userns.ParseSubIDs(users)
}

// of returns what a pod is given, the same each time.
func (g *grants) of(ctx context.Context, pod *corev1.Pod) (podspec.Grant, error) {
	var grant podspec.Grant
	name := ""
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" {
		if g.class == nil {
			return grant, errors.New("runtime classes need an API server")
		}
		var err error
		if name, err = g.handler(ctx, pod.UID, *class); err != nil {
			return grant, err
		}
	}
	grant.Handler.Name = name
	if !asksForFeatures(pod) {
		return grant, nil
	}
	handlers, err := g.handlers(ctx)
	if err != nil {
		return grant, fmt.Errorf("ask the runtime for its handlers: %w", err)
	}
	grant.Handler = handlerNamed(handlers, name)
	if users := pod.Spec.HostUsers; users == nil || *users {
		return grant, nil
	}
	if !grant.Handler.UserNamespaces {
		return grant, errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	}
	ids, err := g.users.Get(pod.UID)
	if err != nil {
		return grant, err
	}
	own := podspec.UserNamespace(ids)
	grant.Users = &own
	return grant, nil
}

// handler returns the handler of a pod's runtime class.
func (g *grants) handler(ctx context.Context, uid types.UID, class string) (string, error) {
	g.mu.Lock()
	name, known := g.given[uid]
	g.mu.Unlock()
	if known {
		return name, nil
	}
	name, err := g.class(ctx, class)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.given == nil {
		g.given = map[types.UID]string{}
	}
	g.given[uid] = name
	return name, nil
}

// asksForFeatures reports whether a pod needs to know what its handler can.
func asksForFeatures(pod *corev1.Pod) bool {
	if users := pod.Spec.HostUsers; users != nil && !*users {
		return true
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.RecursiveReadOnly != nil }) {
				return true
			}
		}
	}
	return false
}

// handlerNamed returns what a handler can. Older runtimes do not say; then it can
// nothing beyond the usual.
func handlerNamed(list []*runtimeapi.RuntimeHandler, name string) podspec.Handler {
	h := podspec.Handler{Name: name}
	for _, l := range list {
		if l.GetName() == name {
			h.RecursiveReadOnly = l.GetFeatures().GetRecursiveReadOnlyMounts()
			h.UserNamespaces = l.GetFeatures().GetUserNamespaces()
		}
	}
	return h
}

// release takes back what a pod was given.
func (g *grants) release(uid types.UID) {
	g.users.Release(uid)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.given, uid)
}
