package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessReviews asks whether somebody may do something. SubjectAccessReviews() of
// client-go's AuthorizationV1 is one.
type AccessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// access has the answers to what was asked about rights.
type access struct {
	reviews     AccessReviews
	allow, deny time.Duration
	known       *cache[bool]
	asker       *asker[bool]
}

func newAccess(reviews AccessReviews, allow, deny time.Duration) *access {
	return &access{reviews: reviews, allow: allow, deny: deny, known: newCache[bool](maxKept), asker: newAsker[bool]()}
}

// allowed reports whether the API server allows something. Its answers are kept; what goes
// wrong is not.
func (a *access) allowed(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	question, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	key := key(sha256.Sum256(question))
	if allowed, ok := a.known.get(key); ok {
		return allowed, nil
	}
	return a.asker.ask(ctx, key, func(ctx context.Context) (bool, error) { return a.ask(ctx, key, spec) })
}

// ask asks the API server, unless somebody has had the answer a moment ago.
func (a *access) ask(ctx context.Context, key key, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	if allowed, ok := a.known.get(key); ok {
		return allowed, nil
	}
	var review *authorizationv1.SubjectAccessReview
	err := persist(ctx, func() (err error) {
		review, err = a.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		return err
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("review access: %w", err)
	case review.Status.Allowed && review.Status.Denied:
		return false, errors.New("review access: the API server says both that it is allowed and that it is denied")
	case review.Status.Allowed:
		a.known.put(key, true, a.allow)
	default:
		a.known.put(key, false, a.deny)
	}
	return review.Status.Allowed, nil
}
