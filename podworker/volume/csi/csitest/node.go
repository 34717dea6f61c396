package csitest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ephemeral is set in the context of a volume that lives with its pod, where the agent
// is asked to tell about pods.
const ephemeral = "csi.storage.k8s.io/ephemeral"

// node is the node service.
type node struct {
	csiapi.UnimplementedNodeServer
	cfg    Config
	mounts Mounter

	mu         sync.Mutex // guards the fields below
	calls      []Call
	misuse     []string
	faults     map[string]*injected
	busy       map[string]string // the method that runs, by handle
	published  map[string]string // the handle, by target
	usages     map[string][]*csiapi.VolumeUsage
	max        int64 // volumes that can be attached
	registered bool
	refused    string
}

func newNode(cfg Config) *node {
	return &node{cfg: cfg, max: cfg.MaxVolumes, mounts: cfg.Mounter, faults: map[string]*injected{}, busy: map[string]string{}, published: map[string]string{}, usages: map[string][]*csiapi.VolumeUsage{}}
}

func (n *node) volume(handle string) string {
	return filepath.Join(n.cfg.Dir, "volumes", fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
}

func (n *node) can(c csiapi.NodeServiceCapability_RPC_Type) bool {
	return slices.Contains(n.cfg.Capabilities, c)
}

// do notes a call and does it, or the fault that was injected.
func (n *node) do(ctx context.Context, c Call, do func() error) error {
	fault, err := n.begin(c)
	if err != nil {
		return err
	}
	defer n.end(c)
	if fault != nil {
		return fault(ctx, do)
	}
	return do()
}

func (n *node) begin(c Call) (Fault, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.Volume != "" {
		n.calls = append(n.calls, c)
		if other := n.busy[c.Volume]; other != "" {
			n.misuse = append(n.misuse, fmt.Sprintf("%s of %s while %s is going on", c.Op, c.Volume, other))
			return nil, status.Errorf(codes.Aborted, "%s of %s is going on", other, c.Volume)
		}
		n.busy[c.Volume] = c.Op
	}
	return n.faultLocked(c.Op), nil
}

// faultLocked returns what the next call of a method does instead; nil: what it should.
func (n *node) faultLocked(op string) Fault {
	in := n.faults[op]
	if in == nil {
		return nil
	}
	if in.left--; in.left == 0 && !in.always {
		delete(n.faults, op)
	}
	return in.fault
}

func (n *node) end(c Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.busy, c.Volume)
}

// wrong notes what an agent must not do, and refuses it.
func (n *node) wrong(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.misuse = append(n.misuse, text)
	return status.Error(codes.FailedPrecondition, text)
}

// NodeGetInfo says what the driver calls the node.
func (n *node) NodeGetInfo(ctx context.Context, _ *csiapi.NodeGetInfoRequest) (*csiapi.NodeGetInfoResponse, error) {
	n.mu.Lock()
	most := n.max
	n.mu.Unlock()
	info := &csiapi.NodeGetInfoResponse{NodeId: n.cfg.NodeID, MaxVolumesPerNode: most}
	if len(n.cfg.Topology) > 0 {
		info.AccessibleTopology = &csiapi.Topology{Segments: n.cfg.Topology}
	}
	return info, n.do(ctx, Call{Op: "NodeGetInfo"}, func() error { return nil })
}

