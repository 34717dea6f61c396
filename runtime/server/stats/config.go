package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// Groups reads control groups. *cgroupstat.Reader does.
type Groups interface {
	Usage(group string) (cgroupstat.Usage, error)
	Detail(group string) (cgroupstat.Detail, error)
	Pressure(group string) (cgroupstat.Pressure, error)
	// Children are the groups directly below one.
	Children(group string) ([]string, error)
	// Processes are those in the group itself.
	Processes(group string) ([]int, error)
}

// Runtime is the container runtime. *runtime.Client of this module is one.
type Runtime interface {
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Pod is a pod that has a sandbox.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Created is when its sandbox was.
	Created time.Time
	// Sandbox is the ID of the sandbox, which has the network; empty: there is none.
	Sandbox string
	// SandboxImage is the image that the sandbox runs; empty: not known.
	SandboxImage string
	// Group is its control group, such as /kubepods/pod1234; empty: there is none here.
	Group string
	// Logs is the directory with a directory for each container's logs; empty: there is
	// none.
	Logs string
	// Containers are those that run.
	Containers []Container
	// HasClaims says that it has volumes of PersistentVolumeClaims.
	HasClaims bool
}

// Container is a container that runs.
type Container struct {
	ID, Name, Image string
	Created         time.Time
}

// Volume is what a volume of a pod takes up, and what there is on its file system. Sizes are
// in bytes; what is not known is 0.
type Volume struct {
	// Name is that in the pod, Claim that of the PersistentVolumeClaim; empty: it is of
	// none.
	Name, Claim string
	// Local says that it lives with the pod on the disk of the node, so that it counts as
	// ephemeral storage.
	Local bool
	// Used is what it takes up, Size and Available are its file system's.
	Used, Size, Available uint64
	// InodesUsed, Inodes and InodesFree are the same in inodes.
	InodesUsed, Inodes, InodesFree uint64
}

// Machine is what the node is. Fields that are not known are left out of what is told.
type Machine struct {
	// Booted is when the machine was.
	Booted time.Time
	// MemoryBytes and SwapBytes are its sizes. HugePages is the part of MemoryBytes that is
	// kept for huge pages.
	MemoryBytes, SwapBytes, HugePages uint64
	// CPUs counts logical ones, Cores physical ones, Sockets packages.
	CPUs, Cores, Sockets int
	// ID, UUID and BootID are those of the Node's status.
	ID, UUID, BootID string
	// Kernel and OS are the versions of the Node's status.
	Kernel, OS string
}

// System names a control group of daemons, such as that of the kubelet.
type System struct {
	// Name is one of the constants SystemContainer… of the API of summaries.
	Name string
	// Group is the control group.
	Group string
	// Started is when its daemon was, or when the group was made; zero: not known.
	Started time.Time
}

// Config configures a Collector. Node and Pods are required, and one of Groups and Runtime.
type Config struct {
	// Node is its name.
	Node string
	// Pods returns the pods that have a sandbox. It must not block.
	Pods func() []Pod
	// Groups reads control groups; nil: only the runtime is asked.
	Groups Groups
	// Runtime is asked for what groups do not show; nil: nobody is.
	Runtime Runtime
	// Volumes measures the volumes of a pod, which may take long; nil: none are told of.
	// Those that it returns beside an error are told of, and the error goes to Log.
	Volumes func(ctx context.Context, uid types.UID) ([]Volume, error)
	// Machine describes the machine, whenever asked; nil: nothing is known.
	Machine func() Machine
	// System returns the groups of daemons and of all pods, whenever they are read. It must
	// not block. nil: there are none.
	System func() []System
	// Disk is a directory on the file system of the node; empty: /.
	Disk string
	// Ages says how old an answer may be.
	Ages Ages
	// Log gets what could not be read; nil discards.
	Log *slog.Logger
}

// Ages bounds the age of what is told.
type Ages struct {
	// Usage is for all but volumes; 0: ten seconds, as in a kubelet.
	Usage time.Duration
	// Volumes is for volumes; 0: a minute, volumeStatsAggPeriod of a kubelet. Negative:
	// volumes are not measured.
	Volumes time.Duration
	// Patience is how long a request waits for sources that are slow, all together; 0: a
	// second.
	Patience time.Duration
}

// The defaults of a kubelet
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ for volumes), and
// how long rates may reach back.
const (
	defaultUsageAge  = 10 * time.Second
	defaultVolumeAge = time.Minute
	defaultPatience  = time.Second
	maxRateWindow    = 5 * time.Minute
)

func (c *Config) validate() error {
	switch {
	case c.Node == "":
		return errors.New("stats: Config.Node is empty, want the name of the node")
	case c.Pods == nil:
		return errors.New("stats: Config.Pods is nil, want the function that lists pods")
	case c.Groups == nil && c.Runtime == nil:
		return errors.New("stats: Config.Groups and Config.Runtime are nil, want one of them")
	case c.Ages.Usage < 0:
		return fmt.Errorf("stats: Config.Ages.Usage is %s, want 0 (ten seconds) or more", c.Ages.Usage)
	case c.Ages.Patience < 0:
		return fmt.Errorf("stats: Config.Ages.Patience is %s, want 0 (a second) or more", c.Ages.Patience)
	}
	return nil
}

func (c *Config) setDefaults() {
	c.Ages.Usage = cmp.Or(c.Ages.Usage, defaultUsageAge)
	c.Ages.Volumes = cmp.Or(c.Ages.Volumes, defaultVolumeAge)
	c.Ages.Patience = cmp.Or(c.Ages.Patience, defaultPatience)
	c.Disk = cmp.Or(c.Disk, "/")
	if c.System == nil {
		c.System = func() []System { return nil }
	}
	if c.Machine == nil {
		c.Machine = func() Machine { return Machine{} }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
