package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// protocolPrefix is that of the WebSocket subprotocol that stands for a token, for
// browsers, which cannot set headers
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
const (
	protocolHeader = "Sec-WebSocket-Protocol"
	protocolPrefix = "base64url.bearer.authorization.k8s.io."
)

// errToken is said of a token in a form that no client sends.
var errToken = errors.New("the token in the subprotocol of the WebSocket is malformed")

// bearerToken returns the token of a request, empty if it has none.
func bearerToken(r *http.Request) (string, error) {
	if token := headerToken(r.Header.Get("Authorization")); token != "" {
		return token, nil
	}
	if !isWebSocket(r) {
		return "", nil
	}
	return protocolToken(r.Header)
}

// headerToken returns the token in the header Authorization.
func headerToken(header string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	token, _, _ := strings.Cut(rest, " ")
	return token
}

// isWebSocket reports whether a request asks for a WebSocket.
func isWebSocket(r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for option := range strings.SplitSeq(r.Header.Get("Connection"), ",") {
		if strings.EqualFold(strings.TrimSpace(option), "Upgrade") {
			return true
		}
	}
	return false
}

// protocolToken returns the token among the subprotocols of a WebSocket. There has to be
// another one: the server has to choose one, and must not choose the token.
func protocolToken(h http.Header) (string, error) {
	token, others := "", 0
	for _, name := range protocols(h) {
		encoded, ok := strings.CutPrefix(name, protocolPrefix)
		if !ok {
			others++
			continue
		}
		data, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || !utf8.Valid(data) || len(data) == 0 || token != "" {
			return "", errToken // the cause would quote the token
		}
		token = string(data)
	}
	if token != "" && others == 0 {
		return "", errToken
	}
	return token, nil
}

// protocols returns the subprotocols that a client offers.
func protocols(h http.Header) []string {
	var names []string
	for _, line := range h.Values(protocolHeader) {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// withoutCredentials returns headers that a handler may see: tokens are for nobody else.
func withoutCredentials(h http.Header) http.Header {
	h = h.Clone()
	h.Del("Authorization")
	var kept []string
	for _, name := range protocols(h) {
		if !strings.HasPrefix(name, protocolPrefix) {
			kept = append(kept, name)
		}
	}
	if len(h.Values(protocolHeader)) > 0 {
		h.Set(protocolHeader, strings.Join(kept, ","))
	}
	if len(kept) == 0 {
		h.Del(protocolHeader)
	}
	return h
}
