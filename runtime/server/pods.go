package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods are the pods of a node. What they return is not changed here.
type Pods interface {
	// List returns all pods that the agent has to run. An error means that they are not
	// known yet, which is answered with 503.
	List(ctx context.Context) ([]*corev1.Pod, error)
	// Find returns the pod of a name with its newest status, false if there is none.
	Find(namespace, name string) (*corev1.Pod, bool)
}

// AllocatedPods is an ability of Pods: to tell which pods hold resources of the node, and
// which resources.
type AllocatedPods interface {
	// Allocated returns these pods. Their resources are those that they were given.
	Allocated(ctx context.Context) ([]*corev1.Pod, error)
}

// MirroredPods is an ability of Pods: to tell which objects of an API server stand for pods
// that have another UID, as mirrors of static pods do. Who knows a pod from there asks for it
// by the UID of the mirror.
type MirroredPods interface {
	// MirrorUID returns the UID of the mirror of a pod, "" if it has none.
	MirrorUID(pod *corev1.Pod) types.UID
}

// RunningPods tells of pods that run, whoever wanted them.
type RunningPods interface {
	// Running returns, for each pod, its name, namespace and UID, and those of its containers
	// that run.
	Running(ctx context.Context) ([]*corev1.Pod, error)
}

// servePods answers with all pods.
func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	var pods []*corev1.Pod
	if s.cfg.Pods != nil {
		var err error
		if pods, err = s.cfg.Pods.List(r.Context()); err != nil {
			fail(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	sendPods(w, pods)
}

// sendPods answers with a PodList, pod by pod: a node with many pods is asked often, and
// its list takes megabytes.
func sendPods(w http.ResponseWriter, pods []*corev1.Pod) {
	sendHeader(w, http.StatusOK)
	out := bufio.NewWriter(w)
	defer out.Flush() //nolint:errcheck // who asked may have gone
	before := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`
	encode := json.NewEncoder(out) // which makes no copies
	for _, pod := range pods {
		_, _ = out.WriteString(before)
		if err := encode.Encode(pod); err != nil {
			panic(http.ErrAbortHandler) // what was sent is no list
		}
		before = ","
	}
	if len(pods) == 0 {
		_, _ = out.WriteString(before)
	}
	_, _ = out.WriteString("]}")
}

// serveRunning answers with what runs.
func (s *Server) serveRunning(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Containers.Running == nil {
		missing(w, "the list of running pods")
		return
	}
	pods, err := s.cfg.Containers.Running.Running(r.Context())
	if err != nil {
		failAt(w, err)
		return
	}
	sendPods(w, pods)
}

// serveAllocated answers with the pods that hold resources.
func (s *Server) serveAllocated(w http.ResponseWriter, r *http.Request) {
	pods, ok := s.allocated(w, r)
	if !ok {
		return
	}
	bare := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		bare[i] = &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	}
	sendPods(w, bare)
}

// serveAllocatedPod answers with one of them.
func (s *Server) serveAllocatedPod(w http.ResponseWriter, r *http.Request) {
	pods, ok := s.allocated(w, r)
	if !ok {
		return
	}
	uid := types.UID(r.PathValue("uid"))
	for _, pod := range pods {
		if pod.Namespace != r.PathValue("namespace") || pod.Name != r.PathValue("pod") || uid != "" && pod.UID != uid {
			continue
		}
		found := *pod
		found.TypeMeta, found.Status = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, corev1.PodStatus{}
		sendJSON(w, found)
		return
	}
	fail(w, http.StatusNotFound, "pod not found")
}

func (s *Server) allocated(w http.ResponseWriter, r *http.Request) ([]*corev1.Pod, bool) {
	able, ok := s.cfg.Pods.(AllocatedPods)
	if !ok {
		missing(w, "the list of allocated pods")
		return nil, false
	}
	pods, err := able.Allocated(r.Context())
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return nil, false
	}
	return pods, true
}

// Container names a container of a pod.
type Container struct {
	Pod  *corev1.Pod
	Name string
}

// pod finds the pod of a request, or answers that there is none.
func (s *Server) pod(w http.ResponseWriter, r *http.Request, text string) (*corev1.Pod, bool) {
	if s.cfg.Pods == nil {
		fail(w, http.StatusNotFound, text)
		return nil, false
	}
	pod, ok := s.cfg.Pods.Find(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok {
		fail(w, http.StatusNotFound, text)
		return nil, false
	}
	if uid := types.UID(r.PathValue("uid")); uid != "" && pod.UID != uid && !s.mirrors(uid, pod) {
		fail(w, http.StatusNotFound, "pod not found")
		return nil, false
	}
	return pod, true
}

// mirrors reports whether a UID is that of the mirror of a pod.
func (s *Server) mirrors(uid types.UID, pod *corev1.Pod) bool {
	able, ok := s.cfg.Pods.(MirroredPods)
	return ok && able.MirrorUID(pod) == uid
}

// container finds the container of a request in the pod's spec, or answers that there is
// none.
func (s *Server) container(w http.ResponseWriter, r *http.Request, text string) (Container, bool) {
	pod, ok := s.pod(w, r, text)
	if !ok {
		return Container{}, false
	}
	c := Container{Pod: pod, Name: r.PathValue("container")}
	if _, ok := c.spec(); !ok {
		fail(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", c.Name, pod.Name))
		return Container{}, false
	}
	return c, true
}

// spec returns what the pod says of the container, false if nothing.
func (c Container) spec() (*corev1.Container, bool) {
	for i := range c.Pod.Spec.Containers {
		if s := &c.Pod.Spec.Containers[i]; s.Name == c.Name {
			return s, true
		}
	}
	for i := range c.Pod.Spec.InitContainers {
		if s := &c.Pod.Spec.InitContainers[i]; s.Name == c.Name {
			return s, true
		}
	}
	for i := range c.Pod.Spec.EphemeralContainers {
		if s := &c.Pod.Spec.EphemeralContainers[i]; s.Name == c.Name {
			return (*corev1.Container)(&s.EphemeralContainerCommon), true
		}
	}
	return nil, false
}

// status returns what the pod's status says of the container, false if nothing.
func (c Container) status() (corev1.ContainerStatus, bool) {
	st := &c.Pod.Status
	for _, list := range [][]corev1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == c.Name {
				return list[i], true
			}
		}
	}
	return corev1.ContainerStatus{}, false
}
