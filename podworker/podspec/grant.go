package podspec

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Grant is what a pod was given by the agent for its whole life. The same value goes
// to [Sandbox] and to every [Container] of the pod. The zero value is a pod with the
// users of the host on the runtime's default handler.
type Grant struct {
	// Users are the users of a pod with hostUsers: false; nil: it has the host's.
	Users *UserNamespace
	// Handler runs the pod.
	Handler Handler
	// Groups are the groups that own volumes of the pod, beside fsGroup.
	Groups []int64
}

// UserNamespace is the range of host IDs, for users and groups alike, that the IDs
// of a pod from 0 on stand for
// (https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/).
type UserNamespace struct {
	// First is the host ID of the pod's root, Length how many IDs there are.
	First, Length uint32
}

// Handler is what a runtime class stands for: a way of the runtime to run pods. The
// zero value is the runtime's default without optional features.
type Handler struct {
	// Name is the runtime's name of it, empty for the default.
	Name string
	// RecursiveReadOnly is true if mounts below a read-only mount can be read-only,
	// too.
	RecursiveReadOnly bool
	// UserNamespaces is true if pods can have users of their own.
	UserNamespaces bool
}

// option returns the namespace as CRI v1 wants it, nil for the users of the host.
func (u *UserNamespace) option() *runtimeapi.UserNamespace {
	if u == nil {
		return nil
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: u.mappings(), Gids: u.mappings()}
}

func (u *UserNamespace) mappings() []*runtimeapi.IDMapping {
	if u == nil {
		return nil
	}
	return []*runtimeapi.IDMapping{{HostId: u.First, ContainerId: 0, Length: u.Length}}
}
