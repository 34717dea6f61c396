package volume

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects finds the ConfigMaps and Secrets that the volumes of a pod refer to, in the
// namespace of the pod. It is given the pod because not every pod may see every object:
// those that stand beside a manifest are for static pods only. An object that does not
// exist is an error for which IsNotFound of k8s.io/apimachinery's package api/errors is
// true.
//
// It is asked at each [Manager.SetUp] and each refresh, by many goroutines at once, so it
// answers from memory as a rule. What it returns is not changed.
type Objects interface {
	ConfigMap(ctx context.Context, pod *corev1.Pod, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error)
}

// Tokens has tokens for the service accounts of pods.
type Tokens interface {
	// Token returns a token for what a volume of the pod asks for, and when to ask again.
	Token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (token []byte, refreshAt time.Time, err error)
}

// Bundles finds ClusterTrustBundles.
type Bundles interface {
	// TrustBundles returns the certificates, as PEM, of the one object that source names,
	// or of all that it selects by signer and labels, which may be none. An object that is
	// named and does not exist is an error for which IsNotFound of api/errors is true.
	TrustBundles(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]string, error)
}

// Provider sets up volumes of kinds that a [Manager] does not know itself.
type Provider interface {
	// Supports reports whether a volume is of this provider.
	Supports(v *corev1.Volume) bool
	// SetUp makes a volume ready for containers. It is called again after it has failed,
	// after the death of the process or of the machine, and at Mounted.RefreshAt, not because
	// the pod has changed; then it does what is still missing. It may block: there is
	// one call at a time for each volume of a pod, and a call holds up nothing else. Its
	// context ends when nobody waits any more, or when the pod goes.
	SetUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (Mounted, error)
	// TearDown undoes all that SetUp did for the volumes of a pod, by what it finds on
	// disk: the pod itself may be forgotten. It returns nil when nothing is left, as for a
	// pod without such volumes, and is never called while SetUp runs for the pod.
	TearDown(ctx context.Context, uid types.UID) error
}
