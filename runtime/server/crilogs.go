package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// CopyLog implements Logs.
func (c *CRI) CopyLog(ctx context.Context, w io.Writer, of Container, opts *corev1.PodLogOptions) error {
	id, err := of.logged(opts.Previous)
	if err != nil {
		return err
	}
	st, err := c.runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		return fmt.Errorf("unable to retrieve container logs for container %q (%s): %w", of.Name, id, err)
	}
	file, err := c.logFile(st.GetStatus().GetLogPath())
	if err != nil {
		return fmt.Errorf("unable to retrieve container logs for container %q (%s): %w", of.Name, id, err)
	}
	o := newLogOptions(opts, time.Now())
	if o.Follow {
		o.Running = func(ctx context.Context) (bool, error) { return c.running(ctx, id) }
		if _, err := w.Write(nil); err != nil {
			return err
		}
	}
	return logs.Copy(ctx, w, file, o)
}

// logFile returns where a log is, below the folder of all logs.
func (c *CRI) logFile(path string) (logs.File, error) {
	root := filepath.Clean(c.cfg.LogRoot)
	rel, err := filepath.Rel(root, path)
	if path == "" || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return logs.File{}, fmt.Errorf("its log %q is not below %s", path, root)
	}
	return logs.File{Root: root, Path: rel}, nil
}

// running reports whether a container goes on writing.
func (c *CRI) running(ctx context.Context, id string) (bool, error) {
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{Id: id})
	if err != nil {
		return true, err
	}
	return len(list) > 0 && list[0].GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, nil
}

// newLogOptions says it in the words of package logs.
func newLogOptions(opts *corev1.PodLogOptions, now time.Time) logs.Options {
	o := logs.Options{Tail: opts.TailLines, Follow: opts.Follow, Timestamps: opts.Timestamps}
	if opts.LimitBytes != nil {
		o.Limit = *opts.LimitBytes
	}
	if opts.SinceSeconds != nil {
		o.Since = now.Add(-seconds(*opts.SinceSeconds))
	}
	if opts.SinceTime != nil {
		o.Since = opts.SinceTime.Time
	}
	if opts.Stream != nil {
		switch *opts.Stream {
		case corev1.LogStreamStdout:
			o.Stream = logs.Stdout
		case corev1.LogStreamStderr:
			o.Stream = logs.Stderr
		}
	}
	return o
}

// seconds does not overflow.
func seconds(n int64) time.Duration { return time.Duration(min(n, maxTimeout)) * time.Second }

// The reasons of containers that wait for their image, which have words of their own.
const (
	reasonPull        = "ErrImagePull"
	reasonPullBackOff = "ImagePullBackOff"
)

// logged returns the id of the run whose log is asked for: the one that runs or ended last,
// or the one before. The errors are those that people know from kubectl logs.
func (c Container) logged(previous bool) (string, error) {
	name := fmt.Sprintf("container %q in pod %q", c.Name, c.Pod.Name)
	st, ok := c.status()
	if !ok {
		return "", errors.New(name + " is not available")
	}
	last := ""
	if st.LastTerminationState.Terminated != nil {
		last = st.LastTerminationState.Terminated.ContainerID
	}
	switch {
	case previous && last == "":
		return "", errors.New("previous terminated " + name + " not found")
	case previous:
		return bareID(last), nil
	case st.State.Running != nil:
		return bareID(st.ContainerID), nil
	case st.State.Terminated != nil && st.State.Terminated.ContainerID != "":
		return bareID(st.State.Terminated.ContainerID), nil
	case last != "":
		return bareID(last), nil // the next run did not start
	case st.State.Terminated != nil || st.LastTerminationState.Terminated != nil:
		return "", errors.New(name + " is terminated")
	case st.State.Waiting == nil:
		return "", errors.New(name + " is waiting to start - no logs yet")
	}
	reason := st.State.Waiting.Reason
	switch reason {
	case reasonPull:
		reason = "image can't be pulled"
	case reasonPullBackOff:
		reason = "trying and failing to pull image"
	}
	return "", errors.New(name + " is waiting to start: " + reason)
}

// bareID drops the name of the runtime, as in containerd://ID.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}
