package podspec

//nolint:gochecknoglobals // a constant table
var volumeFields = map[string]rule{
	"Volume.Name":                    yes,
	"Volume.VolumeSource":            yes,
	"VolumeSource.HostPath":          yes,
	"VolumeSource.EmptyDir":          yes,
	"VolumeSource.Image":             needs(ImageVolumes, "volumes of this type are not supported"),
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
	"VolumeSource.Ephemeral": noVolume,

	"HostPathVolumeSource.Path":      yes,
	"HostPathVolumeSource.Type":      yes,
	"EmptyDirVolumeSource.Medium":    yes, // the value is checked
	"EmptyDirVolumeSource.SizeLimit": yes, // what it needs depends on the medium
	"EmptyDirVolumeSource.Mode":      yes,
	"ImageVolumeSource.Reference":    yes,
	"ImageVolumeSource.PullPolicy":   yes,

	"VolumeMount.Name":              yes,
	"VolumeMount.ReadOnly":          yes,
	"VolumeMount.RecursiveReadOnly": yes, // the value is checked
	"VolumeMount.MountPath":         yes,
	"VolumeMount.SubPath":           needs(SubPaths, "subPath is not supported"),
	"VolumeMount.MountPropagation":  yes,
	"VolumeMount.SubPathExpr":       needs(SubPaths, "subPathExpr is not supported"),
	"VolumeMount.BindMountOptions":  no("bind mount options are not supported"),
}

var noVolume = no("volumes of this type are not supported") //nolint:gochecknoglobals // a constant
