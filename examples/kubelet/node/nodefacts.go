package node

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// facts collects what the status of the Node tells.
func (h *heartbeat) facts(ctx context.Context) (nodestatus.Facts, error) {
	k := h.node.cfg.Kubelet
	r := h.node.resources.p.Load()
	addresses, addressErr := h.cfg.Addresses.Addresses(ctx, h.cfg.Host)
	if len(addresses) > 0 {
		h.found.Store(&addresses)
	}
	images, imageErr := h.images(ctx)
	f := nodestatus.Facts{
		Status: corev1.NodeStatus{
			Addresses:       addresses,
			Capacity:        r.Capacity,
			Allocatable:     r.Allocatable,
			NodeInfo:        r.machine.Info,
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: k.Port}},
			Images:          images,
			VolumesInUse:    h.node.inUse(),
		},
		Provisional:    h.cfg.Addresses.CloudProvider,
		ProvidedIPs:    h.cfg.Addresses.Provided(),
		GoingDown:      h.node.goingDown(),
		NoLocalStorage: ignoresStorage(k),
	}
	h.node.devices.overlay(&f.Status)
	if k.NodeStatusMaxImages != nil {
		f.MaxImages = int(*k.NodeStatusMaxImages)
	}
	if f.MaxImages == 0 {
		f.Status.Images = []corev1.ContainerImage{}
	}
	f.Status.NodeInfo.KubeletVersion = program.Version()
	f.Status.NodeInfo.RunningInUserNamespace = inUserNamespace(k, identityMap)
	status, version := h.runtime.last()
	f.Status.NodeInfo.ContainerRuntimeVersion = runtimeVersion(version)
	f.Status.RuntimeHandlers = handlers(status.GetRuntimeHandlers())
	f.Status.Features = features(status)
	f.Status.DeclaredFeatures = declaredFeatures()
	return f, errors.Join(addressErr, imageErr)
}

// declaredFeatures are those features that the scheduler and the API server ask a node
// for which are here; the kubelet of this release declares the same by default
// (https://pkg.go.dev/k8s.io/component-helpers/nodedeclaredfeatures/features).
func declaredFeatures() []string {
	return []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits",
	}
}

// images lists the images on the runtime; nil before it has answered.
func (h *heartbeat) images(ctx context.Context) ([]corev1.ContainerImage, error) {
	a := h.node.agent.get()
	if a == nil {
		return nil, nil
	}
	list, err := a.runtime.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	images := make([]corev1.ContainerImage, 0, len(list))
	for _, i := range list {
		names := append(append([]string{}, i.GetRepoDigests()...), i.GetRepoTags()...)
		images = append(images, corev1.ContainerImage{Names: names, SizeBytes: int64(i.GetSize())}) //nolint:gosec // no image has 8 EiB
	}
	return images, nil
}

// runtimeVersion returns the version as a status has it, like "containerd://2.4.2".
func runtimeVersion(v *runtimeapi.VersionResponse) string {
	if v == nil {
		return "Unknown"
	}
	return v.GetRuntimeName() + "://" + v.GetRuntimeVersion()
}

// features returns what a runtime can do as a status has it; nil if it does not say.
func features(st *runtimeapi.StatusResponse) *corev1.NodeFeatures {
	if st.GetFeatures() == nil {
		return nil
	}
	groups := st.GetFeatures().GetSupplementalGroupsPolicy()
	return &corev1.NodeFeatures{SupplementalGroupsPolicy: &groups}
}

// handlers returns the runtime's handlers as a status has them; nil if there are none.
func handlers(list []*runtimeapi.RuntimeHandler) []corev1.NodeRuntimeHandler {
	var out []corev1.NodeRuntimeHandler
	for _, h := range list {
		readOnly, users := h.GetFeatures().GetRecursiveReadOnlyMounts(), h.GetFeatures().GetUserNamespaces()
		out = append(out, corev1.NodeRuntimeHandler{
			Name:     h.GetName(),
			Features: &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &readOnly, UserNamespaces: &users},
		})
	}
	return out
}
