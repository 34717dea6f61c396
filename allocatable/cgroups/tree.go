//go:build linux

package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Config is how a [Tree] works. Mounts and Class are required.
type Config struct {
	// Mounts are the hierarchies to write, see [Mounted].
	Mounts []Mount
	// Root is the parent of kubepods; empty: "/". It is made if it is not there.
	Root string
	// Class returns the quality of service of a pod, which says where it is. It has to
	// be the same function by which the runtime is told the parent of the pod's cgroup.
	Class func(pod *corev1.Pod) corev1.PodQOSClass
	// Rules are what the node adds to the limits of pods.
	Rules Rules
	// Pinned reports whether a pod has CPUs to itself: then no quota holds for its time on
	// them. nil: none has.
	Pinned func(pod *corev1.Pod) bool
	// Slices has systemd make, limit and remove the groups, as a runtime with its driver
	// needs it; nil: the groups are directories, as with the driver cgroupfs.
	Slices Slices
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Class == nil:
		return errors.New("Config.Class is nil, want the function that tells the class of a pod")
	case !slices.ContainsFunc(c.Mounts, func(m Mount) bool { return m.has("memory") }):
		return errors.New("Config.Mounts has no hierarchy with the memory controller: mount cgroup v1 or v2")
	case slices.Contains(strings.Split(c.Root, "/"), ".."):
		return fmt.Errorf("Config.Root is %q, want a path without \"..\"", c.Root)
	}
	return nil
}

// Slices are those of systemd. [*Systemd] asks it for them.
type Slices interface {
	// Start makes a slice with its parents. One that is there is no error, and stays as
	// it is.
	Start(ctx context.Context, slice string, properties []Property) error
	// Set sets properties of a slice.
	Set(ctx context.Context, slice string, properties []Property) error
	// Stop ends a slice and all that is in it. One that is not there is no error.
	Stop(ctx context.Context, slice string) error
}

// Tree is the control groups of the pods of a node.
type Tree struct {
	cfg   Config
	names namer
	log   *slog.Logger
}

// New returns a Tree. It does nothing yet.
func New(cfg Config) (*Tree, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Tree{cfg: cfg, names: namer{root: cfg.Root, slices: cfg.Slices != nil}, log: cfg.Log}, nil
}

// Parent returns the group of a pod as the runtime takes it for the parent of its
// containers' groups: /kubepods/burstable/pod<uid>, or the name of a slice if they are
// systemd's, kubepods-burstable-pod<uid>.slice with underscores in the UID.
func (t *Tree) Parent(pod *corev1.Pod) string { return t.names.inRuntime(t.Group(pod)) }

// Group returns the group of a pod as a path below the mounts of the hierarchies.
func (t *Tree) Group(pod *corev1.Pod) string { return t.names.pod(t.cfg.Class(pod), pod.UID) }

// PodsGroup returns the group of all pods, as a path below the mounts of the hierarchies.
func (t *Tree) PodsGroup() string { return t.names.group(corev1.PodQOSGuaranteed) }

