// Package auth decides who may ask what of a node's HTTPS API, as the kubelet does: client
// certificates and bearer tokens say who asks, the API server's authorizer says whether
// they may. It is a middleware that no other package of the server has to know.
//
// It is not for other APIs than that of a node, whose paths and subresources it knows, and
// it makes no TLS: see package certs for that.
//
//	filter, err := auth.New(auth.Config{
//		Node:     "node-a",
//		ClientCA: authorities.Current,
//		Tokens:   client.AuthenticationV1().TokenReviews(),
//		Access:   client.AuthorizationV1().SubjectAccessReviews(),
//	})
//	if err != nil {
//		return err
//	}
//	server.Handler = filter.Protect(handler)
//
// Answers of the API server are kept for a while, so that the API works on for those who
// were known when the API server cannot be reached. Everybody else is refused meanwhile:
// whatever fails, fails closed.
//
// A [Filter] is safe for use by several goroutines and starts none. No token is kept,
// logged or handed on to the handler. It needs no privileges on the machine; the API
// server has to allow it to create TokenReviews and SubjectAccessReviews, as the role
// system:node does.
package auth
