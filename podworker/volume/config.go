package volume

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Config is how a [Manager] works. The zero value works for volumes that need nobody
// else.
type Config struct {
	// Root is the directory below which volumes are; empty: DefaultRoot.
	Root string
	// Allocatable, until Manager.SetAllocatable changes it, is what the node can give to its pods: the limit of volumes in memory,
	// and what a resourceFieldRef shows of a container without a limit.
	Allocatable corev1.ResourceList
	// Objects has ConfigMaps and Secrets, Tokens those of service accounts, and Bundles
	// ClusterTrustBundles. With nil, volumes that need one cannot be set up.
	Objects Objects
	Tokens  Tokens
	Bundles Bundles
	// Providers have the volumes of other kinds; the first that supports one is asked.
	Providers []Provider
	// Resync is how long a volume with changing content stays without a look whether
	// something has changed that nobody told of; 0: a minute, and up to half of it more.
	Resync time.Duration
	// OnEvent gets what users want to know. It is called by many goroutines and must not
	// block; nil: nobody listens.
	OnEvent func(pod *corev1.Pod, e Event)
	// OnAttempt is told of each attempt to set up a volume, by many goroutines, and must not
	// block: for metrics. nil: nobody is told.
	OnAttempt func(Attempt)
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

// Attempt is one to set up a volume that has ended.
type Attempt struct {
	// Plugin is the kubelet's name for its kind, such as kubernetes.io/empty-dir. Of the
	// kinds of a Provider it is kubernetes.io/csi.
	Plugin string
	// Took is how long it took.
	Took time.Duration
	// Err is why it failed; nil: it did not.
	Err error
}

const defaultResync = time.Minute

func (c *Config) complete() error {
	switch {
	case c.Root != "" && !filepath.IsAbs(c.Root):
		return fmt.Errorf("volume: Config.Root is %q, want an absolute path", c.Root)
	case c.Resync < 0:
		return fmt.Errorf("volume: Config.Resync is %s, want no negative time", c.Resync)
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	if c.Resync == 0 {
		c.Resync = defaultResync
	}
	if c.OnAttempt == nil {
		c.OnAttempt = func(Attempt) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
