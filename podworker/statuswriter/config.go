package statuswriter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods is what a Writer needs of the API server for the pods of one namespace.
// client-go's typed client is one. Errors are told apart as
// k8s.io/apimachinery/pkg/api/errors does.
type Pods interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Pod, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Pod, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// The defaults of a Config. The kubelet writes one status at a time and looks at all
// of them again every ten seconds.
const (
	defaultParallel = 4
	defaultBatch    = 100 * time.Millisecond
	defaultTimeout  = 30 * time.Second
)

// Config says how a Writer works. Pods is required.
type Config struct {
	// Pods returns the client for the pods of a namespace.
	Pods func(namespace string) Pods
	// Dir is the directory of the journal of terminal statuses, made with mode 0700 if
	// it is missing. Empty: there is no journal, and a crash may lose how a pod ended.
	Dir string
	// Parallel is how many statuses are written at a time; 0: 4.
	Parallel int
	// Batch is how long a status may wait for the next one of the same pod, to be
	// written in one. Terminal statuses and changes of readiness never wait. 0: 100 ms;
	// negative: nothing waits.
	Batch time.Duration
	// Timeout bounds one call to the API server; 0: 30 s.
	Timeout time.Duration
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

// Hooks are told what happens in a Writer. Any of them may be nil. They are called by
// many goroutines and must not block.
type Hooks struct {
	// Written is called after each attempt to write.
	Written func(Write)
	// Acknowledged is called when the API server has the terminal status of a pod, or
	// has that pod no more: what kept its last dead container is over.
	Acknowledged func(types.UID)
}

// Write is an attempt to bring a status to the API server.
type Write struct {
	UID types.UID
	// Changed is when the status was set; Took is how long the calls took.
	Changed time.Time
	Took    time.Duration
	// Patched is false if the API server had the status already.
	Patched bool
	// Deleted is true if the API server was told to remove the pod.
	Deleted bool
	// Err is why it failed, and will be tried again.
	Err error
}

// MetricSync is the kubelet's histogram, in seconds, of the time from a status to its
// arrival at the API server.
const MetricSync = "kubelet_pod_status_sync_duration_seconds"

func (c *Config) validate() error {
	switch {
	case c.Pods == nil:
		return errors.New("statuswriter: Config.Pods is nil, want the client of the API server")
	case c.Parallel < 0:
		return fmt.Errorf("statuswriter: Config.Parallel is %d, want 0 (%d) or more", c.Parallel, defaultParallel)
	case c.Timeout < 0:
		return fmt.Errorf("statuswriter: Config.Timeout is %s, want 0 (%s) or more", c.Timeout, defaultTimeout)
	}
	if c.Parallel == 0 {
		c.Parallel = defaultParallel
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
