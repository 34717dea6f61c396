package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fail answers with a text, as a kubelet without a line end: the API server makes it part of
// its own.
func fail(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // who asked may have gone
}

// failAt answers with the error of a runtime.
func failAt(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.ResourceExhausted:
		// The runtime has too many URLs out that nobody has come for yet; each lives a minute.
		w.Header().Set("Retry-After", "60")
		code = http.StatusTooManyRequests
	case codes.Unimplemented:
		code = http.StatusNotImplemented
	}
	fail(w, code, err.Error())
}

// missing answers for what this agent cannot do.
func missing(w http.ResponseWriter, what string) {
	fail(w, http.StatusNotImplemented, what+" is not served by this agent")
}

// disabled answers for what the configuration has switched off.
func disabled(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusMethodNotAllowed, text)
	})
}

// sendJSON answers with v.
func sendJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("encode the answer: %v", err))
		return
	}
	sendData(w, http.StatusOK, data)
}

// sendData answers with what is JSON already.
func sendData(w http.ResponseWriter, code int, data []byte) {
	sendHeader(w, code)
	_, _ = w.Write(data) // who asked may have gone
}

// sendHeader begins an answer in JSON.
func sendHeader(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
}

// plainPath reports whether everybody who looks at the path of a request reads the same in
// it: who authorizes by its beginning, and who serves it by its parts.
func plainPath(u *url.URL) bool {
	if !strings.HasPrefix(u.Path, "/") || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return false
	}
	clean := path.Clean(u.Path)
	return u.Path == clean || clean != "/" && u.Path == clean+"/"
}
