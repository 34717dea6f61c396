package csi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rules are what the CSIDriver object of a driver says about its volumes.
type rules struct {
	// object: there is one. Without it a driver has persistent volumes only.
	object     bool
	attach     bool // volumes are attached to the node before they are used
	podInfo    bool // the driver is told about the pod
	lifecycles []storagev1.VolumeLifecycleMode
	group      storagev1.FSGroupPolicy
	tokens     []storagev1.TokenRequest
	inSecrets  bool // tokens are handed over among the secrets
	republish  bool // the driver is told to publish again and again
	// recount is how often the driver is asked what it has room for, 0: never.
	recount time.Duration
}

// rulesOf reads a CSIDriver object; nil has the defaults of the API
// (https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/csi-driver-v1/).
func rulesOf(d *storagev1.CSIDriver) rules {
	if d == nil {
		return rules{attach: true, group: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy}
	}
	s := &d.Spec
	r := rules{
		object:     true,
		attach:     s.AttachRequired == nil || *s.AttachRequired,
		podInfo:    s.PodInfoOnMount != nil && *s.PodInfoOnMount,
		lifecycles: s.VolumeLifecycleModes,
		group:      storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
		tokens:     s.TokenRequests,
		inSecrets:  s.ServiceAccountTokenInSecrets != nil && *s.ServiceAccountTokenInSecrets,
		republish:  s.RequiresRepublish != nil && *s.RequiresRepublish,
	}
	if s.NodeAllocatableUpdatePeriodSeconds != nil {
		r.recount = time.Duration(*s.NodeAllocatableUpdatePeriodSeconds) * time.Second
	}
	if s.FSGroupPolicy != nil {
		r.group = cmp.Or(*s.FSGroupPolicy, r.group)
	}
	return r
}

// allows reports why a driver has no volumes of a lifecycle, nil if it has.
func (r rules) allows(driver string, mode storagev1.VolumeLifecycleMode) error {
	switch {
	case !r.object && mode == storagev1.VolumeLifecyclePersistent:
		return nil
	case !r.object:
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", mode, driver)
	case len(r.lifecycles) == 0 && mode == storagev1.VolumeLifecyclePersistent, slices.Contains(r.lifecycles, mode):
		return nil
	}
	return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", mode, driver, r.lifecycles)
}

// rulesAge is how long the object of a driver is taken from memory. Volumes of one
// driver are many, and its object hardly changes.
const rulesAge = 30 * time.Second

// rulebook reads CSIDriver objects, and remembers those that exist.
type rulebook struct {
	drivers Getter[storagev1.CSIDriver]

	mu    sync.Mutex // guards known
	known map[string]reading
}

// reading is an object and when it was read.
type reading struct {
	rules rules
	at    time.Time
}

// of returns the rules of a driver. While the server is away those of before count.
func (b *rulebook) of(ctx context.Context, driver string) (rules, error) {
	b.mu.Lock()
	before, ok := b.known[driver]
	b.mu.Unlock()
	if ok && time.Since(before.at) < rulesAge {
		return before.rules, nil
	}
	d, err := b.drivers.Get(ctx, driver, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		b.mu.Lock()
		delete(b.known, driver)
		b.mu.Unlock()
		return rulesOf(nil), nil
	case err != nil && ok:
		return before.rules, nil
	case err != nil:
		return rules{}, fmt.Errorf("read CSIDriver %s: %w", driver, err)
	}
	now := reading{rules: rulesOf(d), at: time.Now()}
	b.mu.Lock()
	b.known[driver] = now
	b.mu.Unlock()
	return now.rules, nil
}
