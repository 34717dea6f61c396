package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// capabilities are what the node service of a driver can do beyond publishing.
type capabilities struct {
	stage       bool // stages a volume once for all pods of the node
	expand      bool // makes a file system grow
	group       bool // gives a volume to a group itself
	multiWriter bool // knows whether pods of one node share a volume
	usage       bool // tells what a volume takes up
}

// driver is one that is registered. It is not changed.
type driver struct {
	name     string
	endpoint string
	timeout  time.Duration
	onCall   func(Call)
	can      capabilities
	node     nodeInfo
}

// Call is one to a driver that has ended.
type Call struct {
	// Op is the method of CSI, such as NodePublishVolume, and Driver is whom it was made to.
	Op, Driver string
	// Took is how long it took.
	Took time.Duration
	// Err is what it failed with, a status of gRPC; nil: it did not.
	Err error
}

// nodeInfo is what a driver calls this node.
type nodeInfo struct {
	id       string
	max      int64 // volumes that can be attached, 0: any number
	topology map[string]string
}

// CallError is a call to a driver that failed.
type CallError struct {
	// Op is the method of CSI, such as NodePublishVolume.
	Op string
	// Driver is its name.
	Driver string
	// Volume is the handle, empty for calls that concern none.
	Volume string
	// Err is the status that the driver returned, or why it did not.
	Err error
}

func (e *CallError) Error() string {
	if e.Volume == "" {
		return fmt.Sprintf("%s of driver %s: %v", e.Op, e.Driver, e.Err)
	}
	return fmt.Sprintf("%s of driver %s for volume %s: %v", e.Op, e.Driver, e.Volume, e.Err)
}

func (e *CallError) Unwrap() error { return e.Err }

// final reports whether a failed call is over for sure, and did not make what it was to
// make: by gRPC's and CSI's meanings of codes
// (https://github.com/container-storage-interface/spec/blob/master/spec.md#error-scheme).
func final(err error) bool {
	failed, ok := errors.AsType[*CallError](err)
	if !ok {
		return false
	}
	s, ok := status.FromError(failed.Err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// call does one call to the driver over a connection of its own: drivers are restarted,
// and a call each few minutes is worth no connection that stays.
func (d *driver) call(ctx context.Context, op, handle string, do func(ctx context.Context, c csiapi.NodeClient) error) error {
	failed := func(err error) error { return &CallError{Op: op, Driver: d.name, Volume: handle, Err: err} }
	conn, err := grpc.NewClient("passthrough:///driver",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", d.endpoint)
		}))
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	bounded, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	began := time.Now()
	err = do(bounded, csiapi.NewNodeClient(conn))
	d.onCall(Call{Op: op, Driver: d.name, Took: time.Since(began), Err: err})
	if err != nil {
		return failed(err)
	}
	return nil
}

// Bounds of what a driver may say about the node: those of the API for CSINode.
const (
	maxNodeID   = 192 // bytes
	maxTopology = 64
)

// introduce asks the driver what it calls this node and what it can do.
func (d *driver) introduce(ctx context.Context) error {
	err := d.call(ctx, "NodeGetInfo", "", func(ctx context.Context, c csiapi.NodeClient) error {
		info, err := c.NodeGetInfo(ctx, &csiapi.NodeGetInfoRequest{})
		if err == nil {
			d.node, err = nodeInfoOf(info)
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.call(ctx, "NodeGetCapabilities", "", func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeGetCapabilities(ctx, &csiapi.NodeGetCapabilitiesRequest{})
		d.can = capabilitiesOf(answer)
		return err
	})
}

func nodeInfoOf(info *csiapi.NodeGetInfoResponse) (nodeInfo, error) {
	n := nodeInfo{id: info.GetNodeId(), max: info.GetMaxVolumesPerNode(), topology: info.GetAccessibleTopology().GetSegments()}
	switch {
	case n.id == "":
		return nodeInfo{}, errors.New("the driver gives this node no ID")
	case len(n.id) > maxNodeID:
		return nodeInfo{}, fmt.Errorf("the driver gives this node an ID of %d bytes, want at most %d", len(n.id), maxNodeID)
	case n.max < 0:
		return nodeInfo{}, fmt.Errorf("the driver can attach %d volumes, want no negative number", n.max)
	case len(n.topology) > maxTopology:
		return nodeInfo{}, fmt.Errorf("the driver names %d labels, want at most %d", len(n.topology), maxTopology)
	}
	return n, nil
}

func capabilitiesOf(answer *csiapi.NodeGetCapabilitiesResponse) capabilities {
	var out capabilities
	for _, c := range answer.GetCapabilities() {
		switch c.GetRpc().GetType() {
		case csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			out.stage = true
		case csiapi.NodeServiceCapability_RPC_EXPAND_VOLUME:
			out.expand = true
		case csiapi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			out.group = true
		case csiapi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			out.multiWriter = true
		case csiapi.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			out.usage = true
		}
	}
	return out
}

// supported reports whether a driver speaks a version of CSI that this package does: all
// versions 1 are compatible.
func supported(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool {
		major, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), ".")
		return major == "1"
	})
}

// drivers are those that are registered.
type drivers struct {
	mu     sync.Mutex // guards byName
	byName map[string]*driver
}

// get returns a driver. One that is not there may come at any time.
func (d *drivers) get(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.byName[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// set adds a driver, or removes it with nil.
func (d *drivers) set(name string, to *driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if to == nil {
		delete(d.byName, name)
		return
	}
	d.byName[name] = to
}

// removeAt removes a driver if it is the one at an endpoint.
func (d *drivers) removeAt(name, endpoint string) (removed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.byName[name]; now == nil || now.endpoint != endpoint {
		return false
	}
	delete(d.byName, name)
	return true
}

// names returns the registered drivers, sorted.
func (d *drivers) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.byName))
}
