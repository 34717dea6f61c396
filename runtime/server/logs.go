package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Logs has the logs of containers.
type Logs interface {
	// CopyLog writes what opts asks for of the container's log to w, until ctx ends if it is to
	// follow. An error before the first write is told to the client as 400. A write of no
	// bytes tells a client that waits for the first line that its request is good.
	CopyLog(ctx context.Context, w io.Writer, c Container, opts *corev1.PodLogOptions) error
}

// serveLogs answers with the log of a container.
func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) {
	opts, err := ParseLogOptions(r.URL.Query())
	if err != nil {
		code := http.StatusUnprocessableEntity
		if errors.Is(err, errQuery) {
			code = http.StatusBadRequest
		}
		sendMessage(w, code, err)
		return
	}
	c, ok := s.container(w, r, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")))
	if !ok {
		return
	}
	if s.cfg.Containers.Logs == nil {
		missing(w, "the log of a container")
		return
	}
	out := newProgress(w, s.limits.StreamIdle)
	err = s.cfg.Containers.Logs.CopyLog(r.Context(), out, c, opts)
	switch {
	case err == nil:
		out.begin()
	case !out.begun:
		fail(w, http.StatusBadRequest, err.Error())
	default:
		if r.Context().Err() == nil { // neither the client nor the server has ended it
			s.log.Warn("log of a container broke off", "pod", c.Pod.Namespace+"/"+c.Pod.Name, "container", c.Name, "err", err)
		}
		panic(http.ErrAbortHandler) // net/http's way to let the client see that this is not the end
	}
}

// sendMessage answers with an error as JSON, which only the options of logs are answered
// with.
func sendMessage(w http.ResponseWriter, code int, err error) {
	text := "Invalid request: " + err.Error()
	if errors.Is(err, errQuery) {
		text = "Unable to decode query: " + err.Error()
	}
	body, _ := json.Marshal(map[string]string{"message": text}) // a string can always be encoded
	sendData(w, code, body)
}

// errQuery is the error of what is not even of the right type.
var errQuery = errors.New("not understood")

// ParseLogOptions reads the query of /containerLogs. Its errors name the parameter.
func ParseLogOptions(q url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{
		Container: q.Get("container"), Follow: isTrue(q, "follow"), Previous: isTrue(q, "previous"), Timestamps: isTrue(q, "timestamps"),
	}
	tail := q.Get("tailLines")
	if old := q.Get("tail"); old != "" { // the name it had before
		tail = strings.TrimSuffix(old, "all")
	}
	var err error
	if o.TailLines, err = number("tailLines", tail, 0); err != nil {
		return nil, err
	}
	if o.LimitBytes, err = number("limitBytes", q.Get("limitBytes"), 1); err != nil {
		return nil, err
	}
	if o.SinceSeconds, err = number("sinceSeconds", q.Get("sinceSeconds"), 1); err != nil {
		return nil, err
	}
	if since := q.Get("sinceTime"); since != "" && since != "null" {
		t, err := time.Parse(time.RFC3339, since)
		if err != nil {
			return nil, fmt.Errorf("sinceTime is %w: want a time like 2026-01-02T15:04:05Z", errQuery)
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	if o.SinceTime != nil && o.SinceSeconds != nil {
		return nil, errors.New("sinceTime and sinceSeconds exclude each other")
	}
	stream := corev1.LogStreamAll
	if q.Has("stream") {
		stream = q.Get("stream")
	}
	o.Stream = &stream
	return o, checkStream(o)
}

// checkStream says what is wrong with the stream. With a stream of its own, tailLines would
// have to count lines of that stream only, which the API server refuses, too.
func checkStream(o *corev1.PodLogOptions) error {
	switch *o.Stream {
	case corev1.LogStreamAll:
		return nil
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
		if o.TailLines != nil {
			return errors.New("tailLines and a stream of its own exclude each other")
		}
		return nil
	}
	return fmt.Errorf("stream is %q: want All, Stdout or Stderr", *o.Stream)
}

// isTrue reads a flag as the API machinery does: what is there and neither false nor 0.
func isTrue(q url.Values, name string) bool {
	v := q[name]
	return len(v) > 0 && v[0] != "0" && !strings.EqualFold(v[0], "false")
}

// number reads a number that is least or more; nil if there is none.
func number(name, text string, least int64) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is %w: want a number", name, errQuery)
	}
	if n < least {
		return nil, fmt.Errorf("%s is %d: want %d or more", name, n, least)
	}
	return &n, nil
}