// each calls do for every hierarchy with limits, to the end.
func (t *Tree) each(ctx context.Context, do func(m *Mount) error) error {
	var errs []error
	for i := range t.cfg.Mounts {
		if m := &t.cfg.Mounts[i]; m.governs() {
			errs = append(errs, do(m))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// Setup makes the groups above the pods. It is for the start of an agent. Groups that
// are there already keep their weights until [Tree.SetActive].
func (t *Tree) Setup(ctx context.Context) error {
	limits := map[corev1.PodQOSClass]Limits{corev1.PodQOSBestEffort: {CPUShares: minShares}}
	if !t.cfg.Rules.ReserveMemory {
		t.reserve(limits, nil) // takes back what a former setting has left
	}
	return errors.Join(t.setClasses(ctx, limits), t.claimCPUs(ctx))
}

// SetActive sets the weights of the classes: Burstable pods together weigh what they
// request, BestEffort pods as little as can be. It is called with all pods that are
// to run, when one starts or ends and now and then.
func (t *Tree) SetActive(ctx context.Context, pods []*corev1.Pod) error {
	var milliCPU int64
	memory := map[corev1.PodQOSClass]int64{}
	for _, pod := range pods {
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		class := t.cfg.Class(pod)
		memory[class] += requests.Memory().Value()
		if class == corev1.PodQOSBurstable {
			milliCPU += requests.Cpu().MilliValue()
		}
	}
	limits := map[corev1.PodQOSClass]Limits{
		corev1.PodQOSGuaranteed: {},
		corev1.PodQOSBurstable:  {CPUShares: shares(milliCPU)},
		corev1.PodQOSBestEffort: {CPUShares: minShares},
	}
	t.reserve(limits, memory)
	return t.setClasses(ctx, limits)
}

// setClasses sets what is known of each class; a zero value changes nothing.
func (t *Tree) setClasses(ctx context.Context, limits map[corev1.PodQOSClass]Limits) error {
	for _, class := range classes {
		if err := t.ensure(ctx, t.names.group(class), limits[class]); err != nil {
			return fmt.Errorf("set control group %s: %w", t.names.group(class), err)
		}
	}
	return nil
}

// reserve protects the memory that the pods of a class request. What is protected in
// a group counts only as far as its parents are protected, too (kernel:
// Documentation/admin-guide/cgroup-v2.rst, memory.min).
func (t *Tree) reserve(limits map[corev1.PodQOSClass]Limits, memory map[corev1.PodQOSClass]int64) {
	guaranteed, burstable := int64(0), int64(0)
	if t.cfg.Rules.ReserveMemory {
		guaranteed, burstable = memory[corev1.PodQOSGuaranteed], memory[corev1.PodQOSBurstable]
	}
	set := func(class corev1.PodQOSClass, files map[string]string) {
		l := limits[class]
		l.Unified = files
		limits[class] = l
	}
	set(corev1.PodQOSGuaranteed, map[string]string{memoryMin: decimal(guaranteed + burstable), memoryLow: decimal(burstable)})
	set(corev1.PodQOSBurstable, map[string]string{memoryLow: decimal(burstable)})
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// EnsurePod makes the group of a pod, or sets the one it has to what the pod asks for.
// Every limit holds when it returns nil. A memory limit below what the pod uses is an
// error and leaves the old one.
func (t *Tree) EnsurePod(ctx context.Context, pod *corev1.Pod) error {
	if !isElement(pod.UID) {
		return fmt.Errorf("make control group of pod %s/%s: UID %q cannot be part of a path", pod.Namespace, pod.Name, pod.UID)
	}
	rules := t.cfg.Rules
	rules.NoCPUQuota = rules.NoCPUQuota || t.cfg.Pinned != nil && t.cfg.Pinned(pod)
	limits := LimitsOf(pod, t.cfg.Class(pod), rules)
	if limits.HugePages == nil {
		limits.HugePages = map[int64]int64{} // no size at all
	}
	group := t.Group(pod)
	if err := t.ensure(ctx, group, limits); err != nil {
		return fmt.Errorf("make control group %s of pod %s/%s: %w", group, pod.Namespace, pod.Name, err)
	}
	return nil
}

func exists(dir string) bool {
	_, err := os.Lstat(dir)
	return err == nil
}

// Pods returns the UIDs of all pods that have a group in any hierarchy, sorted. Those
// nobody wants any more are for [Tree.CollectPod].
func (t *Tree) Pods() ([]types.UID, error) {
	found := map[types.UID]bool{}
	for i := range t.cfg.Mounts {
		for _, class := range classes {
			entries, err := os.ReadDir(t.cfg.Mounts[i].dir(t.names.group(class)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("list control groups of pods: %w", err)
			}
			for _, e := range entries {
				if uid, ok := t.names.uid(class, e.Name()); ok && e.IsDir() {
					found[uid] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
