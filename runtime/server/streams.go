package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Streams opens streams to containers. Each method returns the URL at which the runtime
// serves the stream, which is used once and at once; http and https are understood.
type Streams interface {
	// Exec prepares a command.
	Exec(ctx context.Context, c Container, cmd []string, opts StreamOptions) (*url.URL, error)
	// Attach prepares to see and feed what runs in the container. Whether it has a terminal
	// the container's specification says, not the client, and so do opts.
	Attach(ctx context.Context, c Container, opts StreamOptions) (*url.URL, error)
	// PortForward prepares connections to ports of the pod. The ports are those of a client
	// with a WebSocket of the old protocol; others name them later.
	PortForward(ctx context.Context, pod *corev1.Pod, ports []int32) (*url.URL, error)
}

// StreamOptions are the streams that a client wants.
type StreamOptions struct {
	Stdin, Stdout, Stderr, TTY bool
}

// parseStreams reads the query of exec and attach. A terminal has no stderr of its own.
func parseStreams(q url.Values) (StreamOptions, error) {
	is := func(name string) bool { return q.Get(name) == "1" }
	o := StreamOptions{Stdin: is("input"), Stdout: is("output"), Stderr: is("error"), TTY: is("tty")}
	o.Stderr = o.Stderr && !o.TTY
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return o, errors.New("you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

// maxPorts is how many ports one query may name.
const maxPorts = 1024

// parsePorts reads the query of port-forward over a WebSocket: port, repeated or with
// commas.
func parsePorts(q url.Values) ([]int32, error) {
	values := q["port"]
	if len(values) == 0 {
		return nil, errors.New(`query parameter "port" is required`)
	}
	var ports []int32
	for _, v := range values {
		if v == "" {
			return nil, errors.New(`query parameter "port" cannot be empty`)
		}
		for part := range strings.SplitSeq(v, ",") {
			p, err := strconv.ParseUint(part, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unable to parse %q as a port: %w", v, err)
			}
			if p < 1 {
				return nil, fmt.Errorf("port %q must be > 0", v)
			}
			if ports = append(ports, int32(p)); len(ports) > maxPorts { //nolint:gosec // it has 16 bits
				return nil, fmt.Errorf("more than %d ports are named", maxPorts)
			}
		}
	}
	return ports, nil
}

// serveExec runs a command in a container.
func (s *Server) serveExec(w http.ResponseWriter, r *http.Request) {
	s.serveStreams(w, r, func(ctx context.Context, c Container, opts *StreamOptions) (*url.URL, error) {
		return s.cfg.Containers.Streams.Exec(ctx, c, r.URL.Query()["command"], *opts)
	})
}

// serveAttach shows what runs in a container.
func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request) {
	s.serveStreams(w, r, func(ctx context.Context, c Container, opts *StreamOptions) (*url.URL, error) {
		*opts = c.attached(*opts)
		return s.cfg.Containers.Streams.Attach(ctx, c, *opts)
	})
}

// attached are the streams that a client gets which attaches with opts: a container has a
// terminal or it has none, and with one it has no stderr.
func (c Container) attached(opts StreamOptions) StreamOptions {
	if spec, ok := c.spec(); ok {
		opts.TTY = spec.TTY
		opts.Stderr = opts.Stderr && !spec.TTY
	}
	return opts
}

// openStream has the runtime prepare a stream, and changes opts to what it was asked for.
type openStream func(ctx context.Context, c Container, opts *StreamOptions) (*url.URL, error)

// serveStreams connects a client with a command.
func (s *Server) serveStreams(w http.ResponseWriter, r *http.Request, open openStream) {
	opts, err := parseStreams(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	c, ok := s.container(w, r, podMissing)
	if !ok {
		return
	}
	if s.cfg.Containers.Streams == nil {
		missing(w, "a stream to a container")
		return
	}
	if !isUpgrade(r) {
		fail(w, http.StatusBadRequest, upgradeRequired)
		return
	}
	u, err := open(r.Context(), c, &opts)
	if err != nil {
		failAt(w, err)
		return
	}
	endless(w)
	if wantsChannels(r) {
		s.translate(w, r, u, opts)
		return
	}
	s.proxy(w, r, u)
}

// The texts of the kubelet.
const (
	podMissing      = "pod does not exist"
	upgradeRequired = "Upgrade request required"
)

// servePortForward connects a client with ports of a pod.
func (s *Server) servePortForward(w http.ResponseWriter, r *http.Request) {
	tunnelled := tunnelProtocols(r)
	var ports []int32
	if isWebSocket(r) && len(tunnelled) == 0 {
		var err error
		if ports, err = parsePorts(r.URL.Query()); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	pod, ok := s.pod(w, r, podMissing)
	if !ok {
		return
	}
	if s.cfg.Containers.Streams == nil {
		missing(w, "a connection to a port")
		return
	}
	if !isUpgrade(r) {
		fail(w, http.StatusBadRequest, upgradeRequired)
		return
	}
	u, err := s.cfg.Containers.Streams.PortForward(r.Context(), pod, ports)
	if err != nil {
		failAt(w, err)
		return
	}
	endless(w)
	if len(tunnelled) > 0 {
		s.tunnel(w, r, u, tunnelled)
		return
	}
	s.proxy(w, r, u)
}
