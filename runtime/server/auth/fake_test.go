package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// reviewer answers reviews of tokens: by owners, or as answer says.
type reviewer struct {
	mu sync.Mutex // guards the fields below
	// owners are who tokens belong to.
	owners map[string]string
	// asked has the tokens that were asked about.
	asked []string
	// answer replaces the answer.
	answer func(ctx context.Context) (authenticationv1.TokenReviewStatus, error)
}

func (r *reviewer) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.mu.Lock()
	token := review.Spec.Token
	r.asked = append(r.asked, token)
	owner, answer := r.owners[token], r.answer
	r.mu.Unlock()
	var status authenticationv1.TokenReviewStatus
	var err error
	switch {
	case answer != nil:
		status, err = answer(ctx)
	case owner != "":
		status.Authenticated = true
		status.User = authenticationv1.UserInfo{
			Username: owner, UID: "uid-" + owner, Groups: []string{"people"}, Extra: map[string]authenticationv1.ExtraValue{"where": {"here"}},
		}
	}
	return &authenticationv1.TokenReview{Status: status}, err
}

func (r *reviewer) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *reviewer) set(answer func(context.Context) (authenticationv1.TokenReviewStatus, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// authorizer answers reviews of access.
type authorizer struct {
	mu sync.Mutex // guards the fields below
	// rights are what is allowed: "user verb subresource".
	rights map[string]bool
	asked  []authorizationv1.SubjectAccessReviewSpec
	// answer replaces the answer.
	answer func(ctx context.Context) (authorizationv1.SubjectAccessReviewStatus, error)
}

func (a *authorizer) Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.mu.Lock()
	spec := review.Spec
	a.asked = append(a.asked, spec)
	at := spec.ResourceAttributes
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: a.rights[fmt.Sprintf("%s %s %s", spec.User, at.Verb, at.Subresource)]}
	answer := a.answer
	a.mu.Unlock()
	var err error
	if answer != nil {
		status, err = answer(ctx)
	}
	return &authorizationv1.SubjectAccessReview{Status: status}, err
}

func (a *authorizer) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func (a *authorizer) set(answer func(context.Context) (authorizationv1.SubjectAccessReviewStatus, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *authorizer) allow(rights ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rights {
		a.rights[r] = true
	}
}

// filtered is a Filter in front of a handler that says who asks.
type filtered struct {
	http.Handler
	tokens *reviewer
	access *authorizer
}

func protect(t *testing.T, change func(*auth.Config)) *filtered {
	t.Helper()
	f := &filtered{tokens: &reviewer{owners: map[string]string{"good": "alice", "other": "bob"}}, access: &authorizer{rights: map[string]bool{}}}
	cfg := auth.Config{Node: "node-a", Tokens: f.tokens, Access: f.access}
	if change != nil {
		change(&cfg)
	}
	filter, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.Handler = filter.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := auth.UserFrom(r.Context())
		if !ok {
			t.Error("the handler is not told who asks")
		}
		fmt.Fprint(w, u.Name)
	}))
	return f
}

// ask sends a request with a token, empty: none, and returns status and body.
func (f *filtered) ask(method, path, token string) string {
	r := httptest.NewRequest(method, path, http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return f.send(r)
}

func (f *filtered) send(r *http.Request) string {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return fmt.Sprintf("%d %s", w.Code, w.Body)
}
