package server

import (
	"net/http"
	"strings"
)

// Request says what a request is, in the few words that a metric may have as labels.
type Request struct {
	// Server is "readwrite" for Handler and "readonly" for ReadOnly.
	Server string
	// Method is one of those of HTTP, or "other".
	Method string
	// Path is the first part of the path, of metrics the second one too, or "other".
	Path string
	// LongRunning says that the request lasts as long as somebody wants it to.
	LongRunning bool
}

func newRequest(kind string, r *http.Request) Request {
	p := pathBucket(r.URL.Path)
	return Request{Server: kind, Method: methodBucket(r.Method), Path: p, LongRunning: isLongRunning(p)}
}

// pathBucket keeps the number of labels bounded.
func pathBucket(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first == "metrics" && rest != "" {
		second, _, _ := strings.Cut(rest, "/")
		first += "/" + second
	}
	switch first {
	case "allocatedPods", "attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "healthz", "logs",
		"metrics", "metrics/cadvisor", "metrics/probes", "metrics/resource", "metrics/slis",
		"pods", "portForward", "run", "runningpods", "stats":
		return first
	}
	return "other"
}

func methodBucket(method string) string {
	switch method {
	case http.MethodOptions, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodTrace, http.MethodConnect:
		return method
	}
	return "other"
}

func isLongRunning(bucket string) bool {
	switch bucket {
	case "exec", "attach", "portForward", "debug":
		return true
	}
	return false
}
