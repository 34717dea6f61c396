//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// setUp sets up one volume, once.
func (m *Manager) setUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) outcome {
	at := slices.IndexFunc(m.cfg.Providers, func(p Provider) bool { return p.Supports(v) })
	switch {
	case at >= 0:
		return plain(m.cfg.Providers[at].SetUp(ctx, pod, v))
	case v.HostPath != nil:
		return plain(HostPath(v.HostPath))
	case v.EmptyDir != nil, v.VolumeSource == corev1.VolumeSource{}:
		return plain(m.emptyDir(ctx, pod, v))
	case changes(v):
		return m.showFiles(ctx, pod, v)
	}
	return outcome{err: errors.New("volumes of this type are not supported")}
}

func plain(mounted Mounted, err error) outcome {
	return outcome{mounted: mounted, usable: err == nil, err: err}
}

// showFiles sets up a volume that shows objects or the pod. If what it shows cannot be
// found, the files of before stay, provided that they were complete.
func (m *Manager) showFiles(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) outcome {
	p := placeOf(pod, v, *m.allocatable.Load())
	out := outcome{mounted: Mounted{Path: m.dirs.volume(pod.UID, p.plugin, v.Name), ReadOnly: true, Relabel: true}}
	found := m.find(ctx, pod, v)
	if found.err == nil {
		found.err = m.writeFiles(ctx, pod, p, found.files)
	}
	out.err = found.err
	if out.err == nil {
		out.usable, out.fixed, out.mounted.RefreshAt = true, found.fixed, found.refreshAt
		return out
	}
	complete, err := m.isComplete(p)
	out.usable = complete && err == nil
	return out
}

// placeOf returns where a volume keeps the files that it shows: ConfigMaps on disk, the
// others in memory, as with the kubelet.
func placeOf(pod *corev1.Pod, v *corev1.Volume, allocatable corev1.ResourceList) *place {
	p := &place{uid: pod.UID, name: v.Name, mark: wrappedPrefix + v.Name, mode: emptyDirMode, group: fsGroup(pod)}
	if p.group != nil {
		p.mode |= fs.ModeSetgid | readerBits
	}
	switch {
	case v.ConfigMap != nil:
		p.plugin = configMapPlugin
		return p
	case v.Secret != nil:
		p.plugin = secretPlugin
	case v.DownwardAPI != nil:
		p.plugin = downwardAPIPlugin
	default:
		p.plugin = projectedPlugin
	}
	p.memory = memory{kind: inTmpfs, size: memorySize(pod, nil, allocatable)}
	p.mode |= fs.ModeSticky
	return p
}

// find returns the files that a volume is to show.
func (m *Manager) find(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) findings {
	f := finder{m: m, pod: pod, files: payload{}}
	f.rules.group = fsGroup(pod)
	switch {
	case v.ConfigMap != nil:
		f.rules.mode, f.rules.user = v.ConfigMap.DefaultMode, v.ConfigMap.DefaultUser
		immutable, err := f.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
		return findings{files: f.files, fixed: immutable, err: err}
	case v.Secret != nil:
		f.rules.mode, f.rules.user = v.Secret.DefaultMode, v.Secret.DefaultUser
		immutable, err := f.secret(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
		return findings{files: f.files, fixed: immutable, err: err}
	case v.DownwardAPI != nil:
		f.rules.mode, f.rules.user = v.DownwardAPI.DefaultMode, v.DownwardAPI.DefaultUser
		return findings{files: f.files, err: f.downward(v.DownwardAPI.Items)}
	}
	f.rules.mode, f.rules.user = v.Projected.DefaultMode, v.Projected.DefaultUser
	var errs []error
	for i := range v.Projected.Sources {
		if err := f.source(ctx, &v.Projected.Sources[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return findings{files: f.files, refreshAt: f.refreshAt, err: errors.Join(errs...)}
}

// source adds the files of one source of a projected volume.
func (f *finder) source(ctx context.Context, s *corev1.VolumeProjection) error {
	switch {
	case s.ConfigMap != nil:
		_, err := f.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
		return err
	case s.Secret != nil:
		_, err := f.secret(ctx, s.Secret.Name, s.Secret.Items, s.Secret.Optional)
		return err
	case s.DownwardAPI != nil:
		return f.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return f.token(ctx, s.ServiceAccountToken)
	case s.ClusterTrustBundle != nil:
		return f.trustBundle(ctx, s.ClusterTrustBundle)
	}
	return fmt.Errorf("a source of this type is not supported")
}

// pluginOf is the kubelet's name for the kind of a volume.
func pluginOf(v *corev1.Volume) string {
	name := "kubernetes.io~csi"
	switch {
	case v.HostPath != nil:
		name = "kubernetes.io~host-path"
	case v.EmptyDir != nil, v.VolumeSource == corev1.VolumeSource{}:
		name = emptyDirPlugin
	case v.ConfigMap != nil:
		name = configMapPlugin
	case v.Secret != nil:
		name = secretPlugin
	case v.DownwardAPI != nil:
		name = downwardAPIPlugin
	case v.Projected != nil:
		name = projectedPlugin
	}
	return strings.ReplaceAll(name, "~", "/")
}
