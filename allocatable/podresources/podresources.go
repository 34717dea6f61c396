package podresources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
)

// Pods are those of the node.
type Pods interface {
	// Active returns the pods that hold resources: admitted and not ended.
	Active() []*corev1.Pod
	// Named returns a pod of the node, also one that is not active.
	Named(namespace, name string) (*corev1.Pod, bool)
}

// Devices are what device plugins have, by the names of resources. *devices.Manager is
// one.
type Devices interface {
	Assigned(uid types.UID, container string) map[string][]devices.Device
	Allocatable() map[string][]devices.Device
}

// CPUs are those that single containers have for themselves, by number in order.
type CPUs interface {
	Assigned(uid types.UID, container string) []int
	Allocatable() []int
}

// Memory is that which single containers have for themselves.
type Memory interface {
	Assigned(uid types.UID, container string) []Block
	Allocatable() []Block
}

// Block is memory of one kind.
type Block struct {
	// Type is "memory" or the name of huge pages, such as "hugepages-2Mi".
	Type corev1.ResourceName
	// Size is in bytes.
	Size uint64
	// Nodes are the NUMA nodes it is on.
	Nodes []int
}

// Config is where a [Server] asks. Pods is required.
type Config struct {
	Pods Pods
	// Devices, CPUs and Memory are what the node hands out; nil: nothing of it.
	Devices Devices
	CPUs    CPUs
	Memory  Memory
	// Asked is told each call, "List", "Get" or "GetAllocatableResources", and how it went,
	// for metrics; it must not block. nil: nobody listens.
	Asked func(method string, err error)
	// Log gets what keeps it from serving; nil discards.
	Log *slog.Logger
}

// The limits of a kubelet (k8s.io/kubernetes/pkg/kubelet/apis/podresources).
const (
	perSecond = 100
	burst     = 10
)

// Server answers. Make one with New.
type Server struct {
	resourcesapi.UnimplementedPodResourcesListerServer
	cfg   Config
	limit bucket
}

// New returns a Server that does not serve yet.
func New(cfg Config) (*Server, error) {
	if cfg.Pods == nil {
		return nil, errors.New("podresources: Config.Pods is nil, want the pods of the node")
	}
	if cfg.Asked == nil {
		cfg.Asked = func(string, error) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, limit: bucket{perSecond: perSecond, burst: burst}}, nil
}

// Run serves on a listener, which it closes, until ctx ends; then it returns nil. Calls
// that are out are cut off.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(s.admit))
	resourcesapi.RegisterPodResourcesListerServer(server, s)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("podresources: serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// admit rejects what is beyond the limit.
func (s *Server) admit(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !s.limit.take() {
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	return handler(ctx, req)
}

// List returns what the containers of all active pods have.
func (s *Server) List(context.Context, *resourcesapi.ListPodResourcesRequest) (*resourcesapi.ListPodResourcesResponse, error) {
	out := &resourcesapi.ListPodResourcesResponse{}
	for _, pod := range s.cfg.Pods.Active() {
		out.PodResources = append(out.PodResources, s.pod(pod))
	}
	s.cfg.Asked("List", nil)
	return out, nil
}

// Get returns what the containers of one pod have.
func (s *Server) Get(_ context.Context, r *resourcesapi.GetPodResourcesRequest) (*resourcesapi.GetPodResourcesResponse, error) {
	pod, ok := s.cfg.Pods.Named(r.GetPodNamespace(), r.GetPodName())
	if !ok {
		err := fmt.Errorf("pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
		s.cfg.Asked("Get", err)
		return nil, err
	}
	s.cfg.Asked("Get", nil)
	return &resourcesapi.GetPodResourcesResponse{PodResources: s.pod(pod)}, nil
}

// GetAllocatableResources returns what containers can have, whoever has it.
func (s *Server) GetAllocatableResources(context.Context, *resourcesapi.AllocatableResourcesRequest) (*resourcesapi.AllocatableResourcesResponse, error) {
	out := &resourcesapi.AllocatableResourcesResponse{}
	if s.cfg.Devices != nil {
		out.Devices = containerDevices(s.cfg.Devices.Allocatable())
	}
	if s.cfg.CPUs != nil {
		out.CpuIds = numbers(s.cfg.CPUs.Allocatable())
	}
	if s.cfg.Memory != nil {
		out.Memory = containerMemory(s.cfg.Memory.Allocatable())
	}
	s.cfg.Asked("GetAllocatableResources", nil)
	return out, nil
}

// pod returns what the sidecars and the regular containers of a pod have; init containers
// have ended when these run.
func (s *Server) pod(pod *corev1.Pod) *resourcesapi.PodResources {
	out := &resourcesapi.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	for i := range pod.Spec.InitContainers {
		if p := pod.Spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			out.Containers = append(out.Containers, s.container(pod.UID, pod.Spec.InitContainers[i].Name))
		}
	}
	for i := range pod.Spec.Containers {
		out.Containers = append(out.Containers, s.container(pod.UID, pod.Spec.Containers[i].Name))
	}
	return out
}

func (s *Server) container(uid types.UID, name string) *resourcesapi.ContainerResources {
	out := &resourcesapi.ContainerResources{Name: name}
	if s.cfg.Devices != nil {
		out.Devices = containerDevices(s.cfg.Devices.Assigned(uid, name))
	}
	if s.cfg.CPUs != nil {
		out.CpuIds = numbers(s.cfg.CPUs.Assigned(uid, name))
	}
	if s.cfg.Memory != nil {
		out.Memory = containerMemory(s.cfg.Memory.Assigned(uid, name))
	}
	return out
}
