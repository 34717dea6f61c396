package tokens

import (
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrAudience says that the spec of the pod does not ask for a token of the audience.
var ErrAudience = errors.New("the spec of the pod asks for no token of this audience")

// defaultLifetime is that of the API for expirationSeconds
// (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/).
const defaultLifetime = time.Hour

// Request says which token is wanted. Pod is required.
type Request struct {
	// Pod is whose token it is, by its service account. The token ends with it.
	Pod *corev1.Pod
	// Audience is for whom the token is. Empty: the API server itself.
	Audience string
	// Lifetime is how long it shall be valid, in whole seconds; the server may decide
	// otherwise. 0: one hour.
	Lifetime time.Duration
	// Driver is the CSI driver that asks, with an audience from its CSIDriver object.
	// Empty: a projected volume of the pod asks, which names the audience.
	Driver string
}

// key is what makes two requests the same.
type key struct {
	namespace, account string
	audience           string
	lifetime           time.Duration
	podName            string
	pod                types.UID
}

// String names a token in messages. It holds nothing secret.
func (k key) String() string {
	return fmt.Sprintf("token of service account %s/%s for audience %q and pod %s (%s)", k.namespace, k.account, k.audience, k.podName, k.pod)
}

// key checks a request.
func (r Request) key() (key, error) {
	if r.Pod == nil {
		return key{}, errors.New("tokens: Request.Pod is nil, want the pod that the token is for")
	}
	k := key{
		namespace: r.Pod.Namespace, account: r.Pod.Spec.ServiceAccountName, audience: r.Audience,
		lifetime: r.Lifetime, podName: r.Pod.Name, pod: r.Pod.UID,
	}
	if k.lifetime == 0 {
		k.lifetime = defaultLifetime
	}
	switch {
	case k.account == "":
		return key{}, fmt.Errorf("pod %s/%s: spec.serviceAccountName is empty, so that it has no tokens", k.namespace, k.podName)
	case k.pod == "":
		return key{}, fmt.Errorf("pod %s/%s: metadata.uid is empty, a token cannot be bound to it", k.namespace, k.podName)
	case k.lifetime < time.Second || k.lifetime%time.Second != 0:
		return key{}, fmt.Errorf("pod %s/%s: a token for %s is wanted, the API knows whole seconds", k.namespace, k.podName, r.Lifetime)
	case !r.allowed():
		return key{}, fmt.Errorf("%s: %w", k, ErrAudience)
	}
	return k, nil
}

// allowed reports whether the spec of the pod asks for the token.
func (r Request) allowed() bool {
	if r.Driver != "" {
		return slices.ContainsFunc(r.Pod.Spec.Volumes, func(v corev1.Volume) bool {
			// Which driver a claim leads to is not in the spec of the pod.
			return v.CSI != nil && v.CSI.Driver == r.Driver || v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		})
	}
	return slices.Contains(Audiences(r.Pod), r.Audience)
}

// Audiences returns for whom the projected volumes of a pod ask for tokens, sorted, each
// once. The API server itself is "".
func Audiences(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if t := s.ServiceAccountToken; t != nil {
				out = append(out, t.Audience)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// request is what is sent to the server.
func (k key) request() *authenticationv1.TokenRequest {
	seconds := int64(k.lifetime / time.Second)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: k.podName, UID: k.pod},
	}}
	if k.audience != "" {
		r.Spec.Audiences = []string{k.audience}
	}
	return r
}
