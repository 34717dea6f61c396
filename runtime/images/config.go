package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// The limits of a Config that sets none. A registry that is slow leaves half of the
// places to the others.
const (
	defaultParallel    = 6
	defaultPerRegistry = 3
)

// Config says how a Manager works. The zero value pulls up to six images at a time
// without credentials.
type Config struct {
	// MaxParallel is how many pulls the runtime works on at a time; zero means 6. One
	// is serializeImagePulls of the kubelet's configuration, another value its
	// maxParallelImagePulls.
	MaxParallel int
	// MaxPerRegistry is how many of them go to one registry; zero means 3 if MaxParallel
	// is zero too, and otherwise no limit of its own.
	MaxPerRegistry int
	// QPS and Burst are registryPullQPS and registryBurst: pulls per second, and how many
	// may begin at once. A pull beyond that fails and backs off. Zero means no limit; with
	// a QPS, Burst has to be one or more.
	QPS   float64
	Burst int
	// Credentials are where credentials come from.
	Credentials Credentials
	// Records remembers whose credentials pulled what; nil lets every pod use every image
	// that is on the node. Call its Recover before the first pull.
	Records *pullrecord.Store
	// Verifier says when Records counts.
	Verifier pullrecord.Verifier
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

// Credentials are the sources of credentials, in the order in which they are tried. The
// zero value has none.
type Credentials struct {
	// Secret returns an image pull secret of a pod. It is called when a pull needs it;
	// nil means that pods with pull secrets are served as if those did not exist.
	Secret func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Files are Docker configuration files of the node.
	Files registryauth.Files
	// Providers are credential-provider plugins; nil has none.
	Providers *registryauth.Providers
}

func (c *Config) validate() error {
	switch {
	case c.MaxParallel < 0:
		return fmt.Errorf("Config.MaxParallel is %d, want 0 (%d) or more", c.MaxParallel, defaultParallel)
	case c.MaxPerRegistry < 0:
		return fmt.Errorf("Config.MaxPerRegistry is %d, want 0 or more", c.MaxPerRegistry)
	case !(c.QPS >= 0): // also for NaN
		return fmt.Errorf("Config.QPS is %v, want 0 (no limit) or more", c.QPS)
	case c.QPS > 0 && c.Burst < 1:
		return fmt.Errorf("Config.Burst is %d, want 1 or more with a QPS", c.Burst)
	}
	return nil
}

// limits returns the numbers of parallel pulls, all together and to one registry.
func (c *Config) limits() (parallel, perRegistry int) {
	parallel, perRegistry = c.MaxParallel, c.MaxPerRegistry
	if perRegistry == 0 {
		perRegistry = parallel
		if parallel == 0 {
			perRegistry = defaultPerRegistry
		}
	}
	if parallel == 0 {
		parallel = defaultParallel
	}
	return parallel, min(parallel, perRegistry)
}

// What New and Ensure say without what they cannot do without.
var (
	errNoRuntime = errors.New("the runtime is nil")
	errNoPod     = errors.New("images: Request.Pod is nil")
)
