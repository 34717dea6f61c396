package podspec

//nolint:gochecknoglobals // a constant table
var podFields = map[string]rule{
	"PodSpec.Volumes":                       yes,
	"PodSpec.InitContainers":                needs(InitContainers, "init containers are not supported"),
	"PodSpec.Containers":                    yes,
	"PodSpec.EphemeralContainers":           needs(EphemeralContainers, "ephemeral containers are not supported"),
	"PodSpec.RestartPolicy":                 yes,
	"PodSpec.TerminationGracePeriodSeconds": yes,
	"PodSpec.ActiveDeadlineSeconds":         needs(Deadlines, "the deadline would not be enforced"),
	"PodSpec.DNSPolicy":                     yes,
	"PodSpec.NodeSelector":                  needs(Scheduling, "node labels are not checked"),
	"PodSpec.ServiceAccountName":            yes, // used by fieldRef; tokens are volumes
	"PodSpec.DeprecatedServiceAccount":      of("the API server's, and of those who read manifests: a copy of serviceAccountName"),
	"PodSpec.AutomountServiceAccountToken":  of("the API server's: it adds the volume to the pod"),
	"PodSpec.NodeName":                      yes,
	"PodSpec.HostNetwork":                   yes,
	"PodSpec.HostPID":                       yes,
	"PodSpec.HostIPC":                       yes,
	"PodSpec.ShareProcessNamespace":         yes,
	"PodSpec.SecurityContext":               yes,
	"PodSpec.ImagePullSecrets":              {support: Warned, why: "images are pulled without these credentials", needs: PullSecrets},
	"PodSpec.Hostname":                      yes,
	"PodSpec.Subdomain":                     yes,
	"PodSpec.Affinity":                      needs(Scheduling, "affinity is not checked"),
	"PodSpec.SchedulerName":                 scheduler,
	"PodSpec.Tolerations":                   yes,
	"PodSpec.HostAliases":                   yes,
	"PodSpec.PriorityClassName":             yes, // oom_score_adj
	"PodSpec.Priority":                      yes,
	"PodSpec.DNSConfig":                     yes,
	"PodSpec.ReadinessGates":                yes,
	"PodSpec.RuntimeClassName":              needs(RuntimeClasses, "runtime classes are not supported"),
	"PodSpec.EnableServiceLinks":            yes,
	"PodSpec.PreemptionPolicy":              scheduler,
	"PodSpec.Overhead":                      needs(PodCgroups, "pod overhead is not accounted for"),
	"PodSpec.TopologySpreadConstraints":     scheduler,
	"PodSpec.SetHostnameAsFQDN":             yes,
	"PodSpec.OS":                            yes,
	"PodSpec.HostUsers":                     yes, // the value is checked
	"PodSpec.SchedulingGates":               no("a pod with scheduling gates is not ready to run"),
	"PodSpec.ResourceClaims":                no("dynamic resources are not supported"),
	"PodSpec.Resources":                     needs(PodCgroups, "resources of the whole pod are not enforced"),
	"PodSpec.HostnameOverride":              yes,
	"PodSpec.SchedulingGroup":               scheduler,
	"PodSpec.EvictionResponders":            warn("eviction responders are not asked"),

	"PodDNSConfig.Nameservers":       yes,
	"PodDNSConfig.Searches":          yes,
	"PodDNSConfig.Options":           yes,
	"PodDNSConfigOption.Name":        yes,
	"PodDNSConfigOption.Value":       yes,
	"HostAlias.IP":                   yes,
	"HostAlias.Hostnames":            yes,
	"PodReadinessGate.ConditionType": yes,
	"PodOS.Name":                     yes,
	"Toleration.Key":                 yes,
	"Toleration.Operator":            yes,
	"Toleration.Value":               yes,
	"Toleration.Effect":              yes,
	"Toleration.TolerationSeconds":   of("the control plane's: it deletes the pod when they are over"),
}

// schedulingFields are below the affinity of a pod. A node looks at what is required
// of it; the rest is the scheduler's.
//
//nolint:gochecknoglobals // a constant table
var schedulingFields = map[string]rule{
	"Affinity.NodeAffinity":    yes,
	"Affinity.PodAffinity":     scheduler,
	"Affinity.PodAntiAffinity": scheduler,

	"NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution":  yes,
	"NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution": scheduler,
	"NodeSelector.NodeSelectorTerms":                               yes,
	"NodeSelectorTerm.MatchExpressions":                            yes,
	"NodeSelectorTerm.MatchFields":                                 yes,
	"NodeSelectorRequirement.Key":                                  yes,
	"NodeSelectorRequirement.Operator":                             yes,
	"NodeSelectorRequirement.Values":                               yes,
	"LabelSelector.MatchLabels":                                    yes,
	"LabelSelector.MatchExpressions":                               yes,
	"LabelSelectorRequirement.Key":                                 yes,
	"LabelSelectorRequirement.Operator":                            yes,
	"LabelSelectorRequirement.Values":                              yes,
}

var scheduler = of("the scheduler's") //nolint:gochecknoglobals // a constant
