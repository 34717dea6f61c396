package support_test

import (
	"slices"
	"strings"
)

// volumeFields are those that TestKernelVolumeFields looks at.
var volumeFields = []string{
	"Volume.Name", "Volume.VolumeSource",
	"VolumeSource.HostPath", "VolumeSource.EmptyDir", "VolumeSource.ConfigMap", "VolumeSource.Secret", "VolumeSource.DownwardAPI", "VolumeSource.Projected",
	"HostPathVolumeSource.Path", "HostPathVolumeSource.Type",
	"EmptyDirVolumeSource.Medium", "EmptyDirVolumeSource.SizeLimit", "EmptyDirVolumeSource.Mode",
	"ConfigMapVolumeSource.LocalObjectReference", "ConfigMapVolumeSource.Items", "ConfigMapVolumeSource.DefaultMode",
	"ConfigMapVolumeSource.Optional", "ConfigMapVolumeSource.DefaultUser",
	"SecretVolumeSource.SecretName", "SecretVolumeSource.Items", "SecretVolumeSource.DefaultMode", "SecretVolumeSource.Optional", "SecretVolumeSource.DefaultUser",
	"KeyToPath.Key", "KeyToPath.Path", "KeyToPath.Mode", "KeyToPath.User",
	"DownwardAPIVolumeSource.Items", "DownwardAPIVolumeSource.DefaultMode", "DownwardAPIVolumeSource.DefaultUser",
	"DownwardAPIVolumeFile.Path", "DownwardAPIVolumeFile.FieldRef", "DownwardAPIVolumeFile.ResourceFieldRef", "DownwardAPIVolumeFile.Mode", "DownwardAPIVolumeFile.User",
	"ProjectedVolumeSource.Sources", "ProjectedVolumeSource.DefaultMode", "ProjectedVolumeSource.DefaultUser",
	"VolumeProjection.ConfigMap", "VolumeProjection.Secret", "VolumeProjection.DownwardAPI", "VolumeProjection.ServiceAccountToken", "VolumeProjection.ClusterTrustBundle",
	"SecretProjection.LocalObjectReference", "SecretProjection.Items", "SecretProjection.Optional",
	"ConfigMapProjection.LocalObjectReference", "ConfigMapProjection.Items", "ConfigMapProjection.Optional",
	"DownwardAPIProjection.Items",
	"ServiceAccountTokenProjection.Audience", "ServiceAccountTokenProjection.ExpirationSeconds", "ServiceAccountTokenProjection.Path", "ServiceAccountTokenProjection.User",
	"ClusterTrustBundleProjection.Name", "ClusterTrustBundleProjection.SignerName", "ClusterTrustBundleProjection.LabelSelector",
	"ClusterTrustBundleProjection.Optional", "ClusterTrustBundleProjection.Path", "ClusterTrustBundleProjection.User",
	"LabelSelector.MatchLabels", "LabelSelector.MatchExpressions",
	"LabelSelectorRequirement.Key", "LabelSelectorRequirement.Operator", "LabelSelectorRequirement.Values",
}

// inVolumes reports whether a field is one of volumeFields.
func inVolumes(key string) bool { return slices.Contains(volumeFields, key) }

// ofVolume reports whether a path leads into a volume.
func ofVolume(path string) bool { return strings.HasPrefix(path, "spec.volumes") }
