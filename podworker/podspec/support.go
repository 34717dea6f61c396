package podspec

import (
	"maps"
	"slices"
)

// Support says what becomes of a field of a pod.
type Support uint8

// The classes of fields.
const (
	// Refused fields reject the pod that sets them.
	Refused Support = iota
	// Honoured fields do what the API says, or belong to another component and
	// need nothing from a node.
	Honoured
	// Warned fields are cosmetic: the pod runs, and the user is told.
	Warned
)

// String returns the class in lower case.
func (s Support) String() string {
	switch s {
	case Refused:
		return "refused"
	case Honoured:
		return "honoured"
	case Warned:
		return "warned"
	}
	return "invalid"
}

// rule is the class of one field, and why a field is not simply honoured.
type rule struct {
	support Support
	why     string
}

// Field is what becomes of one field of the types a pod is made of.
type Field struct {
	// Name is "Type.Field" in Go spelling, as in "PodSpec.HostUsers".
	Name string
	// Support is its class. A Refused field refuses the pod only if it is set.
	Support Support
	// Why says what is missing, empty for an Honoured field.
	Why string
}

// Fields returns every field that a pod can set, in alphabetical order. Those below
// a refused field are not listed. [Check] looks closer at a few honoured fields of
// which only some values are honoured.
func Fields() []Field {
	out := make([]Field, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, Field{Name: name, Support: fields[name].support, Why: fields[name].why})
	}
	return out
}

// fields has a rule for every field of the types a PodSpec is made of, down to
// the ones that are refused as a whole. The key is "Type.Field" in Go spelling.
//
//nolint:gochecknoglobals // a constant table
var fields = merge(podFields, containerFields, securityFields, volumeFields)

