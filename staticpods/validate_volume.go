package staticpods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// at returns the path of an item.
func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func validateVolumes(f *findings, volumes []corev1.Volume) {
	seen := map[string]bool{}
	for i := range volumes {
		v, path := &volumes[i], at("spec.volumes", i)
		validateUnique(f, path+".name", v.Name, seen)
		if set := sourcesOf(v.VolumeSource); len(set) > 1 {
			f.add(path, "has more than one source: %s", strings.Join(set, ", "))
		}
		validateVolume(f, path, &v.VolumeSource)
	}
}

// validateUnique checks a DNS label that no other item of its list may have.
func validateUnique(f *findings, path, name string, seen map[string]bool) {
	switch {
	case name == "":
		f.add(path, "required")
	case seen[name]:
		f.add(path, "%q is used twice", name)
	default:
		f.addAll(path, validation.IsDNS1123Label(name))
	}
	seen[name] = true
}

func validateVolume(f *findings, path string, v *corev1.VolumeSource) {
	if v.HostPath != nil {
		validateHostPath(f, path+".hostPath", v.HostPath)
	}
	if v.EmptyDir != nil {
		validateEmptyDir(f, path+".emptyDir", v.EmptyDir)
	}
	if v.DownwardAPI != nil {
		validateMode(f, path+".downwardAPI.defaultMode", v.DownwardAPI.DefaultMode)
		validateDownward(f, path+".downwardAPI.items", v.DownwardAPI.Items)
	}
	if v.ConfigMap != nil {
		validateMode(f, path+".configMap.defaultMode", v.ConfigMap.DefaultMode)
		validateReference(f, path+".configMap", "name", v.ConfigMap.Name, v.ConfigMap.Items)
	}
	if v.Secret != nil {
		validateMode(f, path+".secret.defaultMode", v.Secret.DefaultMode)
		validateReference(f, path+".secret", "secretName", v.Secret.SecretName, v.Secret.Items)
	}
	if v.Projected != nil {
		validateMode(f, path+".projected.defaultMode", v.Projected.DefaultMode)
		for i := range v.Projected.Sources {
			validateProjection(f, at(path+".projected.sources", i), &v.Projected.Sources[i])
		}
	}
	if v.NFS != nil {
		if v.NFS.Server == "" {
			f.add(path+".nfs.server", "required")
		}
		if !strings.HasPrefix(v.NFS.Path, "/") {
			f.add(path+".nfs.path", "is %q, must be an absolute path", v.NFS.Path)
		}
	}
	if v.Image != nil {
		if v.Image.Reference == "" {
			f.add(path+".image.reference", "required")
		}
		validatePullPolicy(f, path+".image.pullPolicy", v.Image.PullPolicy)
	}
}

func validateProjection(f *findings, path string, p *corev1.VolumeProjection) {
	if set := sourcesOf(*p); len(set) != 1 {
		f.add(path, "must have one source, has %d", len(set))
	}
	if p.DownwardAPI != nil {
		validateDownward(f, path+".downwardAPI.items", p.DownwardAPI.Items)
	}
	if p.ConfigMap != nil {
		validateReference(f, path+".configMap", "name", p.ConfigMap.Name, p.ConfigMap.Items)
	}
	if p.Secret != nil {
		validateReference(f, path+".secret", "name", p.Secret.Name, p.Secret.Items)
	}
}

// validateReference checks a reference to an object whose name is in a field, and which
// of its keys become which files.
func validateReference(f *findings, path, field, name string, items []corev1.KeyToPath) {
	if name == "" {
		f.add(path+"."+field, "required")
	} else {
		f.addAll(path+"."+field, validation.IsDNS1123Subdomain(name))
	}
	for i := range items {
		item, at := &items[i], at(path+".items", i)
		if item.Key == "" {
			f.add(at+".key", "required")
		}
		if item.Path == "" {
			f.add(at+".path", "required")
		}
		validateRelative(f, at+".path", item.Path)
		validateMode(f, at+".mode", item.Mode)
	}
}

func validateHostPath(f *findings, path string, h *corev1.HostPathVolumeSource) {
	if h.Path == "" {
		f.add(path+".path", "required")
	}
	validateNoBackstep(f, path+".path", h.Path)
	oneOf(f, path+".type", *h.Type,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate, corev1.HostPathFile,
		corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
}

func validateEmptyDir(f *findings, path string, e *corev1.EmptyDirVolumeSource) {
	if !strings.HasPrefix(string(e.Medium), string(corev1.StorageMediumHugePagesPrefix)) {
		oneOf(f, path+".medium", e.Medium, corev1.StorageMediumMemory, corev1.StorageMediumHugePages)
	}
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		f.add(path+".sizeLimit", "is %s, must not be negative", e.SizeLimit)
	}
}

func validateDownward(f *findings, path string, items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		item, p := &items[i], at(path, i)
		if item.Path == "" {
			f.add(p+".path", "required")
		}
		validateRelative(f, p+".path", item.Path)
		validateMode(f, p+".mode", item.Mode)
		switch {
		case item.FieldRef == nil && item.ResourceFieldRef == nil:
			f.add(p, "needs fieldRef or resourceFieldRef")
		case item.FieldRef != nil && item.ResourceFieldRef != nil:
			f.add(p, "cannot have both fieldRef and resourceFieldRef")
		case item.FieldRef != nil:
			validateFieldRef(f, p+".fieldRef", item.FieldRef, downwardFields())
		default:
			if item.ResourceFieldRef.ContainerName == "" {
				f.add(p+".resourceFieldRef.containerName", "required in a volume")
			}
			validateResourceRef(f, p+".resourceFieldRef", item.ResourceFieldRef)
		}
	}
}

func validateMode(f *findings, path string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		f.add(path, "is %#o, must be between 0 and 0777", *mode)
	}
}

// downwardFields are what a volume may show of its pod; envFields what a variable
// may
// (https://kubernetes.io/docs/concepts/workloads/pods/downward-api).
func downwardFields() []string {
	return []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
}

func envFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func validateFieldRef(f *findings, path string, ref *corev1.ObjectFieldSelector, allowed []string) {
	if ref.APIVersion != fieldRefVersion {
		f.add(path+".apiVersion", "is %q, must be %s", ref.APIVersion, fieldRefVersion)
	}
	for _, of := range []string{"metadata.labels", "metadata.annotations"} {
		key, ok := strings.CutPrefix(ref.FieldPath, of+"['")
		if key, closed := strings.CutSuffix(key, "']"); ok && closed {
			f.addAll(path+".fieldPath", validation.IsQualifiedName(strings.ToLower(key)))
			return
		}
	}
	if ref.FieldPath == "" {
		f.add(path+".fieldPath", "required")
		return
	}
	oneOf(f, path+".fieldPath", ref.FieldPath, allowed...)
}

func validateResourceRef(f *findings, path string, ref *corev1.ResourceFieldSelector) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	known := name == "cpu" || name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if (kind != "limits" && kind != "requests") || !known {
		f.add(path+".resource", "is %q, must be limits or requests of cpu, memory, ephemeral-storage or hugepages-<size>, like limits.cpu", ref.Resource)
	}
	if ref.Divisor.Sign() < 0 {
		f.add(path+".divisor", "is %s, must not be negative", ref.Divisor.String())
	}
}
