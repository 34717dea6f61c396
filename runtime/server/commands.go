package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Commands runs commands in containers and waits for them.
type Commands interface {
	// Run returns all that the command wrote. A command that fails is an error.
	Run(ctx context.Context, c Container, cmd []string) ([]byte, error)
}

// Checkpoints saves the state of containers.
type Checkpoints interface {
	// Checkpoint returns the path of the archive. A timeout of zero is the runtime's own.
	Checkpoint(ctx context.Context, c Container, timeout time.Duration) (string, error)
}

// serveRun runs the words of the parameter cmd.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	c, ok := s.container(w, r, podMissing)
	if !ok {
		return
	}
	if s.cfg.Containers.Commands == nil {
		missing(w, "a command in a container")
		return
	}
	endless(w)
	out, err := s.cfg.Containers.Commands.Run(r.Context(), c, strings.Split(r.URL.Query().Get("cmd"), " "))
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	// Whatever the command wrote is answered as it is; no browser is to make something of it.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(out) // who asked may have gone
}

// serveCheckpoint saves the state of a container.
func (s *Server) serveCheckpoint(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.pod(w, r, podMissing)
	if !ok {
		return
	}
	c := Container{Pod: pod, Name: r.PathValue("container")}
	if _, ok := c.spec(); !ok {
		fail(w, http.StatusNotFound, fmt.Sprintf("container %v does not exist", c.Name))
		return
	}
	timeout, err := parseTimeout(r.URL.Query()["timeout"])
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if s.cfg.Containers.Checkpoints == nil {
		missing(w, "the checkpoint of a container")
		return
	}
	endless(w)
	archive, err := s.cfg.Containers.Checkpoints.Checkpoint(r.Context(), c, timeout)
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", pod.Namespace, pod.Name, c.Name, err))
		return
	}
	sendJSON(w, map[string][]string{"items": {archive}})
}

// maxTimeout is the longest time in seconds that is a time.Duration, too.
const maxTimeout = int64(1<<63-1) / int64(time.Second)

// parseTimeout reads seconds; of several values the last counts, as in the kubelet.
func parseTimeout(values []string) (time.Duration, error) {
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[len(values)-1], 10, 64)
	if err != nil || n < 0 || n > maxTimeout {
		return 0, fmt.Errorf("cannot parse value %q of timeout parameter: want seconds", values[len(values)-1])
	}
	return time.Duration(n) * time.Second, nil
}
