package tokens_test

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/tokens"
)

// accounts stands for the ServiceAccountInterface of client-go.
type accounts struct{}

func (accounts) CreateToken(_ context.Context, account string, request *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	answer := request.DeepCopy()
	answer.Status = authenticationv1.TokenRequestStatus{
		Token:               "a secret of " + account,
		ExpirationTimestamp: metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	return answer, nil
}

func Example() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "4f5c"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "cart",
			Volumes: []corev1.Volume{{Name: "id", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}}},
			}}}},
		},
	}
	ctx := context.Background()

	cache, err := tokens.New(func(namespace string) tokens.Client {
		return accounts{} // with client-go: clients.CoreV1().ServiceAccounts(namespace)
	}, tokens.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := cache.Get(ctx, tokens.Request{Pod: pod, Audience: "vault"})
	fmt.Println(token, err)
	fmt.Println(token.Value())

	_, err = cache.Get(ctx, tokens.Request{Pod: pod, Audience: "bank"})
	fmt.Println(err)
	// Output:
	// token until 2030-01-01T00:00:00Z <nil>
	// a secret of cart
	// token of service account shop/cart for audience "bank" and pod cart (4f5c): the spec of the pod asks for no token of this audience
}
