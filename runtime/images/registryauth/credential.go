package registryauth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"
)

// Credential is what to log in to a registry with.
type Credential struct {
	Username string
	Password string
	// Email is a leftover of old Docker configurations. Registries don't want it, but
	// it is part of Hash.
	Email string
	// IdentityToken is what the registry gave in exchange for a password. It is used
	// instead of one.
	IdentityToken string
	// Source is where the credential comes from.
	Source Source
}

// Source says who may use a credential: everybody on the node if both fields are nil,
// otherwise whoever has the secret or the service account.
type Source struct {
	Secret         *ObjectRef
	ServiceAccount *ObjectRef
}

// ObjectRef names an object of the Kubernetes API.
type ObjectRef struct {
	UID       types.UID
	Namespace string
	Name      string
}

// Hash tells credentials apart without showing them, in 64 hexadecimal digits. It does
// not depend on the source. The kubelet hashes credentials in the same way, so that its
// records of pulls stay good.
func (c Credential) Hash() string {
	// The fields and their order are those of Docker's AuthConfig.
	text, err := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		Email         string `json:"email,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
	}{c.Username, c.Password, c.Email, c.IdentityToken})
	if err != nil {
		return "" // strings always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// String returns where the credential comes from, and nothing of its content.
func (c Credential) String() string {
	switch {
	case c.Source.Secret != nil:
		return fmt.Sprintf("credential of secret %s/%s", c.Source.Secret.Namespace, c.Source.Secret.Name)
	case c.Source.ServiceAccount != nil:
		return fmt.Sprintf("credential of service account %s/%s", c.Source.ServiceAccount.Namespace, c.Source.ServiceAccount.Name)
	default:
		return "credential of the node"
	}
}

// GoString keeps the content out of %#v.
func (c Credential) GoString() string { return c.String() }

// LogValue keeps the content out of logs.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Format keeps the content out of every verb.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }
