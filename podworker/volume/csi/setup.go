package csi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// lookAgain is how often a volume that may have to be published again or to grow is
// looked at, about: as often as the kubelet syncs a pod.
const lookAgain = time.Minute

// SetUp makes a volume usable for a pod: it waits until it is attached, and has the
// driver stage and publish it. A driver that is not registered is an error, as it may
// come at any time. What is done already is not done again, but for what the driver
// wants to be told again and again, and for a volume that grew.
//
// Claims for places of this machine, the kinds hostPath and local, need no driver.
//
// While the API server does not tell what the volume is, a file system that is mounted
// for the pod already is what it was.
func (p *Provider) SetUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (volume.Mounted, error) {
	if v.CSI != nil {
		w, err := fromPod(pod, v)
		if err != nil {
			return volume.Mounted{}, err
		}
		return p.drive(ctx, &w)
	}
	b, err := p.resolve(ctx, pod, v)
	if errors.Is(err, errUnknown) {
		if m, ok := p.mountedBefore(pod, v); ok {
			p.log.Warn("volume is used as it was, the API server does not tell about it", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "volume", v.Name, "err", err)
			return m, nil
		}
	}
	switch {
	case err != nil:
		return volume.Mounted{}, err
	case b.pv.Spec.CSI == nil:
		m, err := p.onHost(ctx, b)
		m.Group = p.group(b.gid())
		return m, b.failed(err)
	}
	w, err := b.wanted()
	if err != nil {
		return volume.Mounted{}, b.failed(err)
	}
	return p.drive(ctx, &w)
}

// drive has the driver of a volume make it usable.
func (p *Provider) drive(ctx context.Context, w *wanted) (volume.Mounted, error) {
	d, err := p.drivers.get(w.id.driver)
	if err != nil {
		return volume.Mounted{}, err
	}
	r, err := p.rules.of(ctx, w.id.driver)
	if err != nil {
		return volume.Mounted{}, err
	}
	if err := r.allows(w.id.driver, w.lifecycle); err != nil {
		return volume.Mounted{}, err
	}
	attach := r.attach && w.claim != nil
	s := p.volumes.use(w, attach)
	o := operation{p: p, w: w, d: d, r: r, s: s}
	if attach {
		if o.attached, err = p.waitAttached(ctx, w.id); err != nil {
			return volume.Mounted{}, p.notAttached(w.id, r, err)
		}
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("volume %s: %w", w.id, err)
	}
	defer unlock()
	return o.run(ctx)
}

// resolve reads what a pod has by a claim.
func (p *Provider) resolve(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*bound, error) {
	name, own := claimName(pod, v)
	b := &bound{pod: pod, volume: v, name: name}
	var err error
	if b.claim, err = p.cfg.API.Claims(pod.Namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, b.failed(fmt.Errorf("failed to fetch PVC from API server: %w", unlessMissing(err)))
	}
	if err := checkClaim(pod, b.claim, own); err != nil {
		return nil, b.failed(err)
	}
	if b.pv, err = p.cfg.API.Volumes.Get(ctx, b.claim.Spec.VolumeName, metav1.GetOptions{}); err != nil {
		return nil, b.failed(fmt.Errorf("failed to fetch PV %s from API server: %w", b.claim.Spec.VolumeName, unlessMissing(err)))
	}
	if err := errors.Join(checkVolume(b.pv, b.claim), b.check()); err != nil {
		return nil, b.failed(err)
	}
	if p.has(b) { // labels of the Node may change under a pod that runs
		return b, nil
	}
	return b, b.failed(p.belongsHere(ctx, b.pv))
}

// has reports whether a pod has a volume already.
func (p *Provider) has(b *bound) bool {
	switch {
	case !segment(string(b.pod.UID)) || !segment(b.pv.Name):
		return false
	case b.pv.Spec.Local != nil:
		on, err := p.host.mounted(p.paths.local(b.pod.UID, b.pv.Name))
		return err == nil && on
	case b.block():
		_, err := os.Lstat(p.paths.blockTarget(b.pod.UID, b.pv.Name))
		return err == nil
	}
	_, on := p.mountedBefore(b.pod, b.volume)
	return on
}

// errUnknown says that the API server did not answer what a volume is.
var errUnknown = errors.New("not known")

// unlessMissing marks an error as errUnknown, but for an object that does not exist.
func unlessMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// mountedBefore finds a file system that is published to a pod by what the pod calls it.
func (p *Provider) mountedBefore(pod *corev1.Pod, v *corev1.Volume) (volume.Mounted, bool) {
	if !segment(string(pod.UID)) {
		return volume.Mounted{}, false
	}
	specs, err := names(p.paths.volumes(pod.UID))
	if err != nil {
		return volume.Mounted{}, false
	}
	for _, spec := range specs {
		target := p.paths.target(pod.UID, spec)
		r, err := readRecord(filepath.Dir(target))
		if err != nil || r.Volume != v.Name {
			continue
		}
		if on, err := p.host.mounted(target); err == nil && on {
			readOnly := v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
			return volume.Mounted{
				Path: target, ReadOnly: readOnly, Relabel: !readOnly, Group: p.group(r.Group), RefreshAt: time.Now().Add(lookAgain),
			}, true
		}
	}
	return volume.Mounted{}, false
}

// operation is setting up a volume, with the turn of the volume held.
type operation struct {
	p *Provider
	w *wanted
	d *driver
	r rules
	s *state
	// attached is what the attacher of the driver tells its node service.
	attached map[string]string
}

func (o *operation) run(ctx context.Context) (volume.Mounted, error) {
	here := place{o.w.pod.UID, o.w.spec}
	staged, err := o.stage(ctx)
	if err != nil {
		return volume.Mounted{}, err
	}
	var tokens time.Time
	before := o.s.published[here]
	if !before || o.r.republish {
		if tokens, err = o.publish(ctx, staged); err != nil {
			return volume.Mounted{}, err
		}
		if err := o.after(ctx, before); err != nil {
			return volume.Mounted{}, err
		}
		o.s.published[here] = true
	}
	o.expand(ctx, staged, before)
	return o.mounted(tokens), nil
}

// after does what is left to do after a volume was published.
func (o *operation) after(ctx context.Context, before bool) error {
	if o.w.block {
		return o.checkDevice()
	}
	owner := o.w.ownership(o.r, o.d.can)
	if owner == nil || before {
		return nil
	}
	if err := o.p.host.own(ctx, o.target(), *owner); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", o.w.id.handle, err)
	}
	return nil
}

// target is where the driver publishes the volume to the pod.
func (o *operation) target() string {
	if o.w.block {
		return o.p.paths.blockTarget(o.w.pod.UID, o.w.spec)
	}
	return o.p.paths.target(o.w.pod.UID, o.w.spec)
}

// mounted is what containers get. tokens is when the tokens that the driver was given
// have to be renewed.
func (o *operation) mounted(tokens time.Time) volume.Mounted {
	m := volume.Mounted{
		Path: o.target(), Block: o.w.block, ReadOnly: o.w.readOnly, Relabel: !o.w.block && !o.w.readOnly, Group: o.p.group(o.w.gid),
	}
	if o.r.republish || o.grows() {
		m.RefreshAt = time.Now().Add(lookAgain + rand.N(lookAgain/10))
	}
	if !tokens.IsZero() && o.r.republish && tokens.Before(m.RefreshAt) {
		m.RefreshAt = tokens
	}
	return m
}
