package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TokenReviews asks who a token belongs to. TokenReviews() of client-go's
// AuthenticationV1 is one.
type TokenReviews interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, opts metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// errUnknownToken is said of a token that the API server does not know.
var errUnknownToken = errors.New("the token is not valid")

// tokens has the answers to what was asked about tokens.
type tokens struct {
	reviews TokenReviews
	ttl     time.Duration
	// secret makes hashes of tokens worthless to others.
	secret []byte
	known  *cache[identity]
	asker  *asker[identity]
}

// identity is who a token belongs to; valid is false for one that belongs to nobody.
type identity struct {
	user  User
	valid bool
}

func newTokens(reviews TokenReviews, ttl time.Duration) *tokens {
	t := &tokens{reviews: reviews, ttl: ttl, secret: make([]byte, sha256.Size), known: newCache[identity](maxKept), asker: newAsker[identity]()}
	rand.Read(t.secret) // it never fails (https://pkg.go.dev/crypto/rand#Read)
	return t
}

// user returns who a token belongs to. What the API server answers is kept, also that the
// token is nobody's; what goes wrong is not.
func (t *tokens) user(ctx context.Context, token string) (User, error) {
	key := t.key(token)
	id, ok := t.known.get(key)
	if !ok {
		var err error
		id, err = t.asker.ask(ctx, key, func(ctx context.Context) (identity, error) { return t.ask(ctx, key, token) })
		if err != nil {
			return User{}, err
		}
	}
	if !id.valid {
		return User{}, errUnknownToken
	}
	return id.user, nil
}

// key returns under which key the answer about a token is kept. The token itself is not.
func (t *tokens) key(token string) key {
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte(token))
	return key(h.Sum(nil))
}

// ask asks the API server, unless somebody has had the answer a moment ago.
func (t *tokens) ask(ctx context.Context, key key, token string) (identity, error) {
	if id, ok := t.known.get(key); ok {
		return id, nil
	}
	var review *authenticationv1.TokenReview
	err := persist(ctx, func() (err error) {
		question := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		review, err = t.reviews.Create(ctx, question, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return identity{}, fmt.Errorf("review a token: %w", err)
	}
	status := &review.Status
	if !status.Authenticated && status.Error != "" {
		return identity{}, fmt.Errorf("review a token: the API server says: %s", status.Error)
	}
	id := identity{valid: status.Authenticated && status.User.Username != ""}
	if id.valid {
		id.user = User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra(status.User.Extra)}
	}
	t.known.put(key, id, t.ttl)
	return id, nil
}

func extra(from map[string]authenticationv1.ExtraValue) map[string][]string {
	if from == nil {
		return nil
	}
	to := make(map[string][]string, len(from))
	for name, values := range from {
		to[name] = values
	}
	return to
}