// NodeGetCapabilities says what the driver can do.
func (n *node) NodeGetCapabilities(ctx context.Context, _ *csiapi.NodeGetCapabilitiesRequest) (*csiapi.NodeGetCapabilitiesResponse, error) {
	out := &csiapi.NodeGetCapabilitiesResponse{}
	for _, c := range n.cfg.Capabilities {
		out.Capabilities = append(out.Capabilities, &csiapi.NodeServiceCapability{
			Type: &csiapi.NodeServiceCapability_Rpc{Rpc: &csiapi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, n.do(ctx, Call{Op: "NodeGetCapabilities"}, func() error { return nil })
}

// NodeStageVolume binds the directory of a volume to a place for all pods.
func (n *node) NodeStageVolume(ctx context.Context, r *csiapi.NodeStageVolumeRequest) (*csiapi.NodeStageVolumeResponse, error) {
	c := Call{
		Op: "NodeStageVolume", Volume: r.GetVolumeId(), Staging: r.GetStagingTargetPath(), Context: r.GetVolumeContext(),
		Secrets: r.GetSecrets(), PublishContext: r.GetPublishContext(), Capability: r.GetVolumeCapability(),
	}
	return &csiapi.NodeStageVolumeResponse{}, n.do(ctx, c, func() error {
		if r.GetVolumeCapability().GetBlock() != nil {
			return nil // the device is bound by publishing
		}
		dir := n.volume(c.Volume)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return n.bind(dir, c.Staging, false)
	})
}

// NodeUnstageVolume undoes that, once nothing is published.
func (n *node) NodeUnstageVolume(ctx context.Context, r *csiapi.NodeUnstageVolumeRequest) (*csiapi.NodeUnstageVolumeResponse, error) {
	c := Call{Op: "NodeUnstageVolume", Volume: r.GetVolumeId(), Staging: r.GetStagingTargetPath()}
	return &csiapi.NodeUnstageVolumeResponse{}, n.do(ctx, c, func() error {
		for target, handle := range n.publishedNow() {
			if handle == c.Volume {
				return n.wrong("NodeUnstageVolume of %s while it is published at %s", c.Volume, target)
			}
		}
		return n.unbind(c.Staging)
	})
}

func (n *node) publishedNow() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.published)
}

// NodePublishVolume binds a volume to a place for a pod.
func (n *node) NodePublishVolume(ctx context.Context, r *csiapi.NodePublishVolumeRequest) (*csiapi.NodePublishVolumeResponse, error) {
	c := Call{
		Op: "NodePublishVolume", Volume: r.GetVolumeId(), Staging: r.GetStagingTargetPath(), Target: r.GetTargetPath(), ReadOnly: r.GetReadonly(),
		Context: r.GetVolumeContext(), Secrets: r.GetSecrets(), PublishContext: r.GetPublishContext(), Capability: r.GetVolumeCapability(),
	}
	return &csiapi.NodePublishVolumeResponse{}, n.do(ctx, c, func() error { return n.publish(c) })
}

func (n *node) publish(c Call) error {
	source := n.volume(c.Volume)
	block := c.Capability.GetBlock() != nil
	switch {
	case block:
		source += ".dev"
	case n.can(csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME) && c.Context[ephemeral] != "true":
		if on, err := n.mounts.Mounted(c.Staging); err != nil || !on {
			return n.wrong("NodePublishVolume of %s that is not staged at %q (%v)", c.Volume, c.Staging, err)
		}
		source = c.Staging
	default:
		if err := os.MkdirAll(source, 0o777); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	if err := place(c.Target, block); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := n.bind(source, c.Target, c.ReadOnly); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.published[c.Target] = c.Volume
	return nil
}

// place makes what something is bound to, if it does not exist.
func place(target string, file bool) error {
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !file {
		return os.Mkdir(target, 0o755)
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	return f.Close()
}

// NodeUnpublishVolume undoes that, and removes the place.
func (n *node) NodeUnpublishVolume(ctx context.Context, r *csiapi.NodeUnpublishVolumeRequest) (*csiapi.NodeUnpublishVolumeResponse, error) {
	c := Call{Op: "NodeUnpublishVolume", Volume: r.GetVolumeId(), Target: r.GetTargetPath()}
	return &csiapi.NodeUnpublishVolumeResponse{}, n.do(ctx, c, func() error {
		if err := n.unbind(c.Target); err != nil {
			return err
		}
		if err := os.Remove(c.Target); err != nil && !errors.Is(err, os.ErrNotExist) {
			return status.Error(codes.Internal, err.Error())
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.published, c.Target)
		return nil
	})
}

// NodeExpandVolume takes any size.
func (n *node) NodeExpandVolume(ctx context.Context, r *csiapi.NodeExpandVolumeRequest) (*csiapi.NodeExpandVolumeResponse, error) {
	c := Call{
		Op: "NodeExpandVolume", Volume: r.GetVolumeId(), Staging: r.GetStagingTargetPath(), Target: r.GetVolumePath(),
		Secrets: r.GetSecrets(), Capability: r.GetVolumeCapability(), Bytes: r.GetCapacityRange().GetRequiredBytes(),
	}
	return &csiapi.NodeExpandVolumeResponse{CapacityBytes: c.Bytes}, n.do(ctx, c, func() error { return nil })
}

// bind binds once: what is bound already stays.
func (n *node) bind(source, target string, readOnly bool) error {
	on, err := n.mounts.Mounted(target)
	if err == nil && !on {
		err = n.mounts.Bind(source, target, readOnly)
	}
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// unbind undoes what is bound, if it is.
func (n *node) unbind(target string) error {
	on, err := n.mounts.Mounted(target)
	if err == nil && on {
		err = n.mounts.Unmount(target)
	}
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// NodeGetVolumeStats tells what a volume takes up: what SetUsage said, or else its content
// out of a gibibyte. It is no call that others about the volume have to wait for.
func (n *node) NodeGetVolumeStats(ctx context.Context, r *csiapi.NodeGetVolumeStatsRequest) (*csiapi.NodeGetVolumeStatsResponse, error) {
	if !n.can(csiapi.NodeServiceCapability_RPC_GET_VOLUME_STATS) {
		return nil, n.wrong("NodeGetVolumeStats of %s without the capability", r.GetVolumeId())
	}
	if handle := n.publishedNow()[r.GetVolumePath()]; handle != r.GetVolumeId() {
		return nil, status.Errorf(codes.NotFound, "%s is not at %s", r.GetVolumeId(), r.GetVolumePath())
	}
	out := &csiapi.NodeGetVolumeStatsResponse{}
	do := func() (err error) {
		out.Usage, err = n.usage(r.GetVolumeId())
		return err
	}
	n.mu.Lock()
	fault := n.faultLocked("NodeGetVolumeStats")
	n.mu.Unlock()
	if fault != nil {
		return out, fault(ctx, do)
	}
	return out, do()
}

// usage is what a volume takes up.
func (n *node) usage(handle string) ([]*csiapi.VolumeUsage, error) {
	n.mu.Lock()
	said, ok := n.usages[handle]
	n.mu.Unlock()
	if ok {
		return said, nil
	}
	const size, inodes = 1 << 30, 1000
	bytes := &csiapi.VolumeUsage{Unit: csiapi.VolumeUsage_BYTES, Total: size}
	files := &csiapi.VolumeUsage{Unit: csiapi.VolumeUsage_INODES, Total: inodes}
	err := filepath.WalkDir(n.volume(handle), func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files.Used++
		if info, err := e.Info(); err == nil && e.Type().IsRegular() {
			bytes.Used += info.Size()
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	bytes.Available, files.Available = size-bytes.Used, inodes-files.Used
	return []*csiapi.VolumeUsage{bytes, files}, nil
}
