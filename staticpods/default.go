package staticpods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The defaults of the Pod API, version v1
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1).
const (
	defaultGraceSeconds   = 30
	defaultProbeTimeout   = 1
	defaultProbePeriod    = 10
	defaultProbeSuccess   = 1
	defaultProbeFailure   = 3
	defaultFileMode       = 0o644
	defaultTokenSeconds   = 3600
	fieldRefVersion       = "v1"
	defaultISCSIInterface = "default"
	defaultRBDPool        = "rbd"
	defaultRBDUser        = "admin"
	defaultRBDKeyring     = "/etc/ceph/keyring"
	defaultScaleIOMode    = "ThinProvisioned"
	defaultScaleIOFSType  = "xfs"
)

// setDefault fills *field when it is empty.
func setDefault[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

// setPointer fills a pointer that is nil.
func setPointer[T any](field **T, v T) {
	if *field == nil {
		*field = &v
	}
}

// defaultPod fills in what the API server fills in when a Pod is created. Pod
// level requests (spec.resources) are left as they are.
func defaultPod(pod *corev1.Pod) {
	s := &pod.Spec
	setDefault(&s.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&s.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&s.SchedulerName, corev1.DefaultSchedulerName)
	setPointer(&s.TerminationGracePeriodSeconds, int64(defaultGraceSeconds))
	setPointer(&s.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	setPointer(&s.SecurityContext, corev1.PodSecurityContext{})
	setDefault(&s.ServiceAccountName, s.DeprecatedServiceAccount) // one field under two names
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	if s.HostNetwork {
		eachContainer(s, func(_ string, c *corev1.Container) {
			for i := range c.Ports {
				setDefault(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
			}
		})
	}
}

func defaultContainer(c *corev1.Container) {
	setDefault(&c.ImagePullPolicy, pullPolicyOf(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnv(c.Env[i].ValueFrom)
	}
	defaultResources(&c.Resources)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTP(h.HTTPGet)
			}
		}
	}
}

// pullPolicyOf returns Always for an image without tag or with the tag latest.
func pullPolicyOf(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	base := name[strings.LastIndex(name, "/")+1:]
	_, tag, tagged := strings.Cut(base, ":")
	if tag == "latest" || !tagged && !pinned {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultEnv(from *corev1.EnvVarSource) {
	if from == nil {
		return
	}
	if from.FieldRef != nil {
		setDefault(&from.FieldRef.APIVersion, fieldRefVersion)
	}
	if from.FileKeyRef != nil {
		setPointer(&from.FileKeyRef.Optional, false)
	}
}

// defaultResources rounds quantities up to a thousandth, the API's precision, and
// requests what is limited.
func defaultResources(r *corev1.ResourceRequirements) {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name, q := range list {
			q.RoundUp(resource.Milli)
			list[name] = q
		}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, defaultProbeTimeout)
	setDefault(&p.PeriodSeconds, defaultProbePeriod)
	setDefault(&p.SuccessThreshold, defaultProbeSuccess)
	setDefault(&p.FailureThreshold, defaultProbeFailure)
	defaultHTTP(p.HTTPGet)
	if p.GRPC != nil {
		setPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTP(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	setDefault(&h.Path, "/")
	setDefault(&h.Scheme, corev1.URISchemeHTTP)
}

func defaultVolume(v *corev1.Volume) {
	s := &v.VolumeSource
	if *s == (corev1.VolumeSource{}) {
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if s.HostPath != nil {
		setPointer(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.Secret != nil {
		setPointer(&s.Secret.DefaultMode, defaultFileMode)
	}
	if s.ConfigMap != nil {
		setPointer(&s.ConfigMap.DefaultMode, defaultFileMode)
	}
	if s.DownwardAPI != nil {
		setPointer(&s.DownwardAPI.DefaultMode, defaultFileMode)
		defaultDownward(s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		defaultProjected(s.Projected)
	}
	if s.Image != nil {
		setDefault(&s.Image.PullPolicy, pullPolicyOf(s.Image.Reference))
	}
	defaultRemoteVolume(s)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			setDefault(&items[i].FieldRef.APIVersion, fieldRefVersion)
		}
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setPointer(&p.DefaultMode, defaultFileMode)
	for i := range p.Sources {
		src := &p.Sources[i]
		if src.DownwardAPI != nil {
			defaultDownward(src.DownwardAPI.Items)
		}
		if src.ServiceAccountToken != nil {
			setPointer(&src.ServiceAccountToken.ExpirationSeconds, defaultTokenSeconds)
		}
	}
}

// defaultRemoteVolume fills the volume types of storage on the network.
func defaultRemoteVolume(s *corev1.VolumeSource) {
	if v := s.ISCSI; v != nil {
		setDefault(&v.ISCSIInterface, defaultISCSIInterface)
	}
	if v := s.RBD; v != nil {
		setDefault(&v.RBDPool, defaultRBDPool)
		setDefault(&v.RadosUser, defaultRBDUser)
		setDefault(&v.Keyring, defaultRBDKeyring)
	}
	if v := s.AzureDisk; v != nil {
		setPointer(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setPointer(&v.Kind, corev1.AzureSharedBlobDisk)
		setPointer(&v.FSType, "ext4")
		setPointer(&v.ReadOnly, false)
	}
	if v := s.ScaleIO; v != nil {
		setDefault(&v.StorageMode, defaultScaleIOMode)
		setDefault(&v.FSType, defaultScaleIOFSType)
	}
}
