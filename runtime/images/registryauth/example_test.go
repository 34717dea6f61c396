package registryauth_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// The most specific credential is tried first.
func ExampleFromSecrets() {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pull"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {
			"*.example":             {"username": "anybody", "password": "p"},
			"registry.example/team": {"username": "team", "password": "q"}
		}}`)},
	}
	keyring, err := registryauth.FromSecrets([]*corev1.Secret{secret})
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range keyring.Lookup("registry.example/team/web") {
		fmt.Println(c.Username, "from the", c)
	}
	// Output:
	// team from the credential of secret shop/pull
	// anybody from the credential of secret shop/pull
}
