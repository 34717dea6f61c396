// Package tokens keeps the service account tokens of pods: it requests them, bound to
// their pods, and requests new ones in time.
//
//	cache, err := tokens.New(func(namespace string) tokens.Client {
//		return clients.CoreV1().ServiceAccounts(namespace) // client-go
//	}, tokens.Config{})
//	token, err := cache.Get(ctx, tokens.Request{Pod: pod, Audience: "vault"})
//	write(token.Value(), token.Refresh) // and ask again then
//
// A token is renewed after 80 % of its life or 24 hours, a little earlier by chance, so
// that the requests of many nodes spread. While the server is away, the token of before
// is served as long as it is valid, and Config.Failed is told. Requests for the same
// token are one request.
//
// Tokens are requested for audiences alone that the spec of the pod names, or a CSI
// driver by which it has a volume. The server checks the same; here it keeps a mistake
// of the caller from becoming a token.
//
// A token is never printed: however a Token is formatted or logged, its value stays
// out. No error and no record holds one.
//
// # What it is not for
//
// It writes no files, package podworker/volume does. It keeps nothing on disk: the next
// process requests anew.
//
// # Safety
//
// A Cache may be used by many goroutines at once, and starts none. No privileges are
// needed on the machine; on the server create of serviceaccounts/token, which the Node
// authorizer grants a node for the pods that are bound to it.
package tokens