func merge(tables ...map[string]rule) map[string]rule {
	out := map[string]rule{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

var yes = rule{support: Honoured} //nolint:gochecknoglobals // a constant

func no(why string) rule   { return rule{support: Refused, why: why} }
func warn(why string) rule { return rule{support: Warned, why: why} }

//nolint:gochecknoglobals // a constant table
var podFields = map[string]rule{
	"PodSpec.Volumes":                       yes,
	"PodSpec.InitContainers":                no("init containers are not supported"),
	"PodSpec.Containers":                    yes,
	"PodSpec.EphemeralContainers":           no("ephemeral containers are not supported"),
	"PodSpec.RestartPolicy":                 yes,
	"PodSpec.TerminationGracePeriodSeconds": yes,
	"PodSpec.ActiveDeadlineSeconds":         no("the deadline would not be enforced"),
	"PodSpec.DNSPolicy":                     yes,
	"PodSpec.NodeSelector":                  no("node labels are not checked"),
	"PodSpec.ServiceAccountName":            yes, // used by fieldRef; tokens are volumes
	"PodSpec.DeprecatedServiceAccount":      yes,
	"PodSpec.AutomountServiceAccountToken":  yes, // acted upon by the API server
	"PodSpec.NodeName":                      yes,
	"PodSpec.HostNetwork":                   yes,
	"PodSpec.HostPID":                       yes,
	"PodSpec.HostIPC":                       yes,
	"PodSpec.ShareProcessNamespace":         yes,
	"PodSpec.SecurityContext":               yes,
	"PodSpec.ImagePullSecrets":              warn("images are pulled without these credentials"),
	"PodSpec.Hostname":                      yes,
	"PodSpec.Subdomain":                     yes,
	"PodSpec.Affinity":                      no("affinity is not checked"),
	"PodSpec.SchedulerName":                 yes, // the scheduler's
	"PodSpec.Tolerations":                   yes, // the node has no taints of its own
	"PodSpec.HostAliases":                   yes,
	"PodSpec.PriorityClassName":             yes, // oom_score_adj
	"PodSpec.Priority":                      yes,
	"PodSpec.DNSConfig":                     yes,
	"PodSpec.ReadinessGates":                yes,
	"PodSpec.RuntimeClassName":              no("runtime classes are not supported"),
	"PodSpec.EnableServiceLinks":            yes, // there are no service variables to leave out
	"PodSpec.PreemptionPolicy":              yes, // the scheduler's
	"PodSpec.Overhead":                      no("pod overhead is not accounted for"),
	"PodSpec.TopologySpreadConstraints":     warn("spreading is the scheduler's work; the node does not check it"),
	"PodSpec.SetHostnameAsFQDN":             no("the kernel host name cannot be the FQDN"),
	"PodSpec.OS":                            yes,
	"PodSpec.HostUsers":                     yes, // the value is checked
	"PodSpec.SchedulingGates":               no("a pod with scheduling gates is not ready to run"),
	"PodSpec.ResourceClaims":                no("dynamic resources are not supported"),
	"PodSpec.Resources":                     no("resources of the whole pod are not enforced"),
	"PodSpec.HostnameOverride":              yes,
	"PodSpec.SchedulingGroup":               yes, // the scheduler's
	"PodSpec.EvictionResponders":            warn("eviction responders are not asked"),

	"PodDNSConfig.Nameservers":        yes,
	"PodDNSConfig.Searches":           yes,
	"PodDNSConfig.Options":            yes,
	"PodDNSConfigOption.Name":         yes,
	"PodDNSConfigOption.Value":        yes,
	"HostAlias.IP":                    yes,
	"HostAlias.Hostnames":             yes,
	"PodReadinessGate.ConditionType":  yes,
	"PodOS.Name":                      yes,
	"PodSchedulingGroup.PodGroupName": yes,
	"Toleration.Key":                  yes,
	"Toleration.Operator":             yes,
	"Toleration.Value":                yes,
	"Toleration.Effect":               yes,
	"Toleration.TolerationSeconds":    yes,
}

//nolint:gochecknoglobals // a constant table
var containerFields = map[string]rule{
	"Container.Name":                     yes,
	"Container.Image":                    yes,
	"Container.Command":                  yes,
	"Container.Args":                     yes,
	"Container.WorkingDir":               yes,
	"Container.Ports":                    yes,
	"Container.EnvFrom":                  no("variables from ConfigMaps and Secrets are not supported"),
	"Container.Env":                      yes,
	"Container.Resources":                yes,
	"Container.ResizePolicy":             yes, // says how to resize; a resize never comes
	"Container.RestartPolicy":            no("a restart policy of a single container is not supported"),
	"Container.RestartPolicyRules":       no("restart rules are not supported"),
	"Container.VolumeMounts":             yes,
	"Container.VolumeDevices":            no("block devices are not supported"),
	"Container.LivenessProbe":            yes, // refused without Options.Probes
	"Container.ReadinessProbe":           yes, // refused without Options.Probes
	"Container.StartupProbe":             yes, // refused without Options.Probes
	"Container.Lifecycle":                no("lifecycle hooks are not supported"),
	"Container.TerminationMessagePath":   yes,
	"Container.TerminationMessagePolicy": yes,
	"Container.ImagePullPolicy":          yes,
	"Container.SecurityContext":          yes,
	"Container.Stdin":                    yes,
	"Container.StdinOnce":                yes,
	"Container.TTY":                      yes,

	"ContainerPort.Name":          yes,
	"ContainerPort.HostPort":      yes,
	"ContainerPort.ContainerPort": yes,
	"ContainerPort.Protocol":      yes,
	"ContainerPort.HostIP":        yes,

	"EnvVar.Name":                    yes,
	"EnvVar.Value":                   yes,
	"EnvVar.ValueFrom":               yes,
	"EnvVarSource.FieldRef":          yes,
	"EnvVarSource.ResourceFieldRef":  no("variables from resources are not supported"),
	"EnvVarSource.ConfigMapKeyRef":   no("variables from ConfigMaps are not supported"),
	"EnvVarSource.SecretKeyRef":      no("variables from Secrets are not supported"),
	"EnvVarSource.FileKeyRef":        no("variables from files are not supported"),
	"ObjectFieldSelector.APIVersion": yes,
	"ObjectFieldSelector.FieldPath":  yes,

	"ResourceRequirements.Limits":         yes,
	"ResourceRequirements.Requests":       yes,
	"ResourceRequirements.Claims":         no("dynamic resources are not supported"),
	"ContainerResizePolicy.ResourceName":  yes,
	"ContainerResizePolicy.RestartPolicy": yes,

	"Probe.ProbeHandler":                  yes,
	"Probe.InitialDelaySeconds":           yes,
	"Probe.TimeoutSeconds":                yes,
	"Probe.PeriodSeconds":                 yes,
	"Probe.SuccessThreshold":              yes,
	"Probe.FailureThreshold":              yes,
	"Probe.TerminationGracePeriodSeconds": yes,
	"ProbeHandler.Exec":                   yes,
	"ProbeHandler.HTTPGet":                yes,
	"ProbeHandler.TCPSocket":              yes,
	"ProbeHandler.GRPC":                   yes,
	"ExecAction.Command":                  yes,
	"HTTPGetAction.Path":                  yes,
	"HTTPGetAction.Port":                  yes,
	"HTTPGetAction.Host":                  yes,
	"HTTPGetAction.Scheme":                yes,
	"HTTPGetAction.HTTPHeaders":           yes,
	"HTTPHeader.Name":                     yes,
	"HTTPHeader.Value":                    yes,
	"HTTPGetAction.Protocol":              no("a choice of the HTTP version is not supported"),
	"GRPCAction.Mode":                     no("a choice of the transport is not supported"),
	"TCPSocketAction.Port":                yes,
	"TCPSocketAction.Host":                yes,
	"GRPCAction.Port":                     yes,
	"GRPCAction.Service":                  yes,
}

//nolint:gochecknoglobals // a constant table
var securityFields = map[string]rule{
	"PodSecurityContext.SELinuxOptions":           no("SELinux options are not supported"),
	"PodSecurityContext.WindowsOptions":           no("the node runs Linux"),
	"PodSecurityContext.RunAsUser":                yes,
	"PodSecurityContext.RunAsGroup":               yes,
	"PodSecurityContext.RunAsNonRoot":             yes,
	"PodSecurityContext.SupplementalGroups":       yes,
	"PodSecurityContext.SupplementalGroupsPolicy": yes, // the value is checked
	"PodSecurityContext.FSGroup":                  no("the group of volumes is not changed"),
	"PodSecurityContext.Sysctls":                  no("sysctls are not supported"),
	"PodSecurityContext.FSGroupChangePolicy":      no("the group of volumes is not changed"),
	"PodSecurityContext.SeccompProfile":           yes,
	"PodSecurityContext.AppArmorProfile":          no("AppArmor profiles are not supported"),
	"PodSecurityContext.SELinuxChangePolicy":      no("SELinux options are not supported"),

	"SecurityContext.Capabilities":             yes,
	"SecurityContext.Privileged":               yes,
	"SecurityContext.SELinuxOptions":           no("SELinux options are not supported"),
	"SecurityContext.WindowsOptions":           no("the node runs Linux"),
	"SecurityContext.RunAsUser":                yes,
	"SecurityContext.RunAsGroup":               yes,
	"SecurityContext.RunAsNonRoot":             yes,
	"SecurityContext.ReadOnlyRootFilesystem":   yes,
	"SecurityContext.AllowPrivilegeEscalation": yes,
	"SecurityContext.ProcMount":                yes, // the value is checked
	"SecurityContext.SeccompProfile":           yes,
	"SecurityContext.AppArmorProfile":          no("AppArmor profiles are not supported"),

	"Capabilities.Add":                yes,
	"Capabilities.Drop":               yes,
	"SeccompProfile.Type":             yes, // the value is checked
	"SeccompProfile.LocalhostProfile": no("seccomp profiles from files are not supported"),
}

//nolint:gochecknoglobals // a constant table
var volumeFields = map[string]rule{
	"Volume.Name":                    yes,
	"Volume.VolumeSource":            yes,
	"VolumeSource.HostPath":          yes,
	"VolumeSource.EmptyDir":          yes,
	"VolumeSource.GCEPersistentDisk": noVolume, "VolumeSource.AWSElasticBlockStore": noVolume,
	"VolumeSource.GitRepo": noVolume, "VolumeSource.Secret": noVolume,
	"VolumeSource.NFS": noVolume, "VolumeSource.ISCSI": noVolume,
	"VolumeSource.Glusterfs": noVolume, "VolumeSource.PersistentVolumeClaim": noVolume,
	"VolumeSource.RBD": noVolume, "VolumeSource.FlexVolume": noVolume,
	"VolumeSource.Cinder": noVolume, "VolumeSource.CephFS": noVolume,
	"VolumeSource.Flocker": noVolume, "VolumeSource.DownwardAPI": noVolume,
	"VolumeSource.FC": noVolume, "VolumeSource.AzureFile": noVolume,
	"VolumeSource.ConfigMap": noVolume, "VolumeSource.VsphereVolume": noVolume,
	"VolumeSource.Quobyte": noVolume, "VolumeSource.AzureDisk": noVolume,
	"VolumeSource.PhotonPersistentDisk": noVolume, "VolumeSource.Projected": noVolume,
	"VolumeSource.PortworxVolume": noVolume, "VolumeSource.ScaleIO": noVolume,
	"VolumeSource.StorageOS": noVolume, "VolumeSource.CSI": noVolume,
	"VolumeSource.Ephemeral": noVolume, "VolumeSource.Image": noVolume,

	"HostPathVolumeSource.Path":      yes,
	"HostPathVolumeSource.Type":      yes,
	"EmptyDirVolumeSource.Medium":    yes, // the value is checked
	"EmptyDirVolumeSource.SizeLimit": no("the size of the volume is not limited"),
	"EmptyDirVolumeSource.Mode":      yes,

	"VolumeMount.Name":              yes,
	"VolumeMount.ReadOnly":          yes,
	"VolumeMount.RecursiveReadOnly": yes, // the value is checked
	"VolumeMount.MountPath":         yes,
	"VolumeMount.SubPath":           no("subPath is not supported"),
	"VolumeMount.MountPropagation":  yes,
	"VolumeMount.SubPathExpr":       no("subPathExpr is not supported"),
	"VolumeMount.BindMountOptions":  no("bind mount options are not supported"),
}

var noVolume = no("volumes of this type are not supported") //nolint:gochecknoglobals // a constant
