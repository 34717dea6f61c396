package podspec

//nolint:gochecknoglobals // a constant table
var securityFields = map[string]rule{
	"PodSecurityContext.SELinuxOptions":           noSELinux,
	"PodSecurityContext.WindowsOptions":           warn("it is for Windows, and means nothing on Linux"),
	"PodSecurityContext.RunAsUser":                yes,
	"PodSecurityContext.RunAsGroup":               yes,
	"PodSecurityContext.RunAsNonRoot":             yes,
	"PodSecurityContext.SupplementalGroups":       yes,
	"PodSecurityContext.SupplementalGroupsPolicy": yes, // the value is checked
	"PodSecurityContext.FSGroup":                  needs(Volumes, "the group of volumes is not changed"),
	"PodSecurityContext.Sysctls":                  needs(Sysctls, "sysctls are not supported"),
	"PodSecurityContext.FSGroupChangePolicy":      needs(Volumes, "the group of volumes is not changed"),
	"PodSecurityContext.SeccompProfile":           yes,
	"PodSecurityContext.AppArmorProfile":          yes, // the type is checked
	"PodSecurityContext.SELinuxChangePolicy":      noSELinux,

	"SecurityContext.Capabilities":             yes,
	"SecurityContext.Privileged":               yes,
	"SecurityContext.SELinuxOptions":           noSELinux,
	"SecurityContext.WindowsOptions":           warn("it is for Windows, and means nothing on Linux"),
	"SecurityContext.RunAsUser":                yes,
	"SecurityContext.RunAsGroup":               yes,
	"SecurityContext.RunAsNonRoot":             yes,
	"SecurityContext.ReadOnlyRootFilesystem":   yes,
	"SecurityContext.AllowPrivilegeEscalation": yes,
	"SecurityContext.ProcMount":                yes, // the value is checked
	"SecurityContext.SeccompProfile":           yes,
	"SecurityContext.AppArmorProfile":          yes, // the type is checked

	"Capabilities.Add":                 yes,
	"Capabilities.Drop":                yes,
	"SeccompProfile.Type":              yes, // the value is checked
	"SeccompProfile.LocalhostProfile":  yes,
	"AppArmorProfile.Type":             yes, // the value is checked
	"AppArmorProfile.LocalhostProfile": yes,
	"SELinuxOptions.User":              yes,
	"SELinuxOptions.Role":              yes,
	"SELinuxOptions.Type":              yes,
	"SELinuxOptions.Level":             yes,
	"Sysctl.Name":                      yes,
	"Sysctl.Value":                     yes,
}

// noSELinux is the rule for labels. Pods carry them wherever they run; on a node without
// SELinux they mean nothing, as in the API, where they are for nodes that have it.
//
//nolint:gochecknoglobals // a constant
var noSELinux = rule{support: Warned, why: "the kernel of the node has no SELinux, so that labels mean nothing", needs: SELinux}
