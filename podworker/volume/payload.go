package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
	"github.com/nodekit-go/nodekit/podworker/volume/atomicwriter"
)

// defaultFileMode is the API's default for the files of a volume.
const defaultFileMode = 0o644

// maxObject is what a ConfigMap or a Secret may hold at most, in bytes: the limit of the
// API (https://kubernetes.io/docs/concepts/configuration/configmap/).
const maxObject = 1 << 20

// payload is the files of a volume by their paths.
type payload map[string]atomicwriter.File

// rules say how the files of a volume are to be.
type rules struct {
	mode  *int32 // nil: the default
	user  *int64 // owns files that name no user; nil: the agent
	group *int64 // may read; nil: no such group
}

// file returns a file with its own mode and user, or those of the volume.
func (r *rules) file(data []byte, mode *int32, user *int64) atomicwriter.File {
	if mode == nil {
		mode = r.mode
	}
	f := atomicwriter.File{Data: data, Mode: defaultFileMode}
	if mode != nil {
		f.Mode = fs.FileMode(*mode).Perm()
	}
	if user == nil {
		user = r.user
	}
	return r.own(f, user)
}

// groupRead is the right of the group of a volume to read a file.
const groupRead = 0o440

func (r *rules) own(f atomicwriter.File, user *int64) atomicwriter.File {
	if user != nil {
		uid := int(*user)
		f.UID = &uid
	}
	if r.group != nil {
		f.Mode |= groupRead
	}
	return f
}

// private returns a file that is for one user, if it is known who that is, or for the
// group of the volume.
func (r *rules) private(data []byte, user *int64) atomicwriter.File {
	f := r.file(data, nil, nil)
	if user == nil && r.group == nil {
		return f
	}
	const only = 0o600
	f.Mode, f.UID = only, nil
	return r.own(f, user)
}

// keyed is an object whose keys become files; nil data: it does not exist.
type keyed struct {
	object Object
	data   map[string][]byte
}

// files returns the files of an object: those of the items, or one for each key.
func (k *keyed) files(items []corev1.KeyToPath, optional bool, r *rules) (payload, error) {
	size := 0
	for _, data := range k.data {
		size += len(data)
	}
	if size > maxObject {
		return nil, fmt.Errorf("%s %s/%s holds %d bytes, at most %d are allowed", k.object.Kind, k.object.Namespace, k.object.Name, size, maxObject)
	}
	out := make(payload, len(k.data))
	if len(items) == 0 {
		for key, data := range k.data {
			out[key] = r.file(data, nil, nil)
		}
		return out, nil
	}
	for i := range items {
		item := &items[i]
		data, found := k.data[item.Key]
		switch {
		case found:
			out[item.Path] = r.file(data, item.Mode, item.User)
		case !optional && k.object.Kind == ConfigMaps:
			return nil, fmt.Errorf("configmap references non-existent config key: %s", item.Key)
		case !optional:
			return nil, fmt.Errorf("references non-existent secret key: %s", item.Key)
		}
	}
	return out, nil
}

// configMapData returns all keys of a ConfigMap with their bytes.
func configMapData(object *corev1.ConfigMap) map[string][]byte {
	out := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	maps.Copy(out, object.BinaryData)
	for key, text := range object.Data {
		out[key] = []byte(text)
	}
	return out
}

// podFiles returns the files that show a pod itself.
func podFiles(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, r *rules, allocatable corev1.ResourceList) (payload, error) {
	out := make(payload, len(items))
	var errs []error
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = downward.Metadata(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = downward.Resource(pod, nil, item.ResourceFieldRef, allocatable)
		default:
			err = errors.New("neither fieldRef nor resourceFieldRef is set")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("file %q: %w", item.Path, err))
			continue
		}
		out[item.Path] = r.file([]byte(value), item.Mode, item.User)
	}
	return out, errors.Join(errs...)
}

// onlyUser returns the user of all containers of a pod, nil if they have several or if
// one does not say.
func onlyUser(pod *corev1.Pod) *int64 {
	var of *int64
	if pod.Spec.SecurityContext != nil {
		of = pod.Spec.SecurityContext.RunAsUser
	}
	var user *int64
	several := false
	visitContainers(pod, func(c *corev1.Container) {
		own := of
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			own = c.SecurityContext.RunAsUser
		}
		several = several || own == nil || user != nil && *user != *own
		user = own
	})
	if several {
		return nil
	}
	return user
}
