package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stage has the driver make a volume ready for all pods of the node, and returns where.
// Drivers that do not stage have no such place, nor do volumes that live with a pod.
func (o *operation) stage(ctx context.Context) (string, error) {
	if !o.d.can.stage || o.w.claim == nil {
		return "", nil
	}
	place := o.p.paths.staging(o.w.id)
	if o.w.block {
		place = o.p.paths.blockStaging(o.w.spec)
	}
	if o.s.staged {
		return place, nil
	}
	secrets, err := o.secrets(ctx, "NodeStageSecretRef", o.w.stageSecret)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(place, dirMode); err != nil {
		return "", err
	}
	fresh, err := o.stagingRecord(place)
	if err != nil {
		return "", err
	}
	err = o.d.call(ctx, "NodeStageVolume", o.w.id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		_, err := c.NodeStageVolume(ctx, &csiapi.NodeStageVolumeRequest{
			VolumeId: o.w.id.handle, PublishContext: o.attached, StagingTargetPath: place,
			VolumeCapability: o.w.capability(o.d.can, o.w.group()), Secrets: secrets, VolumeContext: o.w.attributes,
		})
		return err
	})
	// What was staged before is what other pods have, and stays until it is unstaged.
	if final(err) && fresh {
		return "", errors.Join(err, o.p.removeStaging(o.w.id, o.w.block, o.w.spec))
	}
	if err != nil {
		return "", err
	}
	o.s.staged = true
	return place, nil
}

// stagingRecord keeps what undoes the staging. fresh: nothing was kept of it before.
func (o *operation) stagingRecord(place string) (fresh bool, err error) {
	dir, r := filepath.Dir(place), record{Handle: o.w.id.handle, Driver: o.w.id.driver}
	if o.w.block {
		dir, r = o.p.paths.blockData(o.w.spec), o.w.record(o.p.cfg.Node)
	}
	_, before := readRecord(dir)
	return errors.Is(before, os.ErrNotExist), r.write(dir)
}

// publish has the driver make a volume visible to the pod. It returns when the tokens
// that the driver was given have to be renewed, the zero time for never.
func (o *operation) publish(ctx context.Context, staged string) (time.Time, error) {
	secrets, err := o.secrets(ctx, "NodePublishSecretRef", o.w.publishSecret)
	if err != nil {
		return time.Time{}, err
	}
	told, renew, err := o.describe(ctx, secrets)
	if err != nil {
		return time.Time{}, err
	}
	target := o.target()
	dir := filepath.Dir(target)
	if o.w.block {
		dir = o.p.paths.blockData(o.w.spec)
		if err := o.link(); err != nil {
			return time.Time{}, err
		}
	}
	_, before := readRecord(dir)
	if err := o.w.record(o.p.cfg.Node).write(dir); err != nil {
		return time.Time{}, err
	}
	request := &csiapi.NodePublishVolumeRequest{
		VolumeId: o.w.id.handle, PublishContext: o.attached, StagingTargetPath: staged, TargetPath: target,
		VolumeCapability: o.w.capability(o.d.can, o.w.group()), Readonly: o.w.readOnly, Secrets: secrets, VolumeContext: told,
	}
	err = o.publishCall(ctx, request)
	// What was published before is seen by containers, and stays.
	if fresh := errors.Is(before, os.ErrNotExist); final(err) && fresh && !o.w.block {
		return time.Time{}, errors.Join(err, o.p.removeTarget(target))
	}
	return renew, err
}

func (o *operation) publishCall(ctx context.Context, request *csiapi.NodePublishVolumeRequest) error {
	return o.d.call(ctx, "NodePublishVolume", o.w.id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		_, err := c.NodePublishVolume(ctx, request)
		return err
	})
}

// describe returns what the driver is told about the volume and the pod. The tokens of
// the pod are among it or, where the driver wants that, are added to the secrets.
func (o *operation) describe(ctx context.Context, secrets map[string]string) (told map[string]string, renew time.Time, err error) {
	told = o.w.context(o.r)
	if len(o.r.tokens) == 0 {
		return told, time.Time{}, nil
	}
	if o.p.cfg.Tokens == nil {
		return nil, time.Time{}, fmt.Errorf("driver %s: %w", o.d.name, errNoTokens)
	}
	byAudience := map[string]authenticationv1.TokenRequestStatus{}
	for _, want := range o.r.tokens {
		token, at, err := o.p.cfg.Tokens.ForDriver(ctx, o.w.pod, o.d.name, want)
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("driver %s: %w", o.d.name, err)
		}
		byAudience[want.Audience] = token
		if renew.IsZero() || at.Before(renew) {
			renew = at
		}
	}
	raw, err := json.Marshal(byAudience)
	if err != nil {
		return nil, time.Time{}, err
	}
	if o.r.inSecrets {
		secrets[keyTokens] = string(raw)
	} else {
		told[keyTokens] = string(raw)
	}
	return told, renew, nil
}

// secrets reads the Secret that a volume refers to. The map is the caller's.
func (o *operation) secrets(ctx context.Context, field string, ref *corev1.SecretReference) (map[string]string, error) {
	out := map[string]string{}
	if ref == nil {
		return out, nil
	}
	s, err := o.p.cfg.API.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("fetching %s %s/%s failed: %w", field, ref.Namespace, ref.Name, err)
	}
	for key, value := range s.Data {
		out[key] = string(value)
	}
	return out, nil
}

// removeTarget removes what is left of a file system that is not published: the mount
// point, the record, and their directory. What is mounted stays, with its record.
func (p *Provider) removeTarget(target string) error {
	if on, err := p.host.mounted(target); err != nil || on {
		return err
	}
	if err := remove(target); err != nil {
		return err
	}
	return removeRecord(filepath.Dir(target))
}

// removeStaging removes what is left of a volume that is not staged. What is mounted
// stays, with its record.
func (p *Provider) removeStaging(id volumeID, block bool, spec string) error {
	if block {
		return p.removeBlock(spec)
	}
	place := p.paths.staging(id)
	if on, err := p.host.mounted(place); err != nil || on {
		return err
	}
	if err := remove(place); err != nil {
		return err
	}
	return removeRecord(filepath.Dir(place))
}
