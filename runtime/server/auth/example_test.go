package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// tokens knows one token. In a program it is client.AuthenticationV1().TokenReviews().
type tokens struct{}

func (tokens) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	review.Status.Authenticated = review.Spec.Token == "secret"
	review.Status.User.Username = "prometheus"
	return review, nil
}

// rights lets everybody read metrics. In a program it is
// client.AuthorizationV1().SubjectAccessReviews().
type rights struct{}

func (rights) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	at := review.Spec.ResourceAttributes
	review.Status.Allowed = at.Verb == "get" && at.Subresource == "metrics"
	return review, nil
}

// A handler that serves only those whom the API server allows it.
func Example() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := auth.UserFrom(r.Context())
		fmt.Fprintf(w, "hello, %s", user.Name)
	})
	filter, err := auth.New(auth.Config{
		Node:   "node-a",
		Tokens: tokens{},
		Access: rights{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	protected := filter.Protect(handler)

	for _, request := range []struct{ token, path string }{{"", "/metrics"}, {"secret", "/metrics"}, {"secret", "/exec/default/web/main"}} {
		r := httptest.NewRequest(http.MethodGet, request.path, http.NoBody)
		if request.token != "" {
			r.Header.Set("Authorization", "Bearer "+request.token)
		}
		w := httptest.NewRecorder()
		protected.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 401 Unauthorized
	// 200 hello, prometheus
	// 403 Forbidden (user=prometheus, verb=get, resource=nodes, subresource(s)=[proxy])
}
