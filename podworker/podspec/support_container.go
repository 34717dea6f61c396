package podspec

import "strings"

//nolint:gochecknoglobals // a constant table
var containerFields = map[string]rule{
	"Container.Name":                     yes,
	"Container.Image":                    yes,
	"Container.Command":                  yes,
	"Container.Args":                     yes,
	"Container.WorkingDir":               yes,
	"Container.Ports":                    yes,
	"Container.EnvFrom":                  needs(ReferencedObjects, "variables from ConfigMaps and Secrets are not supported"),
	"Container.Env":                      yes,
	"Container.Resources":                yes,
	"Container.ResizePolicy":             yes, // says how to resize, if ever
	"Container.RestartPolicy":            yes, // what it needs depends on the place
	"Container.RestartPolicyRules":       needs(RestartRules, "restart rules are not supported"),
	"Container.VolumeMounts":             yes,
	"Container.VolumeDevices":            needs(CSIVolumes, "block devices are not supported"),
	"Container.LivenessProbe":            needs(Probes, "no probe engine is attached"),
	"Container.ReadinessProbe":           needs(Probes, "no probe engine is attached"),
	"Container.StartupProbe":             needs(Probes, "no probe engine is attached"),
	"Container.Lifecycle":                needs(Hooks, "lifecycle hooks are not supported"),
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

	"EnvFromSource.Prefix":                    yes,
	"EnvFromSource.ConfigMapRef":              yes,
	"EnvFromSource.SecretRef":                 yes,
	"ConfigMapEnvSource.LocalObjectReference": yes,
	"ConfigMapEnvSource.Optional":             yes,
	"SecretEnvSource.LocalObjectReference":    yes,
	"SecretEnvSource.Optional":                yes,
	"LocalObjectReference.Name":               yes,

	"EnvVar.Name":                               yes,
	"EnvVar.Value":                              yes,
	"EnvVar.ValueFrom":                          yes,
	"EnvVarSource.FieldRef":                     yes,
	"EnvVarSource.ResourceFieldRef":             yes,
	"EnvVarSource.ConfigMapKeyRef":              needs(ReferencedObjects, "variables from ConfigMaps are not supported"),
	"EnvVarSource.SecretKeyRef":                 needs(ReferencedObjects, "variables from Secrets are not supported"),
	"EnvVarSource.FileKeyRef":                   needs(ReferencedObjects, "variables from files are not supported"),
	"ObjectFieldSelector.APIVersion":            yes,
	"ObjectFieldSelector.FieldPath":             yes,
	"ResourceFieldSelector.ContainerName":       yes,
	"ResourceFieldSelector.Resource":            yes, // the value is checked
	"ResourceFieldSelector.Divisor":             yes,
	"ConfigMapKeySelector.LocalObjectReference": yes,
	"ConfigMapKeySelector.Key":                  yes,
	"ConfigMapKeySelector.Optional":             yes,
	"SecretKeySelector.LocalObjectReference":    yes,
	"SecretKeySelector.Key":                     yes,
	"SecretKeySelector.Optional":                yes,
	"FileKeySelector.VolumeName":                yes,
	"FileKeySelector.Path":                      yes,
	"FileKeySelector.Key":                       yes,
	"FileKeySelector.Optional":                  yes,

	"ResourceRequirements.Limits":         yes, // the names are checked
	"ResourceRequirements.Requests":       yes, // the names are checked
	"ResourceRequirements.Claims":         no("dynamic resources are not supported"),
	"ContainerResizePolicy.ResourceName":  yes,
	"ContainerResizePolicy.RestartPolicy": yes,

	"ContainerRestartRule.Action":              yes, // the value is checked
	"ContainerRestartRule.ExitCodes":           yes,
	"ContainerRestartRuleOnExitCodes.Operator": yes, // the value is checked
	"ContainerRestartRuleOnExitCodes.Values":   yes,
}

// ephemeralFields are the rules of ephemeral containers: those of containers, less
// what the API does not allow them.
func ephemeralFields() map[string]rule {
	out := map[string]rule{
		"EphemeralContainer.EphemeralContainerCommon": yes,
		"EphemeralContainer.TargetContainerName":      yes,
	}
	for key, r := range containerFields {
		name, ok := strings.CutPrefix(key, "Container.")
		if !ok {
			continue
		}
		switch name {
		case "Ports", "Resources", "ResizePolicy", "RestartPolicy", "RestartPolicyRules", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle":
			r = no("an ephemeral container cannot have it")
		}
		out["EphemeralContainerCommon."+name] = r
	}
	return out
}

// handlerFields are below probes and hooks.
//
//nolint:gochecknoglobals // a constant table
var handlerFields = map[string]rule{
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
	"Lifecycle.PostStart":                 yes,
	"Lifecycle.PreStop":                   yes,
	"Lifecycle.StopSignal":                yes, // the value is checked
	"LifecycleHandler.Exec":               yes,
	"LifecycleHandler.HTTPGet":            yes,
	"LifecycleHandler.TCPSocket":          no("a hook cannot be a TCP connection"),
	"LifecycleHandler.Sleep":              yes,
	"SleepAction.Seconds":                 yes,
	"ExecAction.Command":                  yes,
	"HTTPGetAction.Path":                  yes,
	"HTTPGetAction.Port":                  yes,
	"HTTPGetAction.Host":                  yes,
	"HTTPGetAction.Scheme":                yes,
	"HTTPGetAction.HTTPHeaders":           yes,
	"HTTPHeader.Name":                     yes,
	"HTTPHeader.Value":                    yes,
	"HTTPGetAction.Protocol":              yes, // the value is checked
	"GRPCAction.Mode":                     yes, // the value is checked
	"TCPSocketAction.Port":                yes,
	"TCPSocketAction.Host":                yes,
	"GRPCAction.Port":                     yes,
	"GRPCAction.Service":                  yes,
}
