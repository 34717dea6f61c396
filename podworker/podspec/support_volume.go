package podspec

//nolint:gochecknoglobals // a constant table
var volumeFields = map[string]rule{
	"Volume.Name":                        yes,
	"Volume.VolumeSource":                yes,
	"VolumeSource.HostPath":              needs(Volumes, noVolumes),
	"VolumeSource.EmptyDir":              needs(Volumes, noVolumes),
	"VolumeSource.ConfigMap":             needs(Volumes, noVolumes),
	"VolumeSource.Secret":                needs(Volumes, noVolumes),
	"VolumeSource.DownwardAPI":           needs(Volumes, noVolumes),
	"VolumeSource.Projected":             needs(Volumes, noVolumes),
	"VolumeSource.Image":                 needs(ImageVolumes, "volumes of this type are not supported"),
	"VolumeSource.CSI":                   needs(CSIVolumes, noStorage),
	"VolumeSource.PersistentVolumeClaim": needs(CSIVolumes, noStorage),
	"VolumeSource.Ephemeral":             needs(CSIVolumes, noStorage),
	"VolumeSource.GCEPersistentDisk":     noVolume, "VolumeSource.AWSElasticBlockStore": noVolume,
	"VolumeSource.GitRepo": noVolume, "VolumeSource.NFS": noVolume,
	"VolumeSource.ISCSI": noVolume, "VolumeSource.Glusterfs": noVolume,
	"VolumeSource.RBD": noVolume, "VolumeSource.FlexVolume": noVolume,
	"VolumeSource.Cinder": noVolume, "VolumeSource.CephFS": noVolume,
	"VolumeSource.Flocker": noVolume, "VolumeSource.FC": noVolume,
	"VolumeSource.AzureFile": noVolume, "VolumeSource.VsphereVolume": noVolume,
	"VolumeSource.Quobyte": noVolume, "VolumeSource.AzureDisk": noVolume,
	"VolumeSource.PhotonPersistentDisk": noVolume, "VolumeSource.PortworxVolume": noVolume,
	"VolumeSource.ScaleIO": noVolume, "VolumeSource.StorageOS": noVolume,

	"HostPathVolumeSource.Path":      yes,
	"HostPathVolumeSource.Type":      yes,
	"EmptyDirVolumeSource.Medium":    yes, // the value is checked
	"EmptyDirVolumeSource.SizeLimit": yes, // what it needs depends on the medium
	"EmptyDirVolumeSource.Mode":      yes,
	"ImageVolumeSource.Reference":    yes,
	"ImageVolumeSource.PullPolicy":   yes,

	"PersistentVolumeClaimVolumeSource.ClaimName": yes,
	"PersistentVolumeClaimVolumeSource.ReadOnly":  yes,
	"CSIVolumeSource.Driver":                      yes,
	"CSIVolumeSource.ReadOnly":                    yes,
	"CSIVolumeSource.FSType":                      yes,
	"CSIVolumeSource.VolumeAttributes":            yes,
	"CSIVolumeSource.NodePublishSecretRef":        yes,
	"EphemeralVolumeSource.VolumeClaimTemplate":   of("the control plane's: it makes a claim of it"),

	"VolumeMount.Name":              yes,
	"VolumeMount.ReadOnly":          yes,
	"VolumeMount.RecursiveReadOnly": yes, // the value is checked
	"VolumeMount.MountPath":         yes,
	"VolumeMount.SubPath":           needs(SubPaths, "subPath is not supported"),
	"VolumeMount.MountPropagation":  yes,
	"VolumeMount.SubPathExpr":       needs(SubPaths, "subPathExpr is not supported"),
	"VolumeMount.BindMountOptions":  no("bind mount options are not supported"),
	"VolumeDevice.Name":             yes,
	"VolumeDevice.DevicePath":       yes,
}

// projectionFields are below volumes that show objects and facts as files.
//
//nolint:gochecknoglobals // a constant table
var projectionFields = map[string]rule{
	"ConfigMapVolumeSource.LocalObjectReference": yes,
	"ConfigMapVolumeSource.Items":                yes,
	"ConfigMapVolumeSource.DefaultMode":          yes,
	"ConfigMapVolumeSource.Optional":             yes,
	"ConfigMapVolumeSource.DefaultUser":          yes,
	"SecretVolumeSource.SecretName":              yes,
	"SecretVolumeSource.Items":                   yes,
	"SecretVolumeSource.DefaultMode":             yes,
	"SecretVolumeSource.Optional":                yes,
	"SecretVolumeSource.DefaultUser":             yes,
	"KeyToPath.Key":                              yes,
	"KeyToPath.Path":                             yes,
	"KeyToPath.Mode":                             yes,
	"KeyToPath.User":                             yes,
	"DownwardAPIVolumeSource.Items":              yes,
	"DownwardAPIVolumeSource.DefaultMode":        yes,
	"DownwardAPIVolumeSource.DefaultUser":        yes,
	"DownwardAPIVolumeFile.Path":                 yes,
	"DownwardAPIVolumeFile.FieldRef":             yes,
	"DownwardAPIVolumeFile.ResourceFieldRef":     yes,
	"DownwardAPIVolumeFile.Mode":                 yes,
	"DownwardAPIVolumeFile.User":                 yes,

	"ProjectedVolumeSource.Sources":                   yes,
	"ProjectedVolumeSource.DefaultMode":               yes,
	"ProjectedVolumeSource.DefaultUser":               yes,
	"VolumeProjection.ConfigMap":                      yes,
	"VolumeProjection.Secret":                         yes,
	"VolumeProjection.DownwardAPI":                    yes,
	"VolumeProjection.ServiceAccountToken":            needs(ServiceAccountTokens, "there is nobody to ask for tokens"),
	"VolumeProjection.ClusterTrustBundle":             needs(TrustBundles, "trust bundles are not read"),
	"VolumeProjection.PodCertificate":                 no("certificates for pods are not requested"),
	"SecretProjection.LocalObjectReference":           yes,
	"SecretProjection.Items":                          yes,
	"SecretProjection.Optional":                       yes,
	"ConfigMapProjection.LocalObjectReference":        yes,
	"ConfigMapProjection.Items":                       yes,
	"ConfigMapProjection.Optional":                    yes,
	"DownwardAPIProjection.Items":                     yes,
	"ServiceAccountTokenProjection.Audience":          yes,
	"ServiceAccountTokenProjection.ExpirationSeconds": yes,
	"ServiceAccountTokenProjection.Path":              yes,
	"ServiceAccountTokenProjection.User":              yes,
	"ClusterTrustBundleProjection.Name":               yes,
	"ClusterTrustBundleProjection.SignerName":         yes,
	"ClusterTrustBundleProjection.LabelSelector":      yes,
	"ClusterTrustBundleProjection.Optional":           yes,
	"ClusterTrustBundleProjection.Path":               yes,
	"ClusterTrustBundleProjection.User":               yes,
}

// Why whole kinds of volumes are refused.
const (
	noVolumes = "this agent sets up no volumes"
	noStorage = "volumes of storage drivers are not supported"
)

var noVolume = no("volumes of this type are not supported") //nolint:gochecknoglobals // a constant
