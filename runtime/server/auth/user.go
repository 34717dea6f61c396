package auth

import (
	"context"
	"slices"
)

// The names that Kubernetes has for those who came without credentials, and the groups
// that all users are in
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
const (
	Anonymous            = "system:anonymous"
	GroupUnauthenticated = "system:unauthenticated"
	GroupAuthenticated   = "system:authenticated"
)

// User is who sent a request.
type User struct {
	// Name is never empty.
	Name string
	// UID is empty if the credentials have none.
	UID string
	// Groups are the groups that the user is in.
	Groups []string
	// Extra is what else the authorizer may want to know.
	Extra map[string][]string
}

// authenticated returns the user in the group of all those who have credentials.
func (u User) authenticated() User {
	if u.Name != Anonymous && !slices.Contains(u.Groups, GroupAuthenticated) && !slices.Contains(u.Groups, GroupUnauthenticated) {
		u.Groups = append(slices.Clip(u.Groups), GroupAuthenticated)
	}
	return u
}

// anonymous is the user of requests without credentials.
func anonymous() User { return User{Name: Anonymous, Groups: []string{GroupUnauthenticated}} }

type userKey struct{}

// UserFrom returns who sent a request, from the context of the request that a handler
// behind [Filter.Protect] got; false in any other.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

func withUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}
