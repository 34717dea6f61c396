package podspec

import "strings"

// Ability is a set of things that have to be done for pods outside of this package.
// Whoever calls [Check] says which of them it does; fields that need another one
// refuse the pod. The zero value is the empty set.
type Ability uint32

// The abilities of an agent. Each names the fields that need it.
const (
	// Probes runs liveness, readiness and startup probes.
	Probes Ability = 1 << iota
	// InitContainers runs init containers in order, and sidecars among them.
	InitContainers
	// EphemeralContainers starts containers that were added for debugging.
	EphemeralContainers
	// Hooks runs postStart and preStop.
	Hooks
	// Deadlines ends pods at their activeDeadlineSeconds.
	Deadlines
	// RestartRules restarts containers by their own restartPolicy and rules.
	RestartRules
	// Scheduling checks node selector and node affinity before a pod is admitted.
	Scheduling
	// Sysctls refuses pods with sysctls that are not allowed on this node.
	Sysctls
	// ReferencedObjects fills [References]: ConfigMaps, Secrets and files for variables.
	ReferencedObjects
	// PullSecrets pulls images with the credentials the pod names.
	PullSecrets
	// RuntimeClasses finds the [Handler] of a runtime class.
	RuntimeClasses
	// UserNamespaces gives pods with hostUsers: false a [UserNamespace].
	UserNamespaces
	// SubPaths fulfils paths of the kind [SubPath].
	SubPaths
	// Volumes sets up the volumes of a pod and names them in [Run]: those that the API has
	// for every node, and their groups.
	Volumes
	// ServiceAccountTokens has tokens for volumes.
	ServiceAccountTokens
	// TrustBundles has ClusterTrustBundles for volumes.
	TrustBundles
	// CSIVolumes sets up volumes of storage drivers.
	CSIVolumes
	// ImageVolumes pulls the images of volumes and names them in [Run].
	ImageVolumes
	// LocalStorage ends pods that use more local storage than their limits.
	LocalStorage
	// PodCgroups sets the limits of the whole pod on its cgroup: pod-level resources
	// and overhead.
	PodCgroups
	// Devices hands out extended resources.
	Devices
	// AppArmor is a node whose kernel enforces AppArmor profiles.
	AppArmor
	// SELinux is a node whose kernel enforces SELinux labels.
	SELinux
	// StrictGroups is a runtime with supplementalGroupsPolicy: Strict.
	StrictGroups

	endOfAbilities
)

// abilityNames are the names of the abilities, in the order of the constants.
//
//nolint:gochecknoglobals // a constant table
var abilityNames = []string{
	"Probes", "InitContainers", "EphemeralContainers", "Hooks", "Deadlines", "RestartRules", "Scheduling", "Sysctls", "ReferencedObjects",
	"PullSecrets", "RuntimeClasses", "UserNamespaces", "SubPaths", "Volumes", "ServiceAccountTokens", "TrustBundles", "CSIVolumes", "ImageVolumes", "LocalStorage",
	"PodCgroups", "Devices", "AppArmor", "SELinux", "StrictGroups",
}

// String returns the names of the abilities with "|" between them.
func (a Ability) String() string {
	var names []string
	for i, name := range abilityNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Has reports whether every ability of other is in the set.
func (a Ability) Has(other Ability) bool { return a&other == other }
